// What the tests of a broker on a failing server share: real time, a short lease, a worker of tasks that completes what it gets, and a record
// of what happened to each job.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/log.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

#include "servers/fault_proxy.hpp"
#include "servers/redis_server.hpp"

namespace ergon::test {

using namespace std::chrono_literals;

template <class Condition>
bool eventually(Condition holds, std::chrono::seconds at_most = 10s) {
  const steady_time end = clock::system().steady() + at_most;
  while (!holds()) {
    if (clock::system().steady() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// How often each payload was completed, as the workers were answered.
class ledger {
 public:
  void add(std::string_view payload) {
    const std::scoped_lock lock{mutex_};
    ++times_[std::string{payload}];
  }
  [[nodiscard]] std::size_t distinct() const {
    const std::scoped_lock lock{mutex_};
    return times_.size();
  }
  [[nodiscard]] int times(const std::string& payload) const {
    const std::scoped_lock lock{mutex_};
    const auto it = times_.find(payload);
    return it == times_.end() ? 0 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> times_;
};

/// Waits for the end of a task that was cancelled.
inline void end(runtime& rt, join_handle<void>& task) {
  task.cancel();
  try {
    rt.block_on([](join_handle<void> handle) -> ergon::task<void> { co_await handle; }(std::move(task)));
  } catch (const error& how) {
    EXPECT_EQ(how.reason(), errc::cancelled) << how.what();
  }
}

/// Keeps a store in order for as long as it lives.
class kept_in_order {
 public:
  kept_in_order(runtime& rt, consumer& by) : runtime_(rt), upkeep_(rt.spawn(by.maintain(), "maintain")) {}
  ~kept_in_order() { end(runtime_, upkeep_); }

 private:
  runtime& runtime_;
  join_handle<void> upkeep_;
};

/// A worker that completes what it gets, and goes on through every error. It keeps the store in order, too.
class steady_worker {
 public:
  steady_worker(runtime& rt, std::shared_ptr<broker> store, ledger& into) : runtime_(rt) {
    consumer_ = rt.block_on(store->join({.queues = {{.name = "default"}}, .concurrency = 4}));
    work_ = rt.spawn(work(*consumer_, into), "work");
    upkeep_ = rt.spawn(consumer_->maintain(), "maintain");
    news_ = rt.spawn(hear(*consumer_, lost_), "news");
  }
  ~steady_worker() {
    for (auto* handle : {&work_, &upkeep_, &news_}) end(runtime_, *handle);
    try {
      runtime_.block_on(consumer_->leave());
    } catch (const error& e) {
      ADD_FAILURE() << "a worker could not leave: " << e.what();
    }
  }

  [[nodiscard]] consumer& seat() noexcept { return *consumer_; }
  /// Leases that it was told to have lost.
  [[nodiscard]] int lost() const noexcept { return lost_.load(); }

 private:
  static task<void> work(consumer& seat, ledger& into) {
    delivery_batch batch;
    for (;;) {
      bool rests = false;
      try {
        co_await seat.fetch(16, batch);
      } catch (const error& e) {
        rests = true;
      }
      if (rests) co_await sleep_for(10ms);
      for (const delivery& job : batch.jobs) {
        const settlement done{.lease = job.lease, .text = "ok"};
        settled how = settled::lost;
        for (;;) {
          bool again = false;
          try {
            co_await seat.settle({&done, 1}, {&how, 1});
          } catch (const error& e) {
            again = true;
          }
          if (!again) break;
          co_await sleep_for(10ms);
        }
        if (how == settled::yes) into.add(job.payload);
      }
      batch.clear();
    }
  }
  static task<void> hear(consumer& seat, std::atomic<int>& lost) {
    for (;;) lost += static_cast<int>((co_await seat.news()).lost.size());
  }

  runtime& runtime_;
  std::unique_ptr<consumer> consumer_;
  std::atomic<int> lost_{0};
  join_handle<void> work_;
  join_handle<void> upkeep_;
  join_handle<void> news_;
};

class FaultTest : public ::testing::Test {
 protected:
  [[nodiscard]] static std::string with_options(std::string url) {
    return url + "?lease=1s&response_timeout=500ms&connect_timeout=2s&patience=2s";
  }
  std::shared_ptr<broker> open(const std::string& url) { return open_broker(with_options(url), {.runtime = &rt}); }

  /// Puts a job in; goes on until it is known to be stored. A job whose outcome is unknown may be there twice.
  static enqueued put(runtime& rt, broker& store, std::string_view payload, int* unknown = nullptr) {
    for (;;) {
      const new_job job{.kind = "k", .payload = payload};
      enqueued out;
      try {
        rt.block_on(store.enqueue({&job, 1}, {&out, 1}));
        return out;
      } catch (const error& e) {
        if (e.reason() != errc::unknown_outcome && e.reason() != errc::unavailable && e.reason() != errc::store_read_only) throw;
        if (e.reason() == errc::unknown_outcome && unknown != nullptr) ++*unknown;
      }
    }
  }
  static std::optional<errc> failure_of(runtime& rt, task<void> body, std::string* text = nullptr) {
    try {
      rt.block_on(std::move(body));
      return std::nullopt;
    } catch (const error& e) {
      if (text != nullptr) *text = e.what();
      return e.reason();
    }
  }
  queue_info counts(broker& store) {
    for (queue_info& q : rt.block_on(store.queues())) {
      if (q.name == "default") return std::move(q);
    }
    return {};
  }

  runtime rt{{.threads = 2, .name = "faults"}};
};

}  // namespace ergon::test
