// The runtime itself: spawning, waking from other threads, blocking, shutting down.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<int> just(int n) { co_return n; }
task<void> nothing() { co_return; }
task<void> wait_on(event& e) { co_await e.wait(); }

TEST(RuntimeTest, JoinsSpawnedTasksAndGivesTheirValues) {
  runtime rt{{.threads = 2}};
  int const sum = rt.block_on([]() -> task<int> {
    std::vector<join_handle<int>> handles;
    handles.reserve(1000);
    for (int i = 0; i < 1000; ++i) {
      handles.push_back(spawn(just(i)));
    }
    int sum = 0;
    for (auto& h : handles) {
      sum += co_await h;
    }
    co_return sum;
  }());
  EXPECT_EQ(sum, 499'500);
  EXPECT_EQ(rt.live_tasks(), 0U);
}

TEST(RuntimeTest, RethrowsWhatASpawnedTaskThrew) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto handle = spawn([]() -> task<int> {
      throw std::runtime_error("child");
      co_return 1;
    }());
    EXPECT_THROW(static_cast<void>(co_await handle), std::runtime_error);
    EXPECT_THROW(static_cast<void>(co_await handle), error) << "the second await";
    join_handle<int> empty;
    EXPECT_THROW(static_cast<void>(co_await empty), error);
    EXPECT_TRUE(empty.done());
    empty.cancel();
  }());
}

TEST(RuntimeTest, RefusesToBlockItsOwnThread) {
  runtime rt{{.threads = 1}};
  runtime other{{.threads = 1}};
  rt.block_on([](runtime& rt, runtime& other) -> task<void> {
    EXPECT_EQ(runtime::current(), &rt);
    EXPECT_EQ(other.block_on(just(3)), 3);
    try {
      rt.block_on(nothing());
      ADD_FAILURE() << "block_on went through";
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::invalid_argument);
    }
    EXPECT_THROW(rt.shutdown(0s), error);
    co_return;
  }(rt, other));
  EXPECT_EQ(runtime::current(), nullptr);
}

TEST(RuntimeTest, RefusesAnAbsurdNumberOfThreads) { EXPECT_THROW(runtime({.threads = 100'000}), error); }

TEST(RuntimeTest, RunsOneDefaultRuntimePerProcess) {
  EXPECT_EQ(block_on(just(2)), 2);
  EXPECT_EQ(&runtime::default_runtime(), &runtime::default_runtime());
  EXPECT_EQ(block_on([]() -> task<bool> { co_return runtime::current() == &runtime::default_runtime(); }()), true);
}

TEST(RuntimeTest, LosesNoWakeUpFromForeignThreads) {
  runtime rt{{.threads = 2}};
  constexpr int rounds = 20'000;
  std::atomic<completion*> slot{nullptr};
  std::atomic<bool> stop{false};
  std::thread completer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (completion* const c = slot.exchange(nullptr)) {
        c->complete();
      } else {
        std::this_thread::yield();
      }
    }
  });
  int const done = rt.block_on([](std::atomic<completion*>& slot) -> task<int> {
    int done = 0;
    for (int i = 0; i < rounds; ++i) {
      completion c;
      slot.store(&c);
      co_await c;
      ++done;
    }
    co_return done;
  }(slot));
  stop.store(true);
  completer.join();
  EXPECT_EQ(done, rounds);
}

TEST(RuntimeTest, SpawnsFromManyThreads) {
  runtime rt{{.threads = 2}};
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        static_cast<void>(rt.spawn([](std::atomic<int>& ran) -> task<void> {
          ++ran;
          co_await yield();
        }(ran)));
      }
    });
  }
  for (auto& t : threads) {
    t.join();
  }
  rt.settle();
  EXPECT_EQ(ran.load(), 8000);
  EXPECT_EQ(rt.live_tasks(), 0U);
}

TEST(RuntimeTest, PassesEventsBetweenTwoWorkersWithoutLosingOne) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    constexpr int rounds = 20'000;
    event ping;
    event pong;
    auto other = spawn([](event& ping, event& pong) -> task<void> {
      for (int i = 0; i < rounds; ++i) {
        co_await ping.wait();
        ping.reset();
        pong.set();
      }
    }(ping, pong));
    for (int i = 0; i < rounds; ++i) {
      ping.set();
      co_await pong.wait();
      pong.reset();
    }
    co_await other;
  }());
}

