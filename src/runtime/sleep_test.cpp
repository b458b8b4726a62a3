// Timers, on a clock that the test moves and on the machine's.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<void> note_after(std::chrono::nanoseconds span, int n, std::vector<int>& log) {
  co_await sleep_for(span);
  log.push_back(n);
}

TEST(SleepTest, FiresWhenAManualClockHasMovedFarEnough) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  std::vector<int> log;
  auto h = rt.spawn(note_after(5s, 1, log));
  rt.settle();
  clock.advance(5s - 1ns);
  rt.settle();
  EXPECT_FALSE(h.done());
  clock.advance(1ns);
  rt.settle();
  EXPECT_TRUE(h.done());
}

TEST(SleepTest, FiresInOrderOfTimeThenOfArrival) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  std::vector<int> log;
  std::vector<join_handle<>> handles;
  handles.push_back(rt.spawn(note_after(3s, 3, log)));
  handles.push_back(rt.spawn(note_after(1s, 1, log)));
  handles.push_back(rt.spawn(note_after(2s, 20, log)));
  rt.settle();
  handles.push_back(rt.spawn(note_after(2s, 21, log)));
  rt.settle();
  clock.advance(1h);
  rt.settle();
  EXPECT_EQ(log, (std::vector<int>{1, 20, 21, 3}));
}

TEST(SleepTest, TakesAnyDuration) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  rt.block_on([](manual_clock& clock) -> task<void> {
    co_await sleep_for(-1h);
    co_await sleep_for(0ns);
    co_await sleep_for(std::chrono::nanoseconds::min());
    co_await sleep_until(clock.steady() - 1s);
    co_await sleep_until(steady_time::min());
  }(clock));
  auto forever = rt.spawn([]() -> task<void> { co_await sleep_for(std::chrono::nanoseconds::max()); }());
  rt.settle();
  clock.advance(24h * 365 * 100);
  rt.settle();
  EXPECT_FALSE(forever.done());
}

TEST(SleepTest, HasNoDriftOverHoursOfTicks) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  int ticks = 0;
  auto h = rt.spawn([](int& ticks) -> task<void> {
    auto due = runtime::current()->clock().steady();
    for (;;) {
      due += 1min;
      co_await sleep_until(due);
      ++ticks;
    }
  }(ticks));
  rt.settle();
  for (int i = 0; i < 600; ++i) {
    clock.advance(1min);
    rt.settle();
  }
  EXPECT_EQ(ticks, 600);
}

TEST(SleepTest, KeepsOrderAmongManyTimersThatComeAndGo) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  std::mt19937 random(7);
  std::vector<int> log;
  std::vector<join_handle<>> handles;
  for (int i = 0; i < 2000; ++i) {
    int const at = static_cast<int>(random() % 10'000);
    handles.push_back(rt.spawn(note_after(std::chrono::milliseconds{at}, at, log)));
  }
  rt.settle();
  std::size_t cancelled = 0;
  for (std::size_t i = 0; i < handles.size(); i += 3) {
    handles[i].cancel();
    ++cancelled;
  }
  for (int i = 0; i < 100; ++i) {
    clock.advance(101ms);
    rt.settle();
  }
  EXPECT_EQ(log.size(), handles.size() - cancelled);
  EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
}

TEST(SleepTest, SleepsAtLeastAsLongAsAsked) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    auto& clock = runtime::current()->clock();
    for (int i = 0; i < 20; ++i) {
      auto const before = clock.steady();
      co_await sleep_for(1ms);
      EXPECT_GE(clock.steady() - before, 1ms);
    }
  }());
}

TEST(SleepTest, FiresTimersWhileTheirWorkerComputes) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    std::atomic<bool> fired{false};
    auto other = spawn([](std::atomic<bool>& fired) -> task<void> {
      for (int i = 0; i < 10; ++i) {
        co_await sleep_for(1ms);
      }
      fired.store(true);
    }(fired));
    co_await sleep_for(500us);
    while (!fired.load()) {
      // A task that never gives its thread back.
    }
    co_await other;
  }());
}

TEST(SleepTest, FiresTimersUnderAFloodOfReadyTasks) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    bool stop = false;
    auto flood = spawn([](bool& stop) -> task<void> {
      while (!stop) {
        co_await yield();
      }
    }(stop));
    co_await sleep_for(5ms);
    stop = true;
    co_await flood;
  }());
}

TEST(TimeoutTest, GivesTheValueOfWhatEndsInTime) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  EXPECT_EQ(rt.block_on(timeout(1s, []() -> task<int> { co_return 6; }())), 6);
  EXPECT_THROW(rt.block_on(timeout(1s,
                                   []() -> task<int> {
                                     throw std::runtime_error("own");
                                     co_return 6;
                                   }())),
               std::runtime_error);
}

TEST(TimeoutTest, StopsTheBodyAndThrowsTimedOut) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  event never;
  bool destroyed = false;
  auto h = rt.spawn(timeout(1500ms, [](event& never, bool& destroyed) -> task<void> {
    struct flag {
      bool& set;
      ~flag() { set = true; }
    } const f{destroyed};
    co_await never.wait();
  }(never, destroyed)));
  rt.settle();
  clock.advance(1500ms);
  rt.settle();
  ASSERT_TRUE(h.done());
  EXPECT_TRUE(destroyed);
  rt.block_on([](join_handle<>& h) -> task<void> {
    try {
      co_await h;
      ADD_FAILURE() << "no time-out";
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::timed_out);
      EXPECT_STREQ(e.what(), "the operation did not end within 1.5 s");
    }
  }(h));
}

TEST(TimeoutTest, WaitsForABodyThatIgnoresItsCancel) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  completion* waiting = nullptr;
  auto h = rt.spawn(timeout(1s, [](completion*& waiting) -> task<int> {
    completion c;
    waiting = &c;
    co_await c;
    co_return 9;
  }(waiting)));
  rt.settle();
  clock.advance(2s);
  rt.settle();
  EXPECT_FALSE(h.done());
  waiting->complete();
  EXPECT_EQ(rt.block_on([](join_handle<int>& h) -> task<int> { co_return co_await h; }(h)), 9);
}

TEST(TimeoutTest, IsAValueThroughAsResult) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  event never;
  auto h = rt.spawn([](event& never) -> task<errc> {
    auto const end = co_await as_result(timeout(1s, [](event& e) -> task<void> { co_await e.wait(); }(never)));
    co_return static_cast<errc>(end.error().value());
  }(never));
  rt.settle();
  clock.advance(1s);
  EXPECT_EQ(rt.block_on([](join_handle<errc>& h) -> task<errc> { co_return co_await h; }(h)), errc::timed_out);
}

}  // namespace
}  // namespace ergon
