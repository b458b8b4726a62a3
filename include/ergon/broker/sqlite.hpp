// Jobs inside a caller's own SQLite transaction: the job exists if, and only if, the caller's rows do.
//
//   ergon::sqlite_transaction jobs{db, broker};        // broker: sqlite:app.db?host=true, db: the program's own connection
//   BEGIN; INSERT INTO orders …;  jobs.enqueue(…);  COMMIT;
//   jobs.notify();                                     // optional: workers look at once instead of within two seconds
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/broker/broker.hpp>

struct sqlite3;

namespace ergon {

/// Puts jobs in through a connection of the caller's. Belongs to the thread that uses the connection; both the connection and
/// the broker must outlive it. One object may serve any number of transactions, one after another.
class ERGON_EXPORT sqlite_transaction {
 public:
  /// Throws `errc::invalid_argument` where `via` is no SQLite broker, `errc::not_a_store` where `db` has another file open.
  sqlite_transaction(sqlite3* db, std::shared_ptr<broker> via);
  sqlite_transaction(const sqlite_transaction&) = delete;
  sqlite_transaction& operator=(const sqlite_transaction&) = delete;
  ~sqlite_transaction();

  /// As `broker::enqueue`, within the transaction that is open on the connection; `errc::wrong_state` where none is. Should the caller roll
  /// back, nothing of it ever was. Blocks for as long as SQLite does: the connection's busy timeout is the caller's.
  [[nodiscard]] std::vector<enqueued> enqueue(std::span<const new_job> jobs);

  /// After COMMIT: wakes workers of every process.
  void notify();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace ergon
