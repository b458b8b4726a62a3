// The wheel, against a list that is searched from end to end, and its bounds on work.
#include "runtime/timer_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace ergon::detail {
namespace {

using namespace std::chrono_literals;

steady_time at(std::int64_t ns) { return steady_time{std::chrono::nanoseconds{ns}}; }

class probe final : public timer {
 public:
  probe(int n, std::vector<int>& log) : n_(n), log_(&log) {}
  ~probe() = default;

 private:
  bool arm() noexcept override { return false; }
  bool disarm() noexcept override { return false; }
  void run() noexcept override { log_->push_back(n_); }
  int n_;
  std::vector<int>* log_;
};

struct wheel {
  explicit wheel(std::int64_t start) : store{at(start), 0} {}

  void run(const work_chain& chain) {
    ready_item item = chain.first;
    for (std::size_t i = 0; i < chain.size; ++i) {
      ready_item const next = item.next();
      item.run();
      item = next;
    }
  }
  /// Everything that is due.
  void move_to(std::int64_t now) {
    for (bool more = true; more;) {
      run(store.advance(at(now), more));
    }
  }

  timer_store store;
};

struct expected {
  std::int64_t due;
  int n;
};

class TimerStoreTest : public testing::TestWithParam<unsigned> {};

TEST_P(TimerStoreTest, FiresInOrderOfTimeAndArrivalNeverEarlyAndNothingThatWasTakenOut) {
  std::mt19937_64 random{GetParam()};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  std::int64_t now = up_to(std::int64_t{1} << (random() % 60));
  wheel wheel{now};
  std::vector<int> log;
  std::vector<std::unique_ptr<probe>> probes;
  std::vector<expected> waiting;
  for (int step = 0; step < 400; ++step) {
    for (int i = static_cast<int>(up_to(20)); i-- > 0;) {
      // Near and far, and now and then the same time again.
      std::int64_t due = now + up_to(std::int64_t{1} << (random() % 52)) - up_to(1000);
      if (!waiting.empty() && random() % 4 == 0) {
        due = waiting[random() % waiting.size()].due;
      }
      auto const n = static_cast<int>(probes.size());
      probes.push_back(std::make_unique<probe>(n, log));
      wheel.store.insert(*probes.back(), at(due));
      waiting.push_back({due, n});
    }
    if (!waiting.empty() && random() % 3 == 0) {
      auto const gone = waiting.begin() + static_cast<std::ptrdiff_t>(random() % waiting.size());
      EXPECT_TRUE(wheel.store.remove(*probes[static_cast<std::size_t>(gone->n)]));
      EXPECT_FALSE(wheel.store.remove(*probes[static_cast<std::size_t>(gone->n)]));
      waiting.erase(gone);
    }
    auto const first = std::ranges::min_element(waiting, {}, &expected::due);
    steady_time const wake = wheel.store.earliest();
    if (waiting.empty()) {
      EXPECT_EQ(wake, steady_time::max());
    } else {
      EXPECT_LE(wake, at(std::max(first->due, now))) << "somebody would sleep past a timer";
      // Jumps of every size, often exactly to the next one.
      now = random() % 2 == 0 ? std::max(now, first->due) : now + up_to(std::int64_t{1} << (random() % 50));
    }
    log.clear();
    wheel.move_to(now);
    std::vector<expected> due;
    std::erase_if(waiting, [&](const expected& e) {
      if (e.due > now) {
        return false;
      }
      due.push_back(e);
      return true;
    });
    std::ranges::sort(due, {}, [](const expected& e) { return std::pair{e.due, e.n}; });
    std::vector<int> order;
    for (const expected& e : due) {
      order.push_back(e.n);
    }
    ASSERT_EQ(log, order) << "step " << step;
  }
  for (const expected& e : waiting) {
    wheel.store.remove(*probes[static_cast<std::size_t>(e.n)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerStoreTest, testing::Range(0U, 40U));

TEST(TimerStoreBoundTest, MovesAndFiresAFewAtATimeHoweverManyStandInASlot) {
  constexpr int many = 20'000;
  wheel wheel{0};
  std::vector<int> log;
  std::vector<std::unique_ptr<probe>> probes;
  std::int64_t const due = std::chrono::nanoseconds{1h}.count();
  for (int i = 0; i < many; ++i) {
    probes.push_back(std::make_unique<probe>(i, log));
    wheel.store.insert(*probes.back(), at(due + i % 7));
  }
  std::size_t calls = 0;
  for (bool more = true; more; ++calls) {
    work_chain const fired = wheel.store.advance(at(due + 10), more);
    EXPECT_LE(fired.size, 32U);
    wheel.run(fired);
  }
  EXPECT_EQ(log.size(), static_cast<std::size_t>(many));
  EXPECT_GE(calls, static_cast<std::size_t>(many) / 32);
}

TEST(TimerStoreBoundTest, TellsTheExactTimeOfAFewTimersAndBeginsASlotOfManyEarly) {
  wheel wheel{0};
  std::vector<int> log;
  probe one{1, log};
  std::int64_t const due = std::chrono::nanoseconds{10s}.count() + 12'345;
  EXPECT_TRUE(wheel.store.insert(one, at(due)));
  EXPECT_EQ(wheel.store.earliest(), at(due));
  bool more = true;
  EXPECT_EQ(wheel.store.advance(at(due - 1), more).size, 0U);
  EXPECT_FALSE(more);
  EXPECT_EQ(wheel.store.earliest(), at(due));
  wheel.move_to(due);
  EXPECT_EQ(log, std::vector<int>{1});
  EXPECT_EQ(wheel.store.earliest(), steady_time::max());
}

}  // namespace
}  // namespace ergon::detail
