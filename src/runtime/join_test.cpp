// What is joined before anybody has begun it runs as if it was called (root.hpp): these tests see to it that nobody can tell.
#include <atomic>
#include <chrono>
#include <expected>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/fork_join.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>
#include <ergon/runtime/task_group.hpp>

#include "runtime/task_test_tools.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

void until(const std::atomic<int>& value, int wanted) {
  while (value != wanted) {
    std::this_thread::yield();
  }
}

// Each joins the next, which nobody has begun; the innermost waits.
task<int> chain(int depth, event& go, std::atomic<int>& alive) {
  counted const here{alive};
  if (depth == 0) {
    co_await go.wait();
    co_return 0;
  }
  auto next = spawn(chain(depth - 1, go, alive));
  co_return co_await next + 1;
}

TEST(JoinTest, AChainOfCalledTasksWaitsWhenItsInnermostDoes) {
  event go;
  std::atomic<int> alive{0};
  for (unsigned const threads : {1U, 2U}) {
    runtime rt{{.threads = threads}};
    auto outermost = rt.spawn(chain(1000, go, alive), "chain");
    until(alive, 1001);
    rt.settle();
    int in_joins = 0;
    for (const task_info& t : rt.tasks()) {
      in_joins += t.waits_in.find("join") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(in_joins, 1000);
    EXPECT_EQ(rt.live_tasks(), 1001U);
    go.set();
    EXPECT_EQ(rt.block_on([](join_handle<int> of) -> task<int> { co_return co_await of; }(std::move(outermost))), 1000);
    EXPECT_EQ(alive, 0);
    go.reset();
  }
}

TEST(JoinTest, AChainOfAMillionCalledTasksNeedsNoStack) {
  event go;
  std::atomic<int> alive{0};
  runtime rt{{.threads = 1}};
  constexpr int depth = 1'000'000;
  auto outermost = rt.spawn(chain(depth, go, alive));
  until(alive, depth + 1);
  go.set();
  EXPECT_EQ(rt.block_on([](join_handle<int> of) -> task<int> { co_return co_await of; }(std::move(outermost))), depth);
}

TEST(JoinTest, ACancelEndsTheWaitOfWhoCalledAndLeavesTheCalledTaskAlone) {
  event go;
  std::atomic<int> alive{0};
  runtime rt{{.threads = 2}};
  join_handle<int> kept;
  auto caller = rt.spawn([](event& go, std::atomic<int>& alive, join_handle<int>& kept) -> task<void> {
    kept = spawn(chain(0, go, alive));
    co_await kept;
  }(go, alive, kept));
  until(alive, 1);
  rt.settle();
  caller.cancel();
  EXPECT_EQ(end_of(rt, std::move(caller)), errc::cancelled);
  EXPECT_FALSE(kept.done());
  go.set();
  EXPECT_EQ(rt.block_on([](join_handle<int> of) -> task<int> { co_return co_await of; }(std::move(kept))), 0);
}

// The caller is cancelled while the called task computes, and learns of it when that waits.
TEST(JoinTest, ACancelOfWhoCalledIsSeenWhenTheCalledTaskWaits) {
  for (bool const reported : {false, true}) {
    event go;
    std::atomic<int> alive{0};
    std::atomic<bool> computes{false};
    std::atomic<bool> may_wait{false};
    std::atomic<bool> went_on{false};
    // With two the other one might begin the task.
    runtime rt{{.threads = 1}};
    auto caller = rt.spawn([](event& go, std::atomic<int>& alive, std::atomic<bool>& computes, std::atomic<bool>& may_wait,
                              bool reported, std::atomic<bool>& went_on) -> task<void> {
      auto called =
          spawn([](event& go, std::atomic<int>& alive, std::atomic<bool>& computes, std::atomic<bool>& may_wait) -> task<void> {
            counted const here{alive};
            computes = true;
            while (!may_wait) {
            }
            co_await go.wait();
          }(go, alive, computes, may_wait));
      if (reported) {
        went_on = !(co_await as_result(called)).has_value();
      } else {
        co_await called;
      }
    }(go, alive, computes, may_wait, reported, went_on));
    while (!computes) {
      std::this_thread::yield();
    }
    caller.cancel();
    EXPECT_FALSE(caller.done());
    may_wait = true;
    auto const end = end_of(rt, std::move(caller));
    EXPECT_EQ(end, reported ? std::error_code{} : make_error_code(errc::cancelled));
    EXPECT_EQ(went_on, reported);
    EXPECT_EQ(alive, 1);
    go.set();
  }
}

TEST(JoinTest, WhatACalledTaskWaitsForInOtherWaysLetsACancelThrough) {
  // A wait that no cancel ends, giving way for ever, a fork, a stop of its own.
  std::atomic<int> alive{0};
  std::atomic<bool> give_way{true};
  completion never_cancelled;
  event go;
  runtime rt{{.threads = 2}};
  const auto is_cancelled = [&rt](join_handle<>& of) {
    of.cancel();
    return rt.block_on([](join_handle<>& of) -> task<std::error_code> {
      auto const result = co_await as_result(of);
      co_return result ? std::error_code{} : result.error();
    }(of)) == errc::cancelled;
  };
  const auto call = [&rt](auto make) {
    return rt.spawn([](decltype(make) make) -> task<void> {
      auto called = spawn(make());
      co_await called;
    }(make));
  };

  auto caller = call([&] {
    return [](std::atomic<int>& alive, completion& end) -> task<void> {
      counted const here{alive};
      co_await end;
    }(alive, never_cancelled);
  });
  until(alive, 1);
  EXPECT_TRUE(is_cancelled(caller));
  EXPECT_EQ(alive, 1);
  never_cancelled.complete();
  until(alive, 0);

  caller = call([&] {
    return [](std::atomic<int>& alive, std::atomic<bool>& goes_on) -> task<void> {
      counted const here{alive};
      while (goes_on) {
        co_await yield();
      }
    }(alive, give_way);
  });
  until(alive, 1);
  EXPECT_TRUE(is_cancelled(caller));
  EXPECT_EQ(alive, 1);
  give_way = false;
  until(alive, 0);

  caller = call([&] {
    return [](event& go, std::atomic<int>& alive) -> task<void> { co_await fork_join(chain(3, go, alive), chain(3, go, alive)); }(
                                                      go, alive);
  });
  until(alive, 8);
  EXPECT_TRUE(is_cancelled(caller));
  EXPECT_EQ(alive, 8);
  go.set();
  until(alive, 0);

  auto stopped = rt.spawn([]() -> task<bool> {
    auto called = spawn([]() -> task<int> {
      co_await detail::stop_here{};
      co_return 1;
    }());
    auto const end = co_await as_result(called);
    co_return !end && end.error() == errc::cancelled;
  }());
  EXPECT_TRUE(rt.block_on([](join_handle<bool> of) -> task<bool> { co_return co_await of; }(std::move(stopped))));
}

// Who asks whether it is cancelled may do nothing else: a guard around it must hear of a cancel, and pass it on.
TEST(JoinTest, ACancelComesThroughAGuardToATaskThatOnlyAsks) {
  struct bodies {
    static task<void> polls(std::atomic<bool>& begun) {
      while (!co_await this_task::is_cancelled()) {
        begun = true;
      }
    }
    static task<void> has_a_token(std::atomic<bool>& begun) {
      auto const token = co_await this_task::stop_token();
      begun = true;
      while (!token.stop_requested()) {
      }
    }
    static task<void> forks(task<void> body) {
      co_await fork_join(std::move(body), []() -> task<void> { co_return; }());
    }
  };
  for (auto* const body : {&bodies::polls, &bodies::has_a_token}) {
    for (bool const forks : {false, true}) {
      for (bool const by_token : {false, true}) {
        std::atomic<bool> begun{false};
        runtime rt{{.threads = 2}};
        auto guarded = by_token ? with_stop(std::stop_token{}, body(begun)) : timeout(1h, body(begun));
        auto handle = rt.spawn(forks ? bodies::forks(std::move(guarded)) : std::move(guarded));
        while (!begun) {
          std::this_thread::yield();
        }
        handle.cancel();
        // It ends, and says for itself how.
        rt.block_on([](join_handle<> of) -> task<void> { static_cast<void>(co_await as_result(of)); }(std::move(handle)));
        EXPECT_EQ(rt.live_tasks(), 0U);
      }
    }
  }
}

TEST(JoinTest, ABranchThatCallsATaskIsFoundThroughIt) {
  event go;
  std::atomic<int> alive{0};
  runtime rt{{.threads = 2}};
  auto forker = rt.spawn([](event& go, std::atomic<int>& alive) -> task<int> {
    auto const [a, b] = co_await fork_join(chain(10, go, alive), chain(10, go, alive));
    co_return a + b;
  }(go, alive));
  until(alive, 22);
  rt.settle();
  forker.cancel();
  EXPECT_EQ(end_of(rt, std::move(forker)), errc::cancelled);
  // The branches went, what they had spawned goes on.
  EXPECT_EQ(alive, 20);
  go.set();
  until(alive, 0);
}

// The result of a called task belongs to the handle, whether it is taken or not.
TEST(JoinTest, ResultsOfCalledTasksAreDroppedOnce) {
  runtime rt{{.threads = 1}};
  std::atomic<int> alive{0};
  rt.block_on([](std::atomic<int>& alive) -> task<void> {
    const auto give = [](std::atomic<int>& alive) -> task<counted> { co_return counted{alive}; };
    const auto fail = [](std::atomic<int>& alive) -> task<counted> {
      struct failure : std::runtime_error {
        explicit failure(std::atomic<int>& alive) : std::runtime_error("failed"), here(alive) {}
        counted here;
      };
      throw failure{alive};
      co_return counted{alive};
    };
    {
      auto taken = spawn(give(alive));
      const counted value = co_await taken;
      EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
    {
      auto failed = spawn(fail(alive));
      EXPECT_THROW(co_await failed, std::runtime_error);
      EXPECT_THROW(co_await failed, error);
    }
    EXPECT_EQ(alive, 0);
    {
      // A wait for the end that leaves the result.
      auto left = spawn(give(alive));
      co_await detail::join_operation{detail::join_access::state(left)};
      EXPECT_TRUE(left.done());
      EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
    {
      auto left = spawn(fail(alive));
      co_await detail::join_operation{detail::join_access::state(left)};
      auto moved = std::move(left);
      EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
  }(alive));
  EXPECT_EQ(rt.live_tasks(), 0U);
}

// Trees of tasks that join, fork and wait at random, and are cancelled from another thread meanwhile.
class random_tree {
 public:
  random_tree(event& go, std::atomic<int>& alive) : go_(&go), alive_(&alive) {}

  task<int> grow(unsigned seed, int depth) const {
    counted const here{*alive_};
    if (depth == 0) {
      switch (seed % 5) {
        case 0:
          co_await yield();
          break;
        case 1:
          co_await go_->wait();
          break;
        case 2:
          co_await sleep_for(std::chrono::microseconds{seed % 50});
          break;
        default:
          break;
      }
      co_return 1;
    }
    unsigned const next = seed * 2'654'435'761U + 12345U;
    switch (next >> 16U & 3U) {
      case 0: {
        const auto [a, b] = co_await fork_join(grow(next, depth - 1), grow(next + 1, depth - 1));
        co_return a + b;
      }
      case 1:
        co_return co_await grow(next, depth - 1) + co_await grow(next + 1, depth - 1);
      default: {
        auto left = spawn(grow(next, depth - 1));
        auto right = spawn(grow(next + 1, depth - 1));
        int const sum = co_await right;
        co_return sum + co_await left;
      }
    }
  }

 private:
  event* go_;
  std::atomic<int>* alive_;
};

TEST(JoinTest, TreesAtRandomEndOrAreCancelled) {
  for (unsigned const threads : {1U, 2U, 4U}) {
    event go;
    std::atomic<int> alive{0};
    const random_tree tree{go, alive};
    runtime rt{{.threads = threads}};
    for (unsigned seed = 0; seed < 300; ++seed) {
      constexpr int depth = 6;
      auto handle = rt.spawn(tree.grow(seed, depth));
      if (seed % 3 == 0) {
        handle.cancel();
      } else {
        go.set();
      }
      auto const end = rt.block_on([](join_handle<int> of) -> task<std::expected<int, std::error_code>> {
        co_return co_await as_result(of);
      }(std::move(handle)));
      if (seed % 3 != 0) {
        EXPECT_EQ(end, 1 << depth) << seed;
        go.reset();
      } else {
        EXPECT_TRUE(!end || *end == 1 << depth) << seed;
        // What a cancelled task had spawned goes on.
        go.set();
        until(alive, 0);
        go.reset();
      }
    }
    EXPECT_EQ(alive, 0);
  }
}

}  // namespace
}  // namespace ergon
