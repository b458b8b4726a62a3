#include "broker/sqlite/sqlite_broker.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/id.hpp>
#include <ergon/base/text.hpp>

#include "broker/check.hpp"
#include "broker/job_id.hpp"
#include "broker/sqlite/sqlite_consumer.hpp"

namespace ergon {

namespace sqlite {

namespace {

constexpr std::uint64_t default_payload = std::uint64_t{16} << 20;
constexpr std::uint64_t most_payload = std::uint64_t{256} << 20;
constexpr std::chrono::seconds default_lease{30};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string worker_name() {
  static id_source ids;
  return fmt::format("{}:{}:{}", host_name(), ::getpid(), ids.next());
}

store_options read_options(const url& where) {
  if (where.path.empty()) {
    throw error{errc::bad_url,
                fmt::format("the broker URL {} names no file: write sqlite:jobs.db or sqlite:/var/lib/app/jobs.db", where.shown)};
  }
  store_options options;
  option_reader reader{where};
  options.file.path = where.path;
  options.file.sync = reader.take_choice<synchronous>("synchronous", synchronous::normal,
                                                      {{"normal", synchronous::normal}, {"full", synchronous::full}});
  options.file.host = reader.take_bool("host", false);
  options.file.max_bytes = reader.take_size("max_bytes", 0);
  options.max_payload = reader.take_size("max_payload", default_payload, 1, most_payload);
  options.lease = std::chrono::duration_cast<std::chrono::milliseconds>(
      reader.take_duration("lease", default_lease, std::chrono::seconds{3}, std::chrono::hours{24}));
  reader.done();
  return options;
}

std::unique_ptr<store> make_store(sqlite3* db, ergon::clock& clock, side_file& side) {
  auto made = std::make_unique<store>(db, clock);
  side.lock();
  try {
    made->begin();
    made->open_epoch();
    made->commit();
  } catch (...) {
    made->rollback();
    side.unlock();
    throw;
  }
  side.unlock();
  return made;
}

open_options read_only(open_options options) {
  options.read_only = true;
  return options;
}

}  // namespace

sqlite_broker::sqlite_broker(std::string url, store_options options, ergon::runtime& rt, ergon::clock& clk)
    : url_{std::move(url)}, options_{std::move(options)}, runtime_{rt}, clock_{clk} {
  // The database first: what is wrong with it is what its user must hear, and a refused file gets no side file.
  connection db = open(options_.file);
  side_.emplace(options_.file.path);
  auto in = make_store(db.get(), clock_, *side_);
  const auto max_pages = options_.file.max_bytes != 0 ? query_integer(db.get(), "PRAGMA max_page_count") : 0;
  std::string log = sqlite3_filename_wal(sqlite3_db_filename(db.get(), "main"));
  committer_ = std::make_shared<committer>(runtime_, std::move(db), std::move(in), *side_,
                                           committer_options{.path = options_.file.path,
                                                             .in_place = options_.file.sync == synchronous::normal,
                                                             .max_pages = max_pages,
                                                             .told = [this](effects& what) { attendant_->tell(what); }});
  attendant_ = std::make_unique<attendant>(*committer_, *side_, clock_, options_.lease, std::move(log));
  inspector_ = std::make_unique<inspector>(open(read_only(options_.file)), clock_);
}

sqlite_broker::~sqlite_broker() {
  // Its thread submits to the committer, whose callback tells it: first the thread, then the committer, then the object.
  attendant_->stop();
  committer_->close();
}

task<void> sqlite_broker::enqueue(std::span<const new_job> jobs, std::span<enqueued> out) {
  check_new_jobs(jobs, options_.max_payload);
  co_await commit(*committer_, room::taken, [&](store& in) { in.enqueue(jobs, out); });
}

task<std::unique_ptr<consumer>> sqlite_broker::join(consumer_options options) {
  shares turns{options.queues, options.strict};
  std::vector<std::int64_t> queues;
  std::string listed;
  for (const auto& q : options.queues) {
    listed += fmt::format("{}{} {}", listed.empty() ? "" : " ", q.name, q.weight);
  }
  const std::string name = worker_name();
  const std::string host = host_name();
  std::int64_t owner = 0;
  co_await commit(*committer_, room::taken, [&](store& in) {
    queues.clear();
    for (const auto& q : options.queues) {
      queues.push_back(in.queue_id(q.name));
    }
    const member self{.id = 0,
                      .name = name,
                      .boot = clock_.boot_id(),
                      .side = side_->id(),
                      .slot = side_->slot(),
                      .token = side_->token(),
                      .beat = attendant_->steady_ms()};
    owner = in.join(self, host, static_cast<std::uint32_t>(::getpid()), options.concurrency, listed);
  });
  co_return std::make_unique<sqlite_consumer>(shared_from_this(), name, owner, std::move(queues), std::move(turns));
}

namespace {

class watched {
 public:
  watched(attendant& by, waiter& who) : by_{by}, who_{who} { by_.add(who_); }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  ~watched() { by_.remove(who_); }