TEST(RuntimeTest, RunsPostedWorkAfterWhatIsReadyAndBeforeWhatComesLater) {
  runtime rt{{.threads = 1}};
  struct logged final : work {
    void run() noexcept override { log->push_back(2); }
    std::vector<int>* log = nullptr;
  };
  std::vector<int> log;
  logged item;
  item.log = &log;
  rt.block_on([](runtime& rt, std::vector<int>& log, logged& item) -> task<void> {
    event go;
    auto wait_and_note = [](event& go, std::vector<int>& log, int n) -> task<void> {
      co_await go.wait();
      log.push_back(n);
    };
    auto first = spawn(wait_and_note(go, log, 1));
    co_await yield();
    go.set();
    rt.post(item);
    auto third = spawn([](std::vector<int>& log) -> task<void> {
      co_await yield();
      log.push_back(3);
    }(log));
    co_await first;
    co_await third;
  }(rt, log, item));
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

TEST(RuntimeTest, SharesManyTasksBetweenItsWorkers) {
  runtime rt{{.threads = 2}};
  std::atomic<int> on_others{0};
  rt.block_on([](std::atomic<int>& on_others) -> task<void> {
    auto const here = std::this_thread::get_id();
    std::atomic<bool> seen{false};
    std::vector<join_handle<>> handles;
    // Busy work on this thread until another one has taken something.
    for (int i = 0; i < 2; ++i) {
      handles.push_back(spawn([](std::thread::id here, std::atomic<int>& on_others, std::atomic<bool>& seen) -> task<void> {
        if (std::this_thread::get_id() != here) {
          ++on_others;
          seen.store(true);
        } else {
          while (!seen.load()) {
            std::this_thread::yield();
          }
        }
        co_return;
      }(here, on_others, seen)));
    }
    while (!seen.load()) {
      std::this_thread::yield();
    }
    for (auto& h : handles) {
      co_await h;
    }
  }(on_others));
  EXPECT_GE(on_others.load(), 1);
}

TEST(RuntimeTest, TakesALoneTaskFromBehindOneThatComputes) {
  runtime rt{{.threads = 2}};
  for (int round = 0; round < 20; ++round) {
    rt.block_on([]() -> task<void> {
      std::atomic<bool> ran{false};
      auto child = spawn([](std::atomic<bool>& ran) -> task<void> {
        ran.store(true);
        co_return;
      }(ran));
      while (!ran.load()) {
        std::this_thread::yield();
      }
      co_await child;
    }());
  }
}

TEST(RuntimeTest, UsesNoProcessorTimeWhileIdle) {
  event never;
  runtime rt{{.threads = 4}};
  auto waiting = rt.spawn(wait_on(never));
  auto sleeping = rt.spawn([]() -> task<void> { co_await sleep_for(1h); }());
  rt.settle();
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  rt.block_on([]() -> task<void> { co_await sleep_for(200ms); }());
  getrusage(RUSAGE_SELF, &after);
  auto const switches = (after.ru_nvcsw - before.ru_nvcsw);
  EXPECT_LT(switches, 50);
}

TEST(RuntimeTest, CancelsAndJoinsLiveTasksWhenItIsDestroyed) {
  event never;
  std::atomic<int> destroyed{0};
  struct counts {
    std::atomic<int>& n;
    ~counts() { ++n; }
  };
  join_handle<> kept;
  {
    runtime rt{{.threads = 2}};
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(rt.spawn([](event& never, std::atomic<int>& n) -> task<void> {
        counts const c{n};
        co_await with_group([&](task_group& g) -> task<void> {
          g.spawn(wait_on(never));
          co_await never.wait();
        });
      }(never, destroyed)));
    }
    kept = rt.spawn(wait_on(never));
    rt.settle();
  }
  EXPECT_EQ(destroyed.load(), 100);
  EXPECT_TRUE(kept.done());
  kept.cancel();
}

