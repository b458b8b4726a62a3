// The bound of the SQLite broker: what a queue costs in SQLite by hand, with nothing around it. One thread, one table, prepared
// statements; a job is an INSERT, an UPDATE that claims it and a DELETE that settles it, each step in transactions of
// `--per_transaction` jobs. SQLite is set as ergon sets it. It reads no payload, knows no lease, no retry, no
// other process: it does less than a queue must.
#include <string>
#include <utility>

#include <sqlite3.h>

#include "bench/systems/program.hpp"

namespace {

using namespace ergon::bench;

void check(int code, sqlite3* db) {
  if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW)
    throw std::runtime_error(fmt::format("SQLite: {}", sqlite3_errmsg(db)));
}

class database {
 public:
  explicit database(const std::string& file) { check(sqlite3_open(file.c_str(), &db_), db_); }
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  ~database() { sqlite3_close(db_); }

  void run(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr), db_); }
  [[nodiscard]] std::int64_t ask(const char* sql) {
    sqlite3_stmt* s = nullptr;
    check(sqlite3_prepare_v2(db_, sql, -1, &s, nullptr), db_);
    check(sqlite3_step(s), db_);
    const std::int64_t answer = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return answer;
  }
  [[nodiscard]] sqlite3* get() const noexcept { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

class statement {
 public:
  statement(database& db, const char* sql) : db_{db.get()} {
    check(sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &s_, nullptr), db_);
  }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  ~statement() { sqlite3_finalize(s_); }

  void bind(int at, std::int64_t value) { check(sqlite3_bind_int64(s_, at, value), db_); }
  void bind(int at, const std::string& value) {
    check(sqlite3_bind_blob(s_, at, value.data(), static_cast<int>(value.size()), SQLITE_STATIC), db_);
  }
  /// Rows changed.
  int run() {
    check(sqlite3_step(s_), db_);
    check(sqlite3_reset(s_), db_);
    return sqlite3_changes(db_);
  }

 private:
  sqlite3* db_;
  sqlite3_stmt* s_ = nullptr;
};

// The whole loop. Jobs are taken from the head in order, `waiting` of them always stand between head and tail.
class loop {
 public:
  loop(database& db, std::int64_t per_transaction, std::int64_t payload_bytes)
      : begin_{db, "BEGIN IMMEDIATE"},
        commit_{db, "COMMIT"},
        insert_{db, "INSERT INTO job (id, state, owner, payload) VALUES (?1, 0, 0, ?2)"},
        claim_{db, "UPDATE job SET state = 1, owner = ?2 WHERE id = ?1"},
        settle_{db, "DELETE FROM job WHERE id = ?1 AND state = 1 AND owner = ?2"},
        per_transaction_{per_transaction},
        payload_(static_cast<std::size_t>(payload_bytes), 'p') {}

  /// `jobs` stand in the table already, with the ids from 1.
  void start_behind(std::int64_t jobs) { tail_ = jobs; }

  void put(std::int64_t jobs) {
    transaction([&] {
      for (std::int64_t i = 0; i < jobs; ++i) {
        insert_.bind(1, ++tail_);
        insert_.bind(2, payload_);
        put_ += insert_.run();
      }
    });
  }
  void take(std::int64_t jobs) {
    transaction([&] {
      for (std::int64_t i = 1; i <= jobs; ++i) {
        claim_.bind(1, head_ + i);
        claim_.bind(2, owner_);
        claimed_ += claim_.run();
      }
    });
    transaction([&] {
      for (std::int64_t i = 0; i < jobs; ++i) {
        settle_.bind(1, ++head_);
        settle_.bind(2, owner_);
        settled_ += settle_.run();
      }
    });
  }
  void put_and_take(std::int64_t jobs) {
    for (std::int64_t done = 0; done < jobs; done += per_transaction_) {
      put(per_transaction_);
      take(per_transaction_);
    }
  }

  [[nodiscard]] std::int64_t put_so_far() const noexcept { return put_; }
  [[nodiscard]] std::int64_t claimed() const noexcept { return claimed_; }
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_; }

 private:
  template <class Work>
  void transaction(Work work) {
    // A single statement is a transaction of its own.
    if (per_transaction_ == 1) return work();
    begin_.run();
    work();
    commit_.run();
  }

  statement begin_;
  statement commit_;
  statement insert_;
  statement claim_;
  statement settle_;
  std::int64_t per_transaction_;
  std::string payload_;
  std::int64_t owner_ = 42;
  std::int64_t head_ = 0;
  std::int64_t tail_ = 0;
  std::int64_t put_ = 0;
  std::int64_t claimed_ = 0;
  std::int64_t settled_ = 0;
};

std::int64_t whole_transactions(std::uint64_t jobs, std::int64_t per_transaction) {
  return (static_cast<std::int64_t>(jobs) + per_transaction - 1) / per_transaction * per_transaction;
}

boost::json::object e2e(const arguments& a) {
  const std::filesystem::path folder = a.text("dir");
  clear_store(folder, "bare.db");
  database db{(folder / "bare.db").string()};
  db.run("PRAGMA page_size = 4096");
  db.run("PRAGMA journal_mode = WAL");
  db.run("PRAGMA secure_delete = OFF");
  db.run("PRAGMA cache_size = -32000");
  db.run("PRAGMA wal_autocheckpoint = 4000");
  db.run("PRAGMA temp_store = MEMORY");
  db.run(a.text("synchronous") == "full" ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  db.run("CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, owner INTEGER NOT NULL, payload BLOB NOT NULL)");

  const auto per_transaction = static_cast<std::int64_t>(a.number("per_transaction"));
  const auto payload_bytes = static_cast<std::int64_t>(a.number("payload_bytes"));
  const std::int64_t jobs = whole_transactions(a.number("jobs"), per_transaction);
  const std::int64_t warmup = whole_transactions(a.number("warmup"), per_transaction);
  const auto waiting = static_cast<std::int64_t>(a.number("waiting"));
  if (per_transaction < 1) throw bad_arguments("--per_transaction must be at least 1");

  loop work{db, per_transaction, payload_bytes};
  db.run("BEGIN");
  {
    // Filled in one transaction whatever the loop does.
    statement fill{db, "INSERT INTO job (id, state, owner, payload) VALUES (?1, 0, 0, ?2)"};
    const std::string payload(static_cast<std::size_t>(payload_bytes), 'p');
    for (std::int64_t i = 1; i <= waiting; ++i) {
      fill.bind(1, i);
      fill.bind(2, payload);
      fill.run();
    }
  }
  db.run("COMMIT");
  work.start_behind(waiting);
  work.put_and_take(warmup);

  const stopwatch clock;
  work.put_and_take(jobs);
  const double seconds = clock.seconds();

  const std::int64_t all = jobs + warmup;
  const std::int64_t left = db.ask("SELECT count(*) FROM job WHERE state = 0");
  const bool verified = work.put_so_far() == all && work.claimed() == all && work.settled() == all && left == waiting;
  boost::json::object line;
  line["value"] = static_cast<double>(jobs) / seconds;
  line["verified"] = verified;
  if (!verified) {
    line["failure"] = fmt::format("of {} jobs {} were put in, {} claimed, {} settled; {} are left where {} should be", all,
                                  work.put_so_far(), work.claimed(), work.settled(), left, waiting);
  }
  line["about"] = about({{"sqlite", sqlite3_libversion()}});
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "e2e") return e2e(a);
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: e2e", a.scenario()));
  });
}
