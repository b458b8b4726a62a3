// The store's transitions on somebody else's connection. Nothing is cached between two calls: between them anything may have happened to the
// transaction.
#include <ergon/broker/sqlite.hpp>

#include <sys/stat.h>

#include <fmt/format.h>

#include "broker/check.hpp"
#include "broker/sqlite/sqlite_broker.hpp"
#include "broker/sqlite/store.hpp"

namespace ergon {

struct sqlite_transaction::impl {
  sqlite3* db;
  std::shared_ptr<sqlite::sqlite_broker> via;
  sqlite::store in;
};

namespace {

std::shared_ptr<sqlite::sqlite_broker> check(sqlite3* db, std::shared_ptr<broker> via) {
  auto of = std::dynamic_pointer_cast<sqlite::sqlite_broker>(std::move(via));
  if (!of) {
    throw error{errc::invalid_argument, "jobs can be put in within a caller's SQLite transaction only through a sqlite: broker"};
  }
  const char* file = sqlite3_db_filename(db, "main");
  struct stat theirs{};
  struct stat ours{};
  if (file == nullptr || ::stat(file, &theirs) != 0 || ::stat(of->path().c_str(), &ours) != 0 || theirs.st_dev != ours.st_dev ||
      theirs.st_ino != ours.st_ino) {
    throw error{errc::not_a_store,
                fmt::format("the connection has \"{}\" open, and the broker \"{}\": open the broker on the connection's file, as "
                            "sqlite:PATH?host=true",
                            file != nullptr ? file : "", of->path())};
  }
  return of;
}

}  // namespace

sqlite_transaction::sqlite_transaction(sqlite3* db, std::shared_ptr<broker> via) {
  auto of = check(db, std::move(via));
  auto& clock = of->clock();
  impl_ = std::make_unique<impl>(db, std::move(of), sqlite::store{db, clock});
}

sqlite_transaction::~sqlite_transaction() = default;

std::vector<enqueued> sqlite_transaction::enqueue(std::span<const new_job> jobs) {
  if (sqlite3_get_autocommit(impl_->db) != 0) {
    throw error{errc::wrong_state, "no transaction is open on the connection: BEGIN one, put the job in, COMMIT both"};
  }
  check_new_jobs(jobs, impl_->via->max_payload());
  std::vector<enqueued> out(jobs.size());
  impl_->in.forget();
  impl_->in.open_epoch();
  impl_->in.enter();
  impl_->in.enqueue(jobs, out);
  impl_->in.flush();
  return out;
}

void sqlite_transaction::notify() { impl_->via->notify(); }

}  // namespace ergon
