#include <ergon/runtime/fork_join.hpp>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ergon/base/error.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/mutex.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>
#include <ergon/runtime/task_group.hpp>

#include "runtime/task_test_tools.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<long> fib(int n) {
  if (n < 2) {
    co_return n;
  }
  auto [a, b] = co_await fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

task<void> wait_on(event& e, std::atomic<int>& alive) {
  counted const here{alive};
  co_await e.wait();
}

// Waits, from outside, until as many tasks and branches of the runtime wait in an event.
void until_waiting(runtime& rt, std::size_t wanted) {
  for (;;) {
    std::size_t waiting = 0;
    for (const task_info& t : rt.tasks()) {
      waiting += t.waits_in.find("event") != std::string::npos ? 1 : 0;
    }
    if (waiting == wanted) {
      return;
    }
    std::this_thread::yield();
  }
}

TEST(ForkJoinTest, ComputesATree) {
  for (unsigned const threads : {1U, 2U, 4U}) {
    runtime rt{{.threads = threads}};
    EXPECT_EQ(rt.block_on(fib(22)), 17'711) << threads;
    EXPECT_EQ(rt.live_tasks(), 0U);
  }
}

TEST(ForkJoinTest, GivesValuesInTheOrderOfTheBranches) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    auto text = [](std::string s) -> task<std::string> { co_return s; };
    auto nothing = []() -> task<void> { co_return; };
    auto [a, b, c] = co_await fork_join(text("a string too long for its object"), nothing(), text("c"));
    static_assert(std::is_same_v<decltype(b), std::monostate>);
    EXPECT_EQ(a, "a string too long for its object");
    EXPECT_EQ(c, "c");

    std::vector<task<std::string>> many;
    for (int i = 0; i < 1000; ++i) {
      many.push_back(text(std::to_string(i)));
    }
    std::vector<std::string> const all = co_await fork_join(std::move(many));
    EXPECT_EQ(all.size(), 1000U);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(all[static_cast<std::size_t>(i)], std::to_string(i));
    }
    EXPECT_TRUE((co_await fork_join(std::vector<task<int>>{})).empty());
    std::vector<task<void>> voids;
    voids.push_back(nothing());
    co_await fork_join(std::move(voids));
  }());
}

TEST(ForkJoinTest, ThrowsWhatTheFirstOfThoseThatFailedThrewWhenAllHaveEnded) {
  runtime rt{{.threads = 2}};
  std::atomic<int> alive{0};
  std::atomic<int> ended{0};
  auto fails = [](int n, counted) -> task<int> {
    throw std::runtime_error(std::to_string(n));
    co_return 0;
  };
  auto ends = [](std::atomic<int>& ended, counted) -> task<int> {
    co_await yield();
    ++ended;
    co_return 1;
  };
  auto const both = [](auto& fails, auto& ends, std::atomic<int>& alive, std::atomic<int>& ended) -> task<void> {
    co_await fork_join(ends(ended, counted{alive}), fails(1, counted{alive}), ends(ended, counted{alive}),
                       fails(2, counted{alive}));
  };
  for (int i = 0; i < 100; ++i) {
    try {
      rt.block_on(both(fails, ends, alive, ended));
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "1");
    }
    EXPECT_EQ(ended.exchange(0), 2);
    EXPECT_EQ(alive, 0);
  }
}

TEST(ForkJoinTest, TakesNoEmptyTaskAndDestroysWhatIsNeverAwaited) {
  runtime rt{{.threads = 1}};
  std::atomic<int> alive{0};
  auto ends = [](counted) -> task<int> { co_return 1; };
  task<int> empty;
  EXPECT_THROW(static_cast<void>(fork_join(ends(counted{alive}), std::move(empty))), error);
  EXPECT_EQ(alive, 0);
  static_cast<void>(fork_join(ends(counted{alive}), ends(counted{alive})));
  EXPECT_EQ(alive, 0);
  std::vector<task<int>> some;
  some.push_back(ends(counted{alive}));
  some.emplace_back();
  EXPECT_THROW(static_cast<void>(fork_join(std::move(some))), error);
  EXPECT_EQ(alive, 0);
}

