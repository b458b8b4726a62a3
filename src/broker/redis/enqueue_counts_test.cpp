#include "broker/redis/enqueue_counts.hpp"

#include <gtest/gtest.h>

namespace ergon::redis_store {
namespace {

using namespace std::chrono_literals;

class EnqueueCountsTest : public ::testing::Test {
 protected:
  partition queue{"ergon", "default", 1};
  enqueue_counts counts;
  steady_time now{1h};
};

TEST_F(EnqueueCountsTest, TheFirstAfterAPauseIsCountedAtOnce) {
  EXPECT_EQ(counts.add(queue, now).now, 1U);
  EXPECT_EQ(counts.add(queue, now + 1s).now, 1U);
}

TEST_F(EnqueueCountsTest, ThoseThatFollowAreCountedTogether) {
  (void)counts.add(queue, now);
  EXPECT_TRUE(counts.add(queue, now + 1ms).starts_timer);
  for (std::uint64_t i = 2; i < enqueue_counts::many; ++i) {
    const auto share = counts.add(queue, now + 2ms);
    EXPECT_EQ(share.now, 0U);
    EXPECT_FALSE(share.starts_timer) << "one is enough";
  }
  EXPECT_EQ(counts.add(queue, now + 3ms).now, enqueue_counts::many);
  (void)counts.add(queue, now + 4ms);
  const auto rest = counts.take(true);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].second, 1U);
  EXPECT_TRUE(counts.take(true).empty());
}

TEST_F(EnqueueCountsTest, WhatFailedIsNotCounted) {
  (void)counts.add(queue, now);
  (void)counts.add(queue, now);
  counts.correct(queue, -1);
  EXPECT_TRUE(counts.take(true).empty());
  const auto share = counts.add(queue, now + 1s);
  counts.correct(queue, static_cast<std::int64_t>(share.now) - 1);
  EXPECT_TRUE(counts.take(true).empty());
}

TEST_F(EnqueueCountsTest, QueuesAreCountedApart) {
  partition other{"ergon", "other", 2};
  (void)counts.add(queue, now);
  EXPECT_EQ(counts.add(other, now).now, 1U);
}

}  // namespace
}  // namespace ergon::redis_store
