// when_all, when_any, interval, oneshot.
#include <ergon/runtime/when.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/interval.hpp>
#include <ergon/runtime/oneshot.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<int> after(std::chrono::nanoseconds span, int value) {
  co_await sleep_for(span);
  co_return value;
}
task<std::unique_ptr<int>> owned(int value) { co_return std::make_unique<int>(value); }
task<void> nothing() { co_return; }
/// Waits for ever, and counts that it was started and stopped.
struct crowd {
  std::atomic<int> started = 0;
  std::atomic<int> stopped = 0;
};
task<int> waits(crowd& in) {
  struct count {
    crowd& in;
    explicit count(crowd& c) : in(c) { ++in.started; }
    ~count() { ++in.stopped; }
  } const here{in};
  co_await sleep_for(24h);
  co_return 0;
}

/// Once so many of them wait: one that is cancelled before it began has nothing to stop.
task<int> fails_after(crowd& in, int waiting, const char* text) {
  while (in.started < waiting) {
    co_await yield();
  }
  throw std::runtime_error(text);
}

TEST(WhenAllTest, GivesAllValuesInTheOrderOfTheTasks) {
  runtime rt{{.threads = 2}};
  auto [slow, pointer, none] = rt.block_on(when_all(after(2ms, 1), owned(2), nothing()));
  EXPECT_EQ(slow, 1);
  EXPECT_EQ(*pointer, 2);
  EXPECT_EQ(none, std::monostate{});
  std::vector<task<int>> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(after(std::chrono::microseconds{100 - i}, i));
  }
  auto const values = rt.block_on(when_all(std::move(many)));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(rt.block_on(when_all(std::vector<task<int>>{})).empty());
}

TEST(WhenAllTest, TheFirstExceptionEndsTheOthersAndIsThrown) {
  runtime rt{{.threads = 2}};
  crowd all;
  try {
    rt.block_on(when_all(waits(all), fails_after(all, 2, "first"), waits(all)));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "first");
  }
  EXPECT_EQ(all.stopped, 2);
}

TEST(WhenAllTest, ACancelReachesEveryTaskAndWaitsForThem) {
  runtime rt{{.threads = 2}};
  crowd all;
  auto h = rt.spawn(when_all(waits(all), waits(all)));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(all.stopped, 2);
}

TEST(WhenAnyTest, TheFirstToEndWinsAndTheOthersAreStoppedAndJoined) {
  runtime rt{{.threads = 2}};
  crowd all;
  auto const first = rt.block_on(when_any(waits(all), after(24h, 7), nothing(), waits(all)));
  EXPECT_EQ(first.index, 2U);
  EXPECT_EQ(std::get<2>(first.value), std::monostate{});
  EXPECT_LE(all.stopped, 2);
  EXPECT_EQ(all.stopped, all.started);
  std::vector<task<int>> some;
  some.push_back(waits(all));
  some.push_back(after(1ms, 5));
  auto const [index, value] = rt.block_on(when_any(std::move(some)));
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(value, 5);
}

TEST(WhenAnyTest, ThrowsWhatTheFirstThrewAndRefusesNoTask) {
  runtime rt{{.threads = 2}};
  crowd all;
  EXPECT_THROW(rt.block_on(when_any(waits(all), fails_after(all, 1, "x"))), std::runtime_error);
  EXPECT_THROW(rt.block_on(when_any(std::vector<task<int>>{})), error);
}

TEST(WhenAnyTest, DecidesOneRaceOfMany) {
  runtime rt{{.threads = 2}};
  for (int round = 0; round < 500; ++round) {
    std::vector<task<int>> equal;
    for (int i = 0; i < 8; ++i) {
      equal.push_back(after(0ns, i));
    }
    auto const [index, value] = rt.block_on(when_any(std::move(equal)));
    ASSERT_EQ(static_cast<int>(index), value);
  }
}

std::vector<std::int64_t> ticks(missed_ticks missed) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  steady_time const start = clock.steady();
  std::vector<std::int64_t> seen;
  event go_on;
  auto h = rt.spawn([](missed_ticks missed, steady_time start, std::vector<std::int64_t>& seen, event& go_on) -> task<void> {
    interval every{1s, missed};
    for (int i = 0; i < 6; ++i) {
      steady_time const due = co_await every.tick();
      seen.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(due - start).count());
      if (i == 1) {
        co_await go_on.wait();
      }
    }
  }(missed, start, seen, go_on));
  rt.settle();
  clock.advance(1s);
  rt.settle();
  // Two and a half seconds pass while nobody awaits a tick.
  clock.advance(2500ms);
  go_on.set();
  rt.settle();
  for (int i = 0; i < 100 && !h.done(); ++i) {
    clock.advance(500ms);
    rt.settle();
  }
  EXPECT_TRUE(h.done());
  return seen;
}

TEST(IntervalTest, DoesNotDriftAndTreatsMissedTicksAsTold) {
  using times = std::vector<std::int64_t>;
  EXPECT_EQ(ticks(missed_ticks::burst), (times{0, 1000, 2000, 3000, 4000, 5000}));
  EXPECT_EQ(ticks(missed_ticks::skip), (times{0, 1000, 2000, 4000, 5000, 6000}));
  EXPECT_EQ(ticks(missed_ticks::delay), (times{0, 1000, 2000, 4500, 5500, 6500}));
}

TEST(IntervalTest, RefusesAPeriodThatIsNoPeriod) {
  for (const std::chrono::nanoseconds bad : {0ns, -1ns, std::chrono::nanoseconds::max()}) {
    try {
      interval const wrong{bad};
      FAIL() << bad.count();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::invalid_argument);
      EXPECT_NE(std::string{e.what()}.find("period of an interval"), std::string::npos) << e.what();
    }
  }
}

TEST(OneshotTest, CarriesOneValueFromAnyThread) {
  runtime rt{{.threads = 2}};
  for (int round = 0; round < 200; ++round) {
    auto [sender, receiver] = make_oneshot<std::unique_ptr<int>>();
    std::jthread const elsewhere{
        [to = std::move(sender), round]() mutable { EXPECT_TRUE(to.send(std::make_unique<int>(round))); }};
    EXPECT_EQ(*rt.block_on(receiver.receive()), round);
    EXPECT_THROW(rt.block_on(receiver.receive()), error);
  }
}

TEST(OneshotTest, TellsEachEndThatTheOtherHasGone) {
  runtime rt{{.threads = 1}};
  auto [lonely, gone] = make_oneshot<int>();
  {
    auto const dropped = std::move(gone);
    EXPECT_FALSE(lonely.closed());
  }
  EXPECT_TRUE(lonely.closed());
  EXPECT_FALSE(lonely.send(1));

  auto [quitter, waiting] = make_oneshot<int>();
  EXPECT_EQ(waiting.try_receive(), std::nullopt);
  {
    auto const dropped = std::move(quitter);
  }
  auto const end = rt.block_on([](oneshot_receiver<int>& from) -> task<std::expected<int, std::error_code>> {
    co_return co_await as_result(from.receive());
  }(waiting));
  EXPECT_EQ(end.error(), make_error_code(errc::closed));
}

TEST(OneshotTest, ACancelledReceiveLosesNothing) {
  runtime rt{{.threads = 1}};
  auto [sender, receiver] = make_oneshot<int>();
  auto h = rt.spawn([](oneshot_receiver<int>& from) -> task<void> { co_await from.receive(); }(receiver));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_TRUE(sender.send(3));
  EXPECT_THROW(sender.send(4), error);
  EXPECT_EQ(rt.block_on(receiver.receive()), 3);
}

}  // namespace
}  // namespace ergon