TEST(RuntimeTest, ReportsWhatIsAliveWhenTheDeadlineOfAShutdownHasPassed) {
  runtime rt{{.threads = 1}};
  completion* waiting = nullptr;
  auto stubborn = rt.spawn([](completion*& waiting) -> task<void> {
    completion c;
    waiting = &c;
    co_await c;
  }(waiting));
  rt.settle();
  EXPECT_EQ(rt.shutdown(1ms), 1U);
  EXPECT_EQ(rt.shutdown(-1s), 1U);
  waiting->complete();
  EXPECT_EQ(rt.shutdown(1h), 0U);
  EXPECT_EQ(rt.shutdown(0s), 0U);
  EXPECT_TRUE(stubborn.done());
  try {
    static_cast<void>(rt.spawn(nothing()));
    FAIL() << "spawned after shutdown";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::closed);
  }
  EXPECT_THROW(rt.block_on(nothing()), error);
}

TEST(RuntimeTest, LetsATaskCleanUpWithTasksWhileItShutsDown) {
  runtime rt{{.threads = 1}};
  event never;
  bool late_ran = false;
  static_cast<void>(rt.spawn([](event& never, bool& late_ran) -> task<void> {
    static_cast<void>(co_await as_result(never.wait()));
    // Born cancelled: it never starts.
    static_cast<void>(co_await as_result(spawn([](bool& ran) -> task<void> {
      ran = true;
      co_return;
    }(late_ran))));
  }(never, late_ran)));
  rt.settle();
  EXPECT_EQ(rt.shutdown(1h), 0U);
  EXPECT_FALSE(late_ran);
}

TEST(RuntimeTest, GoesOnWhenHandlesAreDropped) {
  runtime rt{{.threads = 1}};
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(rt.spawn([](std::atomic<int>& ran) -> task<void> {
      co_await yield();
      ++ran;
    }(ran)));
  }
  rt.settle();
  EXPECT_EQ(ran.load(), 10);
}

TEST(RuntimeTest, SurvivesQuickCreationAndDestruction) {
  for (int i = 0; i < 50; ++i) {
    runtime rt{{.threads = 2}};
    completion* slot = nullptr;
    event ready;
    auto h = rt.spawn([](completion*& slot, event& ready) -> task<void> {
      completion c;
      slot = &c;
      ready.set();
      co_await c;
    }(slot, ready));
    rt.block_on(wait_on(ready));
    std::thread other([&] { slot->complete(); });
    static_cast<void>(rt.shutdown(1h));
    other.join();
  }
}

TEST(RuntimeTest, TheWatchdogNamesATaskThatKeepsItsWorker) {
  std::atomic<int> reports{0};
  stall_info seen;
  runtime rt{{.threads = 2, .stall_limit = 2ms, .on_stall = [&](const stall_info& s) {
                seen = s;
                reports.fetch_add(1);
              }}};
  rt.block_on([]() -> task<void> { co_await sleep_for(10ms); }());
  EXPECT_EQ(reports, 0);
  auto hog = rt.spawn(
      [](std::atomic<int>& reports) -> task<void> {
        while (reports == 0) {
          std::this_thread::yield();
        }
        co_return;
      }(reports),
      "hog");
  rt.block_on([](join_handle<> h) -> task<void> { co_await h; }(std::move(hog)));
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(seen.name, "hog");
  EXPECT_FALSE(seen.function.empty());
  EXPECT_LT(seen.worker, 2U);
  EXPECT_GE(seen.lasts, 2ms);
}

TEST(RuntimeTest, RefusesANegativeStallLimit) { EXPECT_THROW((runtime{{.threads = 1, .stall_limit = -1ms}}), error); }

TEST(RuntimeTest, DescribesItsTasksAsATable) {
  event never;
  runtime rt{{.threads = 1}};
  std::vector<join_handle<>> handles;
  for (int i = 0; i < 3; ++i) {
    handles.push_back(rt.spawn(wait_on(never), "waiter"));
  }
  auto sleeper = rt.spawn([]() -> task<void> { co_await sleep_for(1h); }(), "sleeper");
  rt.settle();
  std::string const text = rt.describe_tasks();
  EXPECT_EQ(text.substr(0, text.find('\n')), "4 tasks");
  EXPECT_NE(text.find("        3  waiter: waits in event::wait_operation"), std::string::npos) << text;
  EXPECT_NE(text.find("        1  sleeper: waits in sleep_operation"), std::string::npos) << text;
  EXPECT_LT(text.find("waiter"), text.find("sleeper"));
}

}  // namespace
}  // namespace ergon
