// What is SQLite's own among the promises: several brokers on one file, transactions of the caller, a full store, clocks and reboots. What all
// brokers share is in tests/conformance.
#include "broker/sqlite/sqlite_broker.hpp"

#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <ergon/broker/sqlite.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>

#include "broker/sqlite/test_folder.hpp"

namespace ergon::sqlite {
namespace {

using namespace std::chrono_literals;

task<std::vector<enqueued>> put(broker& into, std::vector<new_job> jobs) {
  std::vector<enqueued> out(jobs.size());
  co_await into.enqueue(jobs, out);
  co_return out;
}

/// Fetches and completes until `count` jobs are done, and tells of each by its payload.
task<void> work_off(std::shared_ptr<broker> from, std::atomic<int>& left, std::multiset<std::string>& done, std::mutex& mutex) {
  auto worker = co_await from->join({.queues = {{"default", 1}}, .concurrency = 8});
  delivery_batch batch;
  while (left.load() > 0) {
    batch.clear();
    try {
      co_await timeout(50ms, worker->fetch(8, batch));
    } catch (const error& e) {
      if (e.reason() != errc::timed_out) throw;
    }
    std::vector<settlement> ends;
    for (const delivery& job : batch.jobs) {
      ends.push_back({.lease = job.lease});
    }
    std::vector<settled> how(ends.size());
    co_await worker->settle(ends, how);
    const std::lock_guard held{mutex};
    for (std::size_t i = 0; i < how.size(); ++i) {
      if (how[i] == settled::yes) {
        done.emplace(batch.jobs[i].payload);
        --left;
      }
    }
  }
  co_await worker->leave();
}

class SqliteBrokerTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string url(std::string_view options = {}) const { return "sqlite:" + path + std::string{options}; }
  [[nodiscard]] std::shared_ptr<broker> open_it(std::string_view options = {}) {
    return open_broker(url(options), {.runtime = &rt});
  }

  template <class F>
  static std::optional<errc> refusal(F f) {
    try {
      f();
    } catch (const error& e) {
      return e.reason();
    }
    return std::nullopt;
  }

  /// Enqueues `job` until the store is full, works all of them off, and finds room again.
  void fill_and_drain(const std::shared_ptr<broker>& b, const new_job& job) {
    int stored = 0;
    const auto full = refusal([&] {
      for (;; ++stored) {
        rt.block_on(put(*b, {job}));
      }
    });
    EXPECT_EQ(full, errc::store_full);
    EXPECT_GT(stored, 10);
    std::atomic<int> left{stored};
    std::multiset<std::string> done;
    std::mutex mutex;
    rt.block_on(work_off(b, left, done, mutex));
    EXPECT_EQ(done.size(), static_cast<std::size_t>(stored));
    EXPECT_NO_THROW(rt.block_on(put(*b, {{.kind = "k"}})));
  }