TEST(ForkJoinTest, BranchesMayWait) {
  for (unsigned const threads : {1U, 2U}) {
    mutex one;
    int shared = 0;
    runtime rt{{.threads = threads}};
    rt.block_on([](mutex& one, int& shared) -> task<void> {
      struct tree {
        static task<void> grow(int depth, mutex& one, int& shared) {
          if (depth == 0) {
            auto const held = co_await one.lock();
            int const seen = shared;
            co_await yield();
            shared = seen + 1;
            co_await sleep_for(1us);
            co_return;
          }
          co_await fork_join(grow(depth - 1, one, shared), grow(depth - 1, one, shared));
        }
      };
      co_await tree::grow(9, one, shared);
    }(one, shared));
    EXPECT_EQ(shared, 512);
  }
}

TEST(ForkJoinTest, ACancelReachesEveryBranchWhereverItWaits) {
  for (unsigned const threads : {1U, 2U}) {
    event never;
    std::atomic<int> alive{0};
    runtime rt{{.threads = threads}};
    struct tree {
      static task<void> grow(int depth, event& never, std::atomic<int>& alive) {
        counted const here{alive};
        if (depth == 0) {
          co_await wait_on(never, alive);
          co_return;
        }
        co_await fork_join(grow(depth - 1, never, alive), grow(depth - 1, never, alive));
      }
    };
    auto handle = rt.spawn(tree::grow(8, never, alive), "tree");
    until_waiting(rt, 256);
    for (const task_info& t : rt.tasks()) {
      EXPECT_EQ(t.name, "tree");
    }
    EXPECT_EQ(rt.live_tasks(), 1U);
    handle.cancel();
    auto const end = rt.block_on([](join_handle<>& handle) -> task<std::error_code> {
      auto const result = co_await as_result(handle);
      co_return result ? std::error_code{} : result.error();
    }(handle));
    EXPECT_EQ(end, errc::cancelled);
    EXPECT_EQ(alive, 0);
  }
}

TEST(ForkJoinTest, WhatIsCancelledBeforeItForksRunsNoBranch) {
  runtime rt{{.threads = 2}};
  std::atomic<int> ran{0};
  std::atomic<int> alive{0};
  auto const end = rt.block_on([](std::atomic<int>& ran, std::atomic<int>& alive) -> task<std::error_code> {
    event go;
    auto handle = spawn([](event& go, std::atomic<int>& ran, std::atomic<int>& alive) -> task<void> {
      auto branch = [](std::atomic<int>& ran, counted) -> task<void> {
        ++ran;
        co_return;
      };
      auto waits = go.wait();
      waits.ignore_cancel();
      co_await waits;
      co_await fork_join(branch(ran, counted{alive}), branch(ran, counted{alive}), branch(ran, counted{alive}));
      ran += 100;
    }(go, ran, alive));
    handle.cancel();
    go.set();
    auto const result = co_await as_result(handle);
    co_return result ? std::error_code{} : result.error();
  }(ran, alive));
  EXPECT_EQ(end, errc::cancelled);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(alive, 0);
}

TEST(ForkJoinTest, ACancelStopsATreeThatOnlyComputes) {
  std::atomic<bool> started{false};
  runtime rt{{.threads = 2}};
  struct tree {
    static task<long> grow(int depth, std::atomic<bool>& started) {
      started.store(true, std::memory_order_relaxed);
      if (depth == 0) {
        co_return 1;
      }
      auto [a, b] = co_await fork_join(grow(depth - 1, started), grow(depth - 1, started));
      co_return a + b;
    }
  };
  auto handle = rt.spawn(tree::grow(60, started));
  while (!started) {
    std::this_thread::yield();
  }
  handle.cancel();
  EXPECT_EQ(rt.shutdown(1h), 0U);
  EXPECT_TRUE(handle.done());
}

TEST(ForkJoinTest, AsResultSeesACancel) {
  event never;
  std::atomic<int> alive{0};
  runtime rt{{.threads = 2}};
  bool seen = false;
  auto handle = rt.spawn([](event& never, std::atomic<int>& alive, bool& seen) -> task<void> {
    auto const result = co_await as_result(fork_join(wait_on(never, alive), wait_on(never, alive)));
    seen = !result && result.error() == errc::cancelled;
    co_await yield();
    seen = false;
  }(never, alive, seen));
  until_waiting(rt, 2);
  handle.cancel();
  EXPECT_EQ(rt.shutdown(1h), 0U);
  EXPECT_TRUE(seen);
  EXPECT_EQ(alive, 0);
}

