// When a failed job is tried again.
#include <gtest/gtest.h>

#include <chrono>

#include <ergon/base/error.hpp>
#include <ergon/queue/retry_policy.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

TEST(RetryPolicyTest, DoublesUpToTheCap) {
  const retry_policy policy = exponential_backoff({.base = 1s, .factor = 2, .cap = 10s, .jitter = false});
  EXPECT_EQ(policy(1, ""), 1s);
  EXPECT_EQ(policy(2, ""), 2s);
  EXPECT_EQ(policy(4, ""), 8s);
  EXPECT_EQ(policy(5, ""), 10s);
  EXPECT_EQ(policy(4'000'000'000U, ""), 10s);
}

TEST(RetryPolicyTest, SpreadsTheWaitsOverTheWholeSpan) {
  const retry_policy policy = exponential_backoff({.base = 100s, .factor = 1});
  int low = 0;
  int high = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto wait = policy(1, "");
    ASSERT_GE(wait, 0s);
    ASSERT_LT(wait, 100s);
    (wait < 50s ? low : high) += 1;
  }
  EXPECT_GT(low, 300);
  EXPECT_GT(high, 300);
}

TEST(RetryPolicyTest, KeepsTheDefaultAboutADayAndAHalf) {
  const retry_policy bound = exponential_backoff({.jitter = false});
  std::chrono::nanoseconds most{0};
  for (std::uint32_t failures = 1; failures <= 25; ++failures) most += bound(failures, "");
  EXPECT_GT(most / 2, 30h);
  EXPECT_LT(most, 73h);
}

TEST(RetryPolicyTest, WaitsTheSameWhereItIsFixed) {
  const retry_policy policy = fixed_backoff(3s);
  EXPECT_EQ(policy(1, "a"), 3s);
  EXPECT_EQ(policy(9, "b"), 3s);
}

TEST(RetryPolicyTest, RefusesAbsurdNumbers) {
  EXPECT_THROW(static_cast<void>(exponential_backoff({.base = -1s})), error);
  EXPECT_THROW(static_cast<void>(exponential_backoff({.factor = 0.5})), error);
  EXPECT_THROW(static_cast<void>(exponential_backoff({.factor = __builtin_nan("")})), error);
  EXPECT_THROW(static_cast<void>(fixed_backoff(-1ns)), error);
}

}  // namespace
}  // namespace ergon