  test_folder folder;
  std::string path = folder / "jobs.db";
  runtime rt{{.threads = 2}};
};

TEST_F(SqliteBrokerTest, OneProcessSharesOneBrokerPerUrl) {
  const auto a = open_it();
  EXPECT_EQ(a, open_it());
  EXPECT_NE(a, open_it("?lease=31s"));
}

TEST_F(SqliteBrokerTest, AFileThatWasReplacedIsAnotherStore) {
  const auto a = open_it();
  rt.block_on(put(*a, {{.kind = "k"}}));
  std::filesystem::rename(path, path + ".old");
  std::filesystem::rename(path + "-wal", path + ".old-wal");
  std::filesystem::remove(path + "-shm");
  const auto b = open_it();
  EXPECT_NE(a, b);
  EXPECT_TRUE(rt.block_on(b->queues()).empty());
}

TEST_F(SqliteBrokerTest, AskedForNonsenseItSaysWhatIsRight) {
  EXPECT_EQ(refusal([&] { static_cast<void>(open_broker("sqlite:", {.runtime = &rt})); }), errc::bad_url);
  EXPECT_EQ(refusal([&] { static_cast<void>(open_it("?synchronous=sometimes")); }), errc::bad_url);
  EXPECT_EQ(refusal([&] { static_cast<void>(open_it("?lease=-1s")); }), errc::bad_url);
  EXPECT_EQ(refusal([&] { static_cast<void>(open_it("?max_payload=1TiB")); }), errc::bad_url);
  EXPECT_EQ(refusal([&] { static_cast<void>(open_it("?colour=red")); }), errc::bad_url);
  EXPECT_FALSE(std::filesystem::exists(path)) << "a refused URL makes no file";
}

// Promise 3 and "two processes fight over one database": different URLs are different brokers, with connections and slots of their own.
TEST_F(SqliteBrokerTest, BrokersThatShareAFileDeliverEveryJobOnce) {
  constexpr int jobs = 2000;
  const auto a = open_it("?lease=31s");
  const auto b = open_it("?lease=32s");
  const auto c = open_it("?lease=33s");
  std::atomic<int> left{jobs};
  std::multiset<std::string> done;
  std::mutex mutex;
  auto first = rt.spawn(work_off(a, left, done, mutex));
  auto second = rt.spawn(work_off(b, left, done, mutex));
  rt.block_on([](std::shared_ptr<broker> into) -> task<void> {
    for (int i = 0; i < jobs; ++i) {
      const auto payload = std::to_string(i);
      co_await put(*into, std::vector<new_job>{{.kind = "k", .payload = payload}});
    }
  }(c));
  rt.block_on([](join_handle<void> x, join_handle<void> y) -> task<void> {
    co_await x;
    co_await y;
  }(std::move(first), std::move(second)));
  EXPECT_EQ(done.size(), static_cast<std::size_t>(jobs));
  EXPECT_EQ(std::set(done.begin(), done.end()).size(), static_cast<std::size_t>(jobs)) << "each once";
}

TEST_F(SqliteBrokerTest, AWaitEndsWhenAnotherBrokerCompletesTheJob) {
  const auto client = open_it("?lease=31s");
  const auto server = open_it("?lease=32s");
  const auto ids = rt.block_on(put(*client, {{.kind = "k", .keep_result = 1h}}));
  auto waiting = rt.spawn(client->wait(ids[0].id));
  rt.block_on([](std::shared_ptr<broker> b) -> task<void> {
    auto worker = co_await b->join({.queues = {{"default", 1}}});
    delivery_batch batch;
    co_await worker->fetch(1, batch);
    const settlement end{.lease = batch.jobs.at(0).lease, .text = "42"};
    settled how{};
    co_await worker->settle({&end, 1}, {&how, 1});
    co_await worker->leave();
  }(server));
  const auto end = rt.block_on([](join_handle<job_end> h) -> task<job_end> { co_return co_await h; }(std::move(waiting)));
  EXPECT_EQ(end.state, job_state::completed);
  EXPECT_EQ(end.text, "42");
}

TEST_F(SqliteBrokerTest, AWorkerElsewhereIsToldThatItsJobWasCancelled) {
  const auto client = open_it("?lease=31s");
  const auto server = open_it("?lease=32s");
  const auto ids = rt.block_on(put(*client, {{.kind = "k"}}));
  rt.block_on([](std::shared_ptr<broker> at, std::shared_ptr<broker> from, std::string id) -> task<void> {
    auto worker = co_await at->join({.queues = {{"default", 1}}});
    delivery_batch batch;
    co_await worker->fetch(1, batch);
    EXPECT_EQ(co_await from->cancel(id), job_state::active);
    const consumer_news news = co_await worker->news();
    EXPECT_EQ(news.lost, std::vector{batch.jobs.at(0).lease});
    co_await worker->leave();
  }(server, client, ids[0].id));
}

TEST_F(SqliteBrokerTest, AJobInACallersTransactionExistsOnlyIfItsRowsDo) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const connection mine{db};
  execute(db, "CREATE TABLE orders(id INTEGER PRIMARY KEY)", "prepare");
  EXPECT_EQ(refusal([&] { static_cast<void>(open_it()); }), errc::not_a_store);
  const auto b = open_it("?host=true");
  {
    sqlite_transaction jobs{db, b};
    const std::vector<new_job> one{{.kind = "bill", .payload = "1", .id = "order-1"}};
    EXPECT_EQ(refusal([&] { static_cast<void>(jobs.enqueue(one)); }), errc::wrong_state) << "no transaction is open";

    execute(db, "BEGIN; INSERT INTO orders VALUES (1)", "write");
    EXPECT_TRUE(jobs.enqueue(one).at(0).created);
    execute(db, "ROLLBACK", "roll back");
    EXPECT_FALSE(rt.block_on(b->find("order-1")).has_value());

    execute(db, "BEGIN; INSERT INTO orders VALUES (1)", "write");
    EXPECT_TRUE(jobs.enqueue(one).at(0).created);
    EXPECT_FALSE(jobs.enqueue(one).at(0).created) << "the second sees the first";
    execute(db, "COMMIT", "commit");
    jobs.notify();
    EXPECT_EQ(rt.block_on(b->find("order-1"))->state, job_state::ready);
  }
  rt.block_on([](std::shared_ptr<broker> from) -> task<void> {
    auto worker = co_await from->join({.queues = {{"default", 1}}});
    delivery_batch batch;
    co_await worker->fetch(10, batch);
    EXPECT_EQ(batch.jobs.size(), 1U);
    EXPECT_EQ(batch.jobs.at(0).kind, "bill");
    co_await worker->leave();
  }(b));
}