TEST(ForkJoinTest, WorksBelowGroupsAndTimeoutsAndAboveThem) {
  event never;
  std::atomic<int> alive{0};
  runtime rt{{.threads = 2}};
  rt.block_on([](event& never, std::atomic<int>& alive) -> task<void> {
    auto in_time = [](event& never, std::atomic<int>& alive) -> task<int> {
      auto const result = co_await as_result(timeout(1ms, wait_on(never, alive)));
      co_return result ? 0 : 1;
    };
    auto group = [](std::atomic<int>& alive) -> task<int> {
      int sum = 0;
      co_await with_group([&](task_group& g) -> task<void> {
        g.spawn([](int& sum, counted) -> task<void> {
          sum = 2;
          co_return;
        }(sum, counted{alive}));
        co_return;
      });
      co_return sum;
    };
    auto [a, b, c] = co_await fork_join(in_time(never, alive), group(alive), in_time(never, alive));
    EXPECT_EQ(a + b + c, 4);
    auto forks = [](event& never, std::atomic<int>& alive) -> task<void> {
      co_await fork_join(wait_on(never, alive), wait_on(never, alive));
    };
    auto const result = co_await as_result(timeout(1ms, forks(never, alive)));
    EXPECT_FALSE(result.has_value());
  }(never, alive));
  EXPECT_EQ(alive, 0);
}

TEST(ForkJoinTest, AChainOfForksNeedsNoStackNeitherToEndNorToBeStopped) {
  constexpr int depth = 200'000;
  struct chain {
    static task<int> down(int left, event* waits) {
      if (left == 0) {
        if (waits != nullptr) {
          co_await waits->wait();
        }
        co_return 0;
      }
      std::vector<task<int>> one;
      one.push_back(down(left - 1, waits));
      co_return (co_await fork_join(std::move(one)))[0] + 1;
    }
  };
  event never;
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(chain::down(depth, nullptr)), depth);
  auto handle = rt.spawn(chain::down(depth, &never));
  until_waiting(rt, 1);
  handle.cancel();
  EXPECT_EQ(rt.shutdown(1h), 0U);
}

TEST(ForkJoinTest, ABranchHasTheStopTokenOfItsTask) {
  event never;
  std::atomic<int> told{0};
  runtime rt{{.threads = 2}};
  auto handle = rt.spawn([](event& never, std::atomic<int>& told) -> task<void> {
    auto branch = [](event& never, std::atomic<int>& told) -> task<void> {
      auto const token = co_await this_task::stop_token();
      std::stop_callback const callback{token, [&told] { ++told; }};
      co_await never.wait();
    };
    co_await fork_join(branch(never, told), branch(never, told));
  }(never, told));
  until_waiting(rt, 2);
  handle.cancel();
  EXPECT_EQ(rt.shutdown(1h), 0U);
  EXPECT_EQ(told, 2);
}

// A destructor that starts a task while a fork is stopped: it runs as a part of the task that it belongs to, whose memory is there.
TEST(ForkJoinTest, DestructorsOfWhatIsStoppedMaySpawn) {
  struct spawns {
    explicit spawns(std::atomic<int>& in) : count(&in) {}
    ~spawns() {
      static_cast<void>(spawn([](std::atomic<int>& count) -> task<void> {
        ++count;
        co_return;
      }(*count)));
    }
    std::atomic<int>* count;
  };
  for (int i = 0; i < 20; ++i) {
    event never;
    std::atomic<int> count{0};
    std::atomic<int> alive{0};
    runtime rt{{.threads = 2}};
    auto handle = rt.spawn([](event& never, std::atomic<int>& count, std::atomic<int>& alive) -> task<void> {
      spawns const outer{count};
      auto shields = [](event& never, std::atomic<int>& alive) -> task<void> {
        auto wait = never.wait();
        wait.ignore_cancel();
        co_await wait;
        counted const here{alive};
      };
      co_await fork_join(wait_on(never, alive), shields(never, alive));
    }(never, count, alive));
    until_waiting(rt, 1);
    handle.cancel();
    never.set();
    EXPECT_EQ(rt.shutdown(1h), 0U);
    EXPECT_EQ(alive, 0);
    EXPECT_LE(count, 1);
  }
}

}  // namespace
}  // namespace ergon
