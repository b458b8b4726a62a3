// The tables of a SQLite store and how an older store becomes a newer one.
//
// Plain jobs cost one row in `ergon_job`: its key is `stream << 40 | n`, a stream being one of the two lines of a queue (what was
// put in, and what was handed back or taken over and goes first). Everything below a stream's head is leased or gone, everything from it on is
// ready: leasing a hundred jobs moves the head and writes one row of `ergon_lease`. A job that changes hands gets another key, so
// the key is the fence: deleting the row proves that one still owned it. What needs more than that pays for more:
//
//   ergon_parked   scheduled and retrying jobs, by serial          ergon_own      own ids, live and ended
//   ergon_loc      serial → key, where the two differ              ergon_unique   unique locks
//   ergon_ended    dead, kept, cancelled, discarded                ergon_mark     suspects that run now
//   ergon_revoked  leases that their worker does not know it lost
#pragma once

#include <sqlite3.h>

namespace ergon::sqlite {

/// The version that this release writes.
inline constexpr int schema_version = 1;
/// "ergn": marks a file that holds nothing but a store.
inline constexpr int application_id = 0x6572676e;

/// Brings the schema to `schema_version`, in one transaction per step. `own_file` marks the file as ergon's.
void migrate(sqlite3* db, bool own_file);

}  // namespace ergon::sqlite
