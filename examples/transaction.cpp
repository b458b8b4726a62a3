// A job in the program's own SQLite transaction: the order and the job that bills it are stored together or not at all.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>
#include <thread>

#include <sqlite3.h>

#include <ergon/broker/sqlite.hpp>
#include <ergon/queue/queue.hpp>

struct bill {
  int order = 0;
};
BOOST_DESCRIBE_STRUCT(bill, (), (order))

ergon::task<std::string> on_bill(const bill& job) { co_return "billed order " + std::to_string(job.order); }

int main() {
  const auto broker = ergon::open_broker("sqlite:shop.db?host=true");
  sqlite3* db = nullptr;
  if (sqlite3_open("shop.db", &db) != SQLITE_OK) return 1;
  const auto run = [db](const char* sql) { return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK; };
  bool ok = run("PRAGMA busy_timeout = 5000; CREATE TABLE orders(id INTEGER PRIMARY KEY)");

  std::string id;
  {
    ergon::sqlite_transaction jobs{db, broker};
    const auto put = [&](int order) {
      ergon::job_batch batch;
      batch.add(bill{order}, {.keep_result = std::chrono::hours{1}});
      return jobs.enqueue(batch.jobs()).front().id;
    };
    // The customer thought better of it: neither the row nor the job was ever there.
    ok = ok && run("BEGIN; INSERT INTO orders VALUES (1)");
    put(1);
    ok = ok && run("ROLLBACK");

    ok = ok && run("BEGIN; INSERT INTO orders VALUES (2)");
    id = put(2);
    ok = ok && run("COMMIT");
    jobs.notify();
  }
  sqlite3_close(db);

  ergon::worker worker{broker};
  worker.handle(on_bill);
  std::jthread working{[&](std::stop_token stop) { worker.run(stop); }};
  const ergon::client client{broker};
  const auto answer = ergon::block_on(client.wait<std::string>(id));
  const auto completed = ergon::block_on(client.list({.state = ergon::job_state::completed})).jobs.size();
  std::cout << answer << ", " << completed << " job in all\n";
  return ok && answer == "billed order 2" && completed == 1 ? 0 : 1;
}
