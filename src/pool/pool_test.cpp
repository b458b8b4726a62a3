// The pool, and `blocking` on top of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ergon/pool/pool.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/stop.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

TEST(PoolTest, RunsACallAndGivesItsResultOrItsException) {
  runtime rt{{.threads = 1}};
  pool p{{.max_threads = 2}};
  rt.block_on([](pool& p) -> task<void> {
    EXPECT_EQ(co_await p.run([](int a, std::string b) { return a + static_cast<int>(b.size()); }, 2, std::string("abc")), 5);
    EXPECT_THROW(co_await p.run([] { throw std::runtime_error("inside"); }), std::runtime_error);
    auto const owned = co_await p.run([](std::unique_ptr<int> x) { return x; }, std::make_unique<int>(4));
    EXPECT_EQ(*owned, 4);
    auto const elsewhere = co_await p.run([] { return std::this_thread::get_id(); });
    EXPECT_NE(elsewhere, std::this_thread::get_id());
  }(p));
}

TEST(PoolTest, ServesPlainCodeThroughFutures) {
  pool p{{.max_threads = 2}};
  auto value = p.submit([] { return 3; });
  auto failure = p.submit([]() -> int { throw std::runtime_error("inside"); });
  EXPECT_EQ(value.get(), 3);
  EXPECT_THROW(failure.get(), std::runtime_error);
}

TEST(PoolTest, StartsThreadsOnDemandUpToItsMaximum) {
  pool p{{.max_threads = 3}};
  EXPECT_EQ(p.threads(), 0U);
  std::promise<void> gate;
  auto const open = gate.get_future().share();
  std::vector<std::future<void>> results;
  for (int i = 0; i < 10; ++i) {
    results.push_back(p.submit([open] { open.wait(); }));
  }
  EXPECT_EQ(p.threads(), 3U);
  gate.set_value();
  for (auto& r : results) {
    r.get();
  }
}

TEST(PoolTest, ReusesAnIdleThread) {
  pool p{{.max_threads = 8}};
  for (int i = 0; i < 100; ++i) {
    p.submit([] {}).get();
    while (p.running() != 0) {
      std::this_thread::yield();
    }
  }
  EXPECT_LE(p.threads(), 3U);
}

TEST(PoolTest, LosesNoCallFromManyProducers) {
  pool p{{.max_threads = 2}};
  std::atomic<int> ran{0};
  std::vector<std::thread> producers;
  for (int t = 0; t < 4; ++t) {
    producers.emplace_back([&] {
      std::vector<std::future<void>> results;
      for (int i = 0; i < 1000; ++i) {
        results.push_back(p.submit([&] { ++ran; }));
        if (i % 7 == 0) {
          results.back().wait();
        }
      }
      for (auto& r : results) {
        r.get();
      }
    });
  }
  for (auto& t : producers) {
    t.join();
  }
  EXPECT_EQ(ran.load(), 4000);
}

TEST(PoolTest, DrainsAndJoinsOnCloseAndStartsNothingAfterwards) {
  std::atomic<int> ran{0};
  pool p{{.max_threads = 1}};
  std::vector<std::future<void>> results;
  for (int i = 0; i < 100; ++i) {
    results.push_back(p.submit([&] { ++ran; }));
  }
  p.close();
  EXPECT_EQ(ran.load(), 100);
  EXPECT_EQ(p.waiting(), 0U);
  p.close();
  EXPECT_THROW(static_cast<void>(p.submit([] {})), error);
  struct never final : work {
    void run() noexcept override { ADD_FAILURE() << "a closed pool ran something"; }
  };
  never item;
  EXPECT_FALSE(p.execute(item));
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on([](pool& p) -> task<errc> {
    auto const end = co_await as_result(p.run([] {}));
    co_return static_cast<errc>(end.error().value());
  }(p)),
            errc::closed);
}

TEST(PoolTest, ClosesAtOnceWhereNoThreadWasNeeded) {
  pool p;
  p.close();
  EXPECT_EQ(p.threads(), 0U);
}

TEST(PoolTest, RefusesAnAbsurdNumberOfThreads) { EXPECT_THROW(pool({.max_threads = 1'000'000}), error); }

TEST(PoolTest, MakesProducersWaitWhileItsQueueIsFull) {
  runtime rt{{.threads = 1}};
  pool p{{.max_threads = 1, .max_queue = 2}};
  std::promise<void> gate;
  auto const open = gate.get_future().share();
  std::atomic<int> ran{0};
  std::vector<join_handle<>> handles;
  for (int i = 0; i < 6; ++i) {
    handles.push_back(rt.spawn([](pool& p, std::shared_future<void> open, std::atomic<int>& ran) -> task<void> {
      co_await p.run([open, &ran] {
        open.wait();
        ++ran;
      });
    }(p, open, ran)));
  }
  while (p.running() != 1 || p.waiting() != 2) {
    std::this_thread::yield();
  }
  rt.settle();
  EXPECT_EQ(p.waiting(), 2U);
  // One that waits for room can be cancelled, and the others go on.
  handles[5].cancel();
  rt.settle();
  EXPECT_TRUE(handles[5].done());
  std::thread plain([&] { p.submit([&] { ++ran; }).get(); });
  gate.set_value();
  plain.join();
  rt.settle();
  rt.block_on([](std::vector<join_handle<>>& handles) -> task<void> {
    for (std::size_t i = 0; i < 5; ++i) {
      co_await handles[i];
    }
  }(handles));
  EXPECT_EQ(ran.load(), 6);
}

