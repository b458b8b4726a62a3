// The histogram of durations.
#include <gtest/gtest.h>

#include <chrono>

#include "queue/kind_entry.hpp"

namespace ergon::detail {
namespace {

using namespace std::chrono_literals;

TEST(DurationHistogramTest, GivesNoughtWhereNothingWasMeasured) {
  const duration_histogram h;
  EXPECT_EQ(h.quantile(0.5), 0ns);
  EXPECT_EQ(h.longest(), 0ns);
}

TEST(DurationHistogramTest, IsNeverTooLowAndAtMostAQuarterTooHigh) {
  for (std::int64_t span = 1; span < 100'000'000'000; span = span * 3 / 2 + 1) {
    duration_histogram h;
    h.add(std::chrono::nanoseconds{span});
    h.add(1h);
    EXPECT_GE(h.quantile(0.4).count(), span);
    EXPECT_LE(static_cast<double>(h.quantile(0.4).count()), static_cast<double>(span) * 1.25 + 1);
  }
}

TEST(DurationHistogramTest, FindsQuantiles) {
  duration_histogram h;
  for (int i = 1; i <= 1000; ++i) h.add(std::chrono::microseconds{i});
  EXPECT_NEAR(static_cast<double>(h.quantile(0.5).count()), 500e3, 125e3);
  EXPECT_NEAR(static_cast<double>(h.quantile(0.99).count()), 990e3, 250e3);
  EXPECT_EQ(h.longest(), 1ms);
  EXPECT_EQ(h.total(), 500500us);
}

TEST(DurationHistogramTest, TakesWhatAClockThatWasSetMayGive) {
  duration_histogram h;
  h.add(-5s);
  h.add(std::chrono::nanoseconds::max());
  EXPECT_EQ(h.quantile(0.0), 0ns);
  EXPECT_EQ(h.longest(), std::chrono::nanoseconds::max());
}

}  // namespace
}  // namespace ergon::detail