TEST_F(SqliteBrokerTest, ATransactionOnAnotherFileIsRefused) {
  const auto b = open_it();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "other.db").c_str(), &db), SQLITE_OK);
  const connection other{db};
  execute(db, "CREATE TABLE t(x)", "prepare");
  EXPECT_EQ(refusal([&] { sqlite_transaction jobs(db, b); }), errc::not_a_store);
}

// Promise 11.
TEST_F(SqliteBrokerTest, AFullStoreRefusesEnqueuesAndDrains) {
  const std::string payload(20'000, 'x');
  fill_and_drain(open_it("?max_bytes=1MiB"), {.kind = "k", .payload = payload, .max_retries = 0, .keep_result = 1h});
}

// Promise 11, with a disk that has no byte left. The disk is a memory file system of this test's own, which needs the right to mount.
TEST_F(SqliteBrokerTest, AFullDiskRefusesEnqueuesAndDrains) {
  const std::string disk = folder / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=12m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here";
  }
  path = disk + "/jobs.db";
  const std::string payload(50'000, 'x');
  fill_and_drain(open_it(), {.kind = "k", .payload = payload});
  ::umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(SqliteBrokerTest, OneLargeJobOnAFullStoreDoesNotRefuseTheSmallOnesBesideIt) {
  const auto b = open_it("?max_bytes=1MiB");
  const std::string large(2'000'000, 'x');
  std::optional<errc> refused;
  bool stored = false;
  rt.block_on([](broker& into, const std::string& big, std::optional<errc>& how, bool& small_stored) -> task<void> {
    auto other = spawn([](broker& to, const std::string& payload, std::optional<errc>& said) -> task<void> {
      try {
        co_await put(to, std::vector<new_job>{{.kind = "k", .payload = payload}});
      } catch (const error& e) {
        said = e.reason();
      }
    }(into, big, how));
    co_await put(into, std::vector<new_job>{{.kind = "k", .payload = "small"}});
    small_stored = true;
    co_await other;
  }(*b, large, refused, stored));
  EXPECT_EQ(refused, errc::store_full);
  EXPECT_TRUE(stored);
}

// Promise 9.
TEST_F(SqliteBrokerTest, ARecordThatCannotBeReadIsKeptByteForByteThroughEveryHandAndBuriedAsItWas) {
  const auto b = open_it();
  const std::string garbage = "\x01not a record";
  rt.block_on(put(*b, {{.kind = "k", .payload = "innocent"}, {.kind = "k"}}));
  {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
    const connection db{raw};
    statement{raw, "UPDATE ergon_job SET body = ? WHERE seq = (SELECT max(seq) FROM ergon_job)"}(std::span<const char>{garbage})
        .run();
  }
  rt.block_on([](std::shared_ptr<broker> from, std::string bytes) -> task<void> {
    auto victim = co_await from->join({.queues = {{"default", 1}}});
    delivery_batch batch;
    co_await victim->fetch(10, batch);
    EXPECT_EQ(batch.jobs.size(), 2U);
    victim->abandon();

    auto heir = co_await from->join({.queues = {{"default", 1}}});
    auto upkeep = spawn(heir->maintain());
    std::vector<settlement> ends;
    while (ends.size() < 2) {
      batch.clear();
      co_await heir->fetch(10, batch);
      for (const delivery& job : batch.jobs) {
        const bool unreadable = job.fit == record_fit::garbage;
        ends.push_back({.lease = job.lease, .how = unreadable ? verdict::bury : verdict::complete, .text = "cannot be read"});
      }
    }
    upkeep.cancel();
    static_cast<void>(co_await as_result(upkeep));
    std::vector<settled> how(ends.size());
    co_await heir->settle(ends, how);
    EXPECT_EQ(how, std::vector(2, settled::yes));
    const auto dead = (co_await from->list({.state = job_state::dead}, {}, 10)).jobs;
    EXPECT_EQ(dead.size(), 1U);
    if (!dead.empty()) {
      EXPECT_EQ(dead[0].payload, bytes);
      EXPECT_EQ(dead[0].note, "cannot be read");
    }
    co_await heir->leave();
  }(b, garbage));
}

TEST_F(SqliteBrokerTest, DelaysGoOnThroughARebootByTheCalendar) {
  manual_clock clock;
  runtime virtual_rt{{.threads = 1, .clock = &clock}};
  const auto reopened = [&] { return open_broker(url(), {.runtime = &virtual_rt}); };
  {
    const auto b = reopened();
    virtual_rt.block_on(put(*b, {{.kind = "k", .id = "later", .delay = 2h}}));
  }
  clock.reboot(90min);
  const auto b = reopened();
  const auto job = virtual_rt.block_on(b->find("later"));
  ASSERT_TRUE(job && job->due);
  EXPECT_NEAR(std::chrono::duration<double>(*job->due - clock.wall()).count(), 1800.0, 2.0) << "thirty minutes are left";
}

TEST_F(SqliteBrokerTest, ACalendarStepMovesNoDelay) {
  manual_clock clock;
  runtime virtual_rt{{.threads = 1, .clock = &clock}};
  const auto b = open_broker(url(), {.runtime = &virtual_rt});
  virtual_rt.block_on(put(*b, {{.kind = "k", .id = "later", .delay = 2h}}));
  clock.set_wall(clock.wall() + 1h);
  EXPECT_NEAR(std::chrono::duration<double>(*virtual_rt.block_on(b->find("later"))->due - clock.wall()).count(), 7200.0, 1.0);
  clock.set_wall(clock.wall() - 2h);
  EXPECT_NEAR(std::chrono::duration<double>(*virtual_rt.block_on(b->find("later"))->due - clock.wall()).count(), 7200.0, 1.0);
}

TEST_F(SqliteBrokerTest, AForkedChildIsRefused) {
  const auto b = open_it();
  rt.block_on(put(*b, {{.kind = "k"}}));
  const pid_t child = ::fork();
  if (child == 0) {
    // The runtime's threads did not come along; the refusal comes before anything is awaited.
    auto* const of = dynamic_cast<sqlite_broker*>(b.get());
    struct nothing final : operation_base {
      void run(store& /*in*/) override {}
      void finish() noexcept override {}
    } op;
    try {
      of->commits().submit(op);
    } catch (const error& e) {
      ::_exit(e.reason() == errc::closed ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_NO_THROW(rt.block_on(put(*b, {{.kind = "k"}}))) << "the parent goes on";
}

TEST_F(SqliteBrokerTest, TheFileDoesNotGrowWithTheJobsThatPassThroughIt) {
  const auto b = open_it();
  const auto pass = [&](int jobs) {
    std::atomic<int> left{jobs};
    std::multiset<std::string> done;
    std::mutex mutex;
    auto working = rt.spawn(work_off(b, left, done, mutex));
    for (int i = 0; i < jobs; i += 100) {
      rt.block_on(put(*b, std::vector<new_job>(100, {.kind = "k", .payload = "some bytes to store"})));
    }
    rt.block_on([](join_handle<void> h) -> task<void> { co_await h; }(std::move(working)));
    return std::filesystem::file_size(path) + std::filesystem::file_size(path + "-wal");
  };
  const auto before = pass(2000);
  const auto after = pass(20'000);
  EXPECT_LT(after, before + (std::uintmax_t{20} << 20)) << "twenty thousand more jobs left more than the log's bound behind";
}

}  // namespace
}  // namespace ergon::sqlite
