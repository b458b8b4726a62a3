#include "broker/sqlite/schema.hpp"

#include <array>

#include <fmt/format.h>

#include "broker/sqlite/database.hpp"

namespace ergon::sqlite {

namespace {

/// Step n brings a store from version n to n + 1. A step that has been released is never edited.
constexpr std::array<const char*, schema_version> steps{R"sql(
CREATE TABLE ergon_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- The counters are those of `hour`; older hours are in ergon_stats. They stand here so that a transaction dirties one page.
CREATE TABLE ergon_queue(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, paused INTEGER NOT NULL DEFAULT 0,
  head INTEGER NOT NULL DEFAULT 1, tail INTEGER NOT NULL DEFAULT 1,
  front_head INTEGER NOT NULL DEFAULT 1, front_tail INTEGER NOT NULL DEFAULT 1,
  hour INTEGER NOT NULL DEFAULT 0, enqueued INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0,
  discarded INTEGER NOT NULL DEFAULT 0, reclaimed INTEGER NOT NULL DEFAULT 0);

CREATE TABLE ergon_stats(
  queue INTEGER NOT NULL, hour INTEGER NOT NULL, enqueued INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL,
  dead INTEGER NOT NULL, cancelled INTEGER NOT NULL, discarded INTEGER NOT NULL, reclaimed INTEGER NOT NULL,
  PRIMARY KEY(queue, hour)) WITHOUT ROWID;

CREATE TABLE ergon_job(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE ergon_lease(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, owner INTEGER NOT NULL);
CREATE INDEX ergon_lease_owner ON ergon_lease(owner);

-- due: milliseconds of the calendar where wall = 1, of the store's own time otherwise.
CREATE TABLE ergon_parked(
  serial INTEGER PRIMARY KEY, queue INTEGER NOT NULL, state INTEGER NOT NULL, wall INTEGER NOT NULL, due INTEGER NOT NULL,
  body BLOB NOT NULL);
CREATE INDEX ergon_parked_due ON ergon_parked(wall, due);

CREATE TABLE ergon_loc(serial INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE ergon_own(queue INTEGER NOT NULL, id TEXT NOT NULL, serial INTEGER NOT NULL, live INTEGER NOT NULL, PRIMARY KEY(queue, id)) WITHOUT ROWID;
CREATE TABLE ergon_unique(queue INTEGER NOT NULL, key BLOB NOT NULL, serial INTEGER NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY(queue, key)) WITHOUT ROWID;

-- ended_at: microseconds of the calendar. expires: milliseconds of the store's own time.
CREATE TABLE ergon_ended(
  serial INTEGER PRIMARY KEY, queue INTEGER NOT NULL, state INTEGER NOT NULL, ended_at INTEGER NOT NULL, expires INTEGER NOT NULL,
  body BLOB NOT NULL);
CREATE INDEX ergon_ended_expiry ON ergon_ended(expires);
CREATE INDEX ergon_ended_state ON ergon_ended(queue, state, expires);

-- beat: milliseconds of CLOCK_MONOTONIC of the boot `boot`. (side, slot, token): its place in the side file.
CREATE TABLE ergon_worker(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, boot TEXT NOT NULL, side INTEGER NOT NULL,
  slot INTEGER NOT NULL, token INTEGER NOT NULL, beat INTEGER NOT NULL, started INTEGER NOT NULL, seen INTEGER NOT NULL,
  concurrency INTEGER NOT NULL, queues TEXT NOT NULL);

CREATE TABLE ergon_mark(seq INTEGER PRIMARY KEY);
CREATE TABLE ergon_progress(seq INTEGER PRIMARY KEY, done REAL NOT NULL, note TEXT NOT NULL);
CREATE TABLE ergon_revoked(owner INTEGER NOT NULL, seq INTEGER NOT NULL, token INTEGER NOT NULL, PRIMARY KEY(owner, seq)) WITHOUT ROWID;
)sql"};

int version_of(sqlite3* db) {
  return has_schema(db) ? static_cast<int>(query_integer(db, "SELECT value FROM ergon_meta WHERE key = 'schema'")) : 0;
}

}  // namespace

void migrate(sqlite3* db, bool own_file) {
  if (version_of(db) == schema_version) {
    return;
  }
  execute(db, "BEGIN IMMEDIATE", "open");
  try {
    // Another process may have done it while this one waited for the lock.
    int version = version_of(db);
    if (version > schema_version) {
      throw error{errc::newer_format,
                  fmt::format("the store \"{}\" has schema version {}, and this release knows {} at most: use a newer release",
                              sqlite3_db_filename(db, "main"), version, schema_version)};
    }
    for (; version < schema_version; ++version) {
      execute(db, steps[static_cast<std::size_t>(version)], "migrate");
    }
    execute(db, fmt::format("INSERT OR REPLACE INTO ergon_meta(key, value) VALUES ('schema', {})", schema_version).c_str(),
            "migrate");
    if (own_file) {
      execute(db, fmt::format("PRAGMA application_id = {}", application_id).c_str(), "migrate");
    }
    execute(db, "COMMIT", "migrate");
  } catch (...) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

}  // namespace ergon::sqlite