TEST(PoolTest, StartsWaitingCallsInTheirOrder) {
  pool p{{.max_threads = 1}};
  std::promise<void> gate;
  auto const open = gate.get_future().share();
  static_cast<void>(p.submit([open] { open.wait(); }));
  std::vector<int> log;
  std::vector<std::future<void>> results;
  for (int i = 0; i < 50; ++i) {
    results.push_back(p.submit([&log, i] { log.push_back(i); }));
  }
  gate.set_value();
  for (auto& r : results) {
    r.get();
  }
  EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
}

TEST(PoolTest, RequestsTheTokenOfACancelledCallAndLeavesItsNeighboursAlone) {
  runtime rt{{.threads = 1}};
  pool p{{.max_threads = 2}};
  std::latch both{2};
  std::promise<void> gate;
  auto const open = gate.get_future().share();
  std::atomic<bool> stopped{false};
  auto cancelled = rt.spawn([](pool& p, std::latch& both, std::atomic<bool>& stopped) -> task<void> {
    co_await p.run([&](std::stop_token token) {
      both.count_down();
      while (!token.stop_requested()) {
        std::this_thread::yield();
      }
      stopped.store(true);
    });
  }(p, both, stopped));
  auto neighbour = rt.spawn([](pool& p, std::latch& both, std::shared_future<void> open) -> task<int> {
    co_return co_await p.run([&] {
      both.count_down();
      open.wait();
      return 8;
    });
  }(p, both, open));
  both.wait();
  cancelled.cancel();
  rt.block_on([](join_handle<>& h) -> task<void> { EXPECT_FALSE((co_await as_result(h)).has_value()); }(cancelled));
  EXPECT_TRUE(stopped.load());
  EXPECT_FALSE(neighbour.done());
  gate.set_value();
  EXPECT_EQ(rt.block_on([](join_handle<int>& h) -> task<int> { co_return co_await h; }(neighbour)), 8);
}

TEST(PoolTest, RunsTheThirdCallAfterAQueuedAndARunningOneWereCancelled) {
  runtime rt{{.threads = 1}};
  pool p{{.max_threads = 1}};
  auto call = [](pool& p, std::atomic<int>& ran, bool waits) -> task<void> {
    co_await p.run([&ran, waits](std::stop_token token) {
      while (waits && !token.stop_requested()) {
        std::this_thread::yield();
      }
      ++ran;
    });
  };
  std::atomic<int> ran{0};
  auto running = rt.spawn(call(p, ran, true));
  while (p.running() == 0) {
    std::this_thread::yield();
  }
  auto queued = rt.spawn(call(p, ran, false));
  auto third = rt.spawn(call(p, ran, false));
  rt.settle();
  queued.cancel();
  running.cancel();
  rt.block_on([](join_handle<>& h) -> task<void> { co_await h; }(third));
  EXPECT_EQ(ran.load(), 3);
}

TEST(BlockingTest, SaysThatAPoolIsMissing) {
  runtime rt{{.threads = 1}};
  try {
    rt.block_on(blocking([] {}));
    FAIL() << "ran without an executor";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("install a pool"), std::string::npos);
  }
}

TEST(BlockingTest, RunsOnTheInstalledPool) {
  runtime rt{{.threads = 1}};
  EXPECT_TRUE(install_pool(rt, {.max_threads = 1}));
  EXPECT_FALSE(install_pool(rt));
  EXPECT_EQ(rt.block_on(blocking([] { return 4; })), 4);
  EXPECT_THROW(rt.block_on(blocking([]() -> int { throw std::logic_error("inside"); })), std::logic_error);
}

TEST(BlockingTest, WaitsForTheCallOfACancelledTaskAndThenStops) {
  runtime rt{{.threads = 1}};
  install_pool(rt, {.max_threads = 1});
  std::latch started{1};
  bool after = false;
  std::atomic<bool> returned{false};
  auto h = rt.spawn([](std::latch& started, bool& after, std::atomic<bool>& returned) -> task<void> {
    co_await blocking([&](std::stop_token token) {
      started.count_down();
      while (!token.stop_requested()) {
        std::this_thread::yield();
      }
      returned.store(true);
    });
    after = true;
  }(started, after, returned));
  started.wait();
  h.cancel();
  rt.block_on([](join_handle<>& h) -> task<void> { EXPECT_FALSE((co_await as_result(h)).has_value()); }(h));
  EXPECT_TRUE(returned.load());
  EXPECT_FALSE(after);
}

TEST(BlockingTest, StressesCallsFromManyTasks) {
  runtime rt{{.threads = 2}};
  install_pool(rt, {.max_threads = 2});
  std::atomic<int> ran{0};
  rt.block_on([](std::atomic<int>& ran) -> task<void> {
    co_await with_group([&](task_group& g) -> task<void> {
      for (int t = 0; t < 50; ++t) {
        g.spawn([](std::atomic<int>& ran) -> task<void> {
          for (int i = 0; i < 50; ++i) {
            co_await blocking([&] { ++ran; });
          }
        }(ran));
      }
      co_return;
    });
  }(ran));
  EXPECT_EQ(ran.load(), 2500);
}

}  // namespace
}  // namespace ergon
