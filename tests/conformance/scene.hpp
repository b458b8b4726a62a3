// What every conformance test starts from: a store of its own behind the `broker` interface, a clock that only the test moves, and plain
// functions over both. A test states behaviour once and runs on every store in `stores()`; another broker joins by a line there.
//
// Promises (docs/DESIGN.md §7) are cited by number where a test holds one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

#include "servers/redis_server.hpp"

namespace ergon::conformance {

using namespace std::chrono_literals;

/// A kind of store, and the URL of a fresh one in `folder`.
struct store_kind {
  const char* name;
  std::string (*url)(const std::filesystem::path& folder, std::string_view options);
};

inline void PrintTo(const store_kind& kind, std::ostream* out) { *out << kind.name; }

inline std::string with_options(std::string url, std::string_view options) {
  return options.empty() ? url : std::move(url) + "?" + std::string{options};
}

/// One for all tests of a process; each test has a namespace of its own.
inline test::redis_server& redis_of_tests() {
  static test::redis_server server;
  return server;
}

inline std::vector<store_kind> stores() {
  return {{.name = "memory",
           .url = [](const std::filesystem::path& folder,
                     std::string_view options) { return with_options("memory:" + folder.filename().string(), options); }},
          {.name = "sqlite",
           .url = [](const std::filesystem::path& folder,
                     std::string_view options) { return with_options("sqlite:" + (folder / "jobs.db").string(), options); }},
          {.name = "redis", .url = [](const std::filesystem::path& folder, std::string_view options) {
             const std::string url = redis_of_tests().url() + "?namespace=" + folder.filename().string();
             return options.empty() ? url : url + "&" + std::string{options};
           }}};
}

inline std::string store_name(const ::testing::TestParamInfo<store_kind>& info) { return info.param.name; }

/// Waits, while others work, until something holds. For what another thread is about to do; machine time bounds it only to end a
/// hopeless wait.
template <class Condition>
bool eventually(Condition holds, std::chrono::seconds at_most = 30s) {
  const steady_time end = clock::system().steady() + at_most;
  while (!holds()) {
    if (clock::system().steady() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class Scene : public ::testing::TestWithParam<store_kind> {
 protected:
  /// Jobs of one fetch with the memory that they point into.
  struct taken {
    delivery_batch batch;
    [[nodiscard]] std::vector<delivery>& jobs() { return batch.jobs; }
    [[nodiscard]] const delivery& at(std::size_t i) const { return batch.jobs.at(i); }
    [[nodiscard]] std::size_t size() const { return batch.jobs.size(); }
  };

  /// Runs `maintain` of a consumer for as long as it lives.
  class upkeep {
   public:
    upkeep(ergon::runtime& on, consumer& of) : runtime_(&on), running_(on.spawn(of.maintain(), "maintain")) {}
    upkeep(upkeep&&) = default;
    ~upkeep() { stop(); }
    void stop() {
      if (!running_) return;
      running_.cancel();
      try {
        runtime_->block_on(joined(std::move(running_)));
      } catch (const error& end) {
        EXPECT_EQ(end.reason(), errc::cancelled) << end.what();
      }
      running_ = {};
    }

   private:
    static task<void> joined(join_handle<void> handle) { co_await handle; }
    ergon::runtime* runtime_;
    join_handle<void> running_;
  };

  Scene() { open(); }
  ~Scene() override {
    store.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// Opens the store again with other options; what was in a named memory store is gone if nobody holds it.
  void open(std::string_view options = {}) {
    store.reset();
    store = open_broker(GetParam().url(folder_, options), {.runtime = &rt, .clock = &clock});
  }
  [[nodiscard]] std::shared_ptr<broker> another_handle() {
    return open_broker(GetParam().url(folder_, {}), {.runtime = &rt, .clock = &clock});
  }
  /// Opens the store with room for a few hundred jobs of ten thousand bytes.
  void open_with_little_room() {
    if (!is("redis")) return open(is("memory") ? "max_bytes=200000" : "max_bytes=4MiB");
    open();
    // Other tests have left something behind.
    const std::string memory = redis_of_tests().command({"INFO", "memory"}).text;
    const auto used = std::stoull(memory.substr(memory.find("used_memory:") + std::string_view{"used_memory:"}.size()));
    redis_of_tests().command({"CONFIG", "SET", "maxmemory", std::to_string(used + (4U << 20U))});
    room_.emplace();
  }
  [[nodiscard]] bool is(std::string_view name) const { return GetParam().name == name; }

  template <class T>
  T run(task<T> body) {
    return rt.block_on(std::move(body));
  }
  /// Waits for a spawned task that is about to end. A cancelled one throws `errc::cancelled`.
  template <class T>
  T joined(join_handle<T> handle) {
    if (!eventually([&] { return handle.done(); })) {
      ADD_FAILURE() << "a wait did not end though it should have";
      handle.cancel();
    }
    return rt.block_on(await(std::move(handle)));
  }
  /// The reason why `body` failed; nothing where it did not.
  template <class T>
  std::optional<errc> failure_of(task<T> body) {
    try {
      (void)rt.block_on(forget(std::move(body)));
      return std::nullopt;
    } catch (const error& e) {
      EXPECT_GT(std::string_view{e.what()}.size(), 10U) << "an error says what is wrong";
      last_error = e.what();
      return e.reason();
    }
  }

  enqueued put(const new_job& job) {
    enqueued out;
    run(store->enqueue({&job, 1}, {&out, 1}));
    return out;
  }
  std::vector<enqueued> put_all(std::span<const new_job> jobs) {
    std::vector<enqueued> out(jobs.size());
    run(store->enqueue(jobs, out));
    return out;
  }
  std::vector<std::string> put_many(std::size_t count, std::string_view queue = "default", std::string_view kind = "k") {
    std::vector<std::string> ids;
    std::vector<new_job> jobs;
    std::vector<std::string> payloads;
    for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
    for (std::size_t i = 0; i < count; ++i) jobs.push_back({.queue = queue, .kind = kind, .payload = payloads[i]});
    for (auto& e : put_all(jobs)) ids.push_back(std::move(e.id));
    return ids;
  }
  std::optional<errc> refusal(const new_job& job) {
    enqueued out;
    return failure_of(store->enqueue({&job, 1}, {&out, 1}));
  }

  std::unique_ptr<consumer> join(std::vector<queue_share> queues = {{.name = "default", .weight = 1}}, bool strict = false) {
    auto made = run(store->join({.queues = std::move(queues), .strict = strict, .concurrency = 8}));
    living_.push_back(made->id());
    return made;
  }
  /// The worker dies.
  void abandon(consumer& worker) {
    std::erase(living_, worker.id());
    worker.abandon();
  }
  /// For jobs that must be there, or be on their way.
  taken take(consumer& by, std::size_t max = 1) {
    taken out;
    joined(rt.spawn(by.fetch(max, out.batch)));
    return out;
  }
  /// Takes until it has `count`.
  std::vector<taken> take_exactly(consumer& by, std::size_t count) {
    std::vector<taken> all;
    for (std::size_t have = 0; have < count;) {
      all.push_back(take(by, count - have));
      if (all.back().size() == 0) break;
      have += all.back().size();
    }
    return all;
  }
  settled settle(consumer& by, const settlement& what) {
    settled out = settled::lost;
    run(by.settle({&what, 1}, {&out, 1}));
    return out;
  }
  settled complete(consumer& by, const delivery& job, std::string_view result = {}) {
    return settle(by, {.lease = job.lease, .how = verdict::complete, .text = result});
  }

  /// The end of a job that has ended or is about to.
  job_end end_of(const std::string& id) { return joined(rt.spawn(store->wait(id))); }

  std::optional<job_info> find(const std::string& id, const std::string& queue = "default") {
    return run(store->find(id, queue));
  }
  job_info info(const std::string& id, const std::string& queue = "default") {
    auto found = find(id, queue);
    if (!found) {
      ADD_FAILURE() << "no job " << id;
      return {};
    }
    return std::move(*found);
  }
  std::optional<job_state> state(const std::string& id) {
    const auto found = find(id);
    return found ? std::optional{found->state} : std::nullopt;
  }
  queue_info counts(std::string_view queue = "default") {
    for (auto& q : run(store->queues())) {
      if (q.name == queue) return q;
    }
    queue_info none;
    none.name = queue;
    return none;
  }
  hour_stats totals(const std::string& queue = "default") {
    hour_stats sum;
    for (const hour_stats& h : run(store->stats(queue, 2160))) {
      sum.enqueued += h.enqueued;
      sum.completed += h.completed;
      sum.failed += h.failed;
      sum.dead += h.dead;
      sum.cancelled += h.cancelled;
      sum.discarded += h.discarded;
      sum.reclaimed += h.reclaimed;
    }
    return sum;
  }

  /// True if a task is still waiting after the store has had every chance to end it.
  template <class T>
  bool stays_waiting(const join_handle<T>& handle) {
    for (int i = 0; i < 50; ++i) {
      (void)run(store->queues());
      if (handle.done()) return false;
    }
    return true;
  }
  template <class T>
  void cancel(join_handle<T> handle) {
    handle.cancel();
    try {
      joined(std::move(handle));
    } catch (const error& end) {
      EXPECT_EQ(end.reason(), errc::cancelled) << end.what();
    }
  }

  /// Lets time pass as it does outside of tests: slowly enough for a living worker to show that it lives.
  void pass(std::chrono::seconds span) {
    while (span > 0s) {
      const auto step = std::min(span, 5s);
      clock.advance(step);
      span -= step;
      EXPECT_TRUE(eventually([&] {
        return std::ranges::all_of(run(store->workers()), [&](const worker_info& w) {
          return std::ranges::find(living_, w.id) == living_.end() || w.seen_at >= clock.wall() - 16s;
        });
      })) << "a living worker was not seen for more than 16 s";
    }
  }
  /// Lets time pass, if the store wants it to, until a dead worker's jobs were taken over.
  template <class Condition>
  bool after_takeover(Condition holds) {
    for (int i = 0; i < 400; ++i) {
      for (int k = 0; k < 20; ++k) {
        if (holds()) return true;
        std::this_thread::yield();
      }
      pass(1s);
    }
    return eventually(holds);
  }
  /// Kills a worker and waits until its jobs are ready again (or dead).
  void lose(std::unique_ptr<consumer> worker, std::string_view queue = "default") {
    abandon(*worker);
    worker.reset();
    auto other = join({{.name = std::string{queue}, .weight = 1}});
    {
      const upkeep keeps{rt, *other};
      EXPECT_TRUE(after_takeover([&] { return counts(queue).active == 0; })) << "the jobs of a dead worker were not taken over";
    }
    run(other->leave());
  }

  manual_clock clock;
  ergon::runtime rt{{.threads = 2, .name = "test", .clock = &clock}};
  std::shared_ptr<broker> store;
  std::string last_error;

 private:
  template <class T>
  static task<T> await(join_handle<T> handle) {
    co_return co_await handle;
  }
  template <class T>
  static task<void> forget(task<T> body) {
    (void)co_await std::move(body);
  }
  static task<void> forget(task<void> body) { co_await std::move(body); }

  static std::filesystem::path fresh_folder() {
    static std::atomic<unsigned> next{0};
    auto path =
        std::filesystem::temp_directory_path() / ("ergon-conformance-" + std::to_string(getpid()) + "-" + std::to_string(next++));
    std::filesystem::create_directories(path);
    return path;
  }
  struct all_the_room_again {
    ~all_the_room_again() { redis_of_tests().command({"CONFIG", "SET", "maxmemory", "0"}); }
  };
  std::optional<all_the_room_again> room_;
  std::filesystem::path folder_ = fresh_folder();
  std::vector<std::string> living_;
};

}  // namespace ergon::conformance

#define ERGON_ON_EVERY_STORE(suite) \
  INSTANTIATE_TEST_SUITE_P(Broker, suite, ::testing::ValuesIn(::ergon::conformance::stores()), ::ergon::conformance::store_name)