 private:
  attendant& by_;
  waiter& who_;
};

}  // namespace

task<job_end> sqlite_broker::wait(std::string id) {
  const auto look = [this, &id] {
    const auto seen = inspector_->look(id, "default");
    if (!seen.exists) {
      throw error{errc::not_found,
                  fmt::format("there is no job {}, or it ended and what it kept has expired", ergon::quoted(id))};
    }
    if (!seen.keeps) {
      throw error{errc::no_result,
                  fmt::format("the job {} keeps no result: enqueue it with keep_result to wait for its end", ergon::quoted(id))};
    }
    return seen;
  };
  auto seen = co_await reader_.run(look);
  if (seen.end) {
    co_return *std::move(seen.end);
  }
  waiter me;
  me.serial = seen.serial;
  const watched until_done{*attendant_, me};
  for (;;) {
    me.rung.reset();
    seen = co_await reader_.run(look);
    if (seen.end) {
      co_return *std::move(seen.end);
    }
    co_await me.rung.wait();
  }
}

task<std::optional<job_info>> sqlite_broker::find(std::string id, std::string queue) {
  co_return co_await reader_.run([&] { return inspector_->find(id, queue); });
}

task<job_page> sqlite_broker::list(job_filter filter, std::string cursor, std::size_t limit) {
  if (limit < 1 || limit > 1000) {
    throw error{errc::invalid_argument, fmt::format("a page of {} jobs cannot be listed; 1 to 1000 can", limit)};
  }
  co_return co_await reader_.run([&] { return inspector_->list(filter, cursor, limit); });
}

task<std::vector<queue_info>> sqlite_broker::queues() {
  co_return co_await reader_.run([this] { return inspector_->queues(); });
}

task<std::vector<hour_stats>> sqlite_broker::stats(std::string queue, std::uint32_t hours) {
  if (hours < 1 || hours > 2160) {
    throw error{errc::invalid_argument, fmt::format("the last {} hours cannot be shown; 1 to 2160 can", hours)};
  }
  co_return co_await reader_.run([&] { return inspector_->stats(queue, hours); });
}

task<std::vector<worker_info>> sqlite_broker::workers() {
  co_return co_await reader_.run([this] { return inspector_->workers(); });
}

task<job_state> sqlite_broker::cancel(std::string id, std::string queue) {
  job_state before{};
  co_await commit(*committer_, room::made, [&](store& in) { before = in.cancel(id, queue); });
  co_return before;
}

task<std::string> sqlite_broker::run(std::string id, std::string queue) {
  std::string life;
  co_await commit(*committer_, room::taken, [&](store& in) { life = in.run(id, queue); });
  co_return life;
}

task<void> sqlite_broker::remove(std::string id, std::string queue) {
  co_await commit(*committer_, room::made, [&](store& in) { in.remove(id, queue); });
}

task<void> sqlite_broker::pause(std::string queue) {
  co_await commit(*committer_, room::taken, [&](store& in) { in.pause(queue, true); });
}

task<void> sqlite_broker::resume(std::string queue) {
  co_await commit(*committer_, room::taken, [&](store& in) { in.pause(queue, false); });
}

void sqlite_broker::notify() {
  committer_->wake_fetches();
  committer_->run_now();
  side_->ring(bell_revoked - 1, std::numeric_limits<std::uint64_t>::max());
  attendant_->stir();
}

}  // namespace sqlite

std::shared_ptr<broker> open_sqlite(const url& where, broker_options options) {
  using sqlite::sqlite_broker;
  const auto read = sqlite::read_options(where);
  ergon::runtime& rt = options.runtime != nullptr ? *options.runtime : runtime::default_runtime();
  ergon::clock& clk = options.clock != nullptr ? *options.clock : rt.clock();

  // One broker per file, options, runtime and clock: what a client and a worker of one process say to each other need not go through the file.
  // A file that was replaced under its path is another one.
  using key = std::tuple<std::string, ergon::runtime*, ergon::clock*, dev_t, ino_t>;
  static std::mutex mutex;
  static std::map<key, std::weak_ptr<sqlite_broker>> opened;
  const auto key_of = [&] {
    struct stat info{};
    const bool there = ::stat(read.file.path.c_str(), &info) == 0;
    return key{where.shown, &rt, &clk, there ? info.st_dev : 0, there ? info.st_ino : 0};
  };
  const std::lock_guard held{mutex};
  std::erase_if(opened, [](const auto& entry) { return entry.second.expired(); });
  if (const auto at = opened.find(key_of()); at != opened.end()) {
    if (auto known = at->second.lock()) {
      return known;
    }
  }
  // In a forked child nothing of it is the child's to close: neither the locks nor the threads.
  std::shared_ptr<sqlite_broker> made{new sqlite_broker{where.shown, read, rt, clk},
                                      [born = sqlite::process_mark{}](sqlite_broker* gone) {
                                        if (born.is_mine()) {
                                          delete gone;
                                        }
                                      }};
  opened[key_of()] = made;
  return made;
}

}  // namespace ergon
