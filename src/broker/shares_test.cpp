#include "broker/shares.hpp"

#include <map>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace ergon {
namespace {

/// Queues with so many jobs each, asked in the way that a fetch asks.
class scene {
 public:
  scene(std::vector<queue_share> queues, bool strict) : shares_(queues, strict), left_(queues.size()), got_(queues.size()) {}

  std::vector<std::size_t>& left() { return left_; }
  std::vector<std::size_t>& got() { return got_; }

  std::size_t fetch(std::size_t max) {
    const std::size_t wanted = max;
    const auto plan = shares_.plan(max);
    for (const bool first_way : {true, false}) {
      for (const auto& turn : plan) {
        if (max == 0) break;
        const std::size_t most = first_way ? std::min(max, turn.count) : max;
        if (most == 0) continue;
        const std::size_t count = std::min(most, left_[turn.queue]);
        left_[turn.queue] -= count;
        got_[turn.queue] += count;
        max -= count;
        shares_.took(turn.queue, count);
      }
    }
    return wanted - max;
  }

 private:
  shares shares_;
  std::vector<std::size_t> left_;
  std::vector<std::size_t> got_;
};

TEST(SharesTest, SharesByWeightAtAnyFetchSize) {
  for (const std::size_t size : {1UL, 2UL, 3UL, 7UL, 64UL, 1000UL}) {
    scene s{{{"a", 3}, {"b", 1}, {"c", 6}}, false};
    s.left() = {1'000'000, 1'000'000, 1'000'000};
    std::size_t total = 0;
    while (total < 10'000) total += s.fetch(size);
    const auto want = static_cast<double>(total);
    EXPECT_NEAR(static_cast<double>(s.got()[0]), want * 0.3, 3) << size;
    EXPECT_NEAR(static_cast<double>(s.got()[1]), want * 0.1, 3) << size;
    EXPECT_NEAR(static_cast<double>(s.got()[2]), want * 0.6, 3) << size;
  }
}

TEST(SharesTest, NoQueueIsServedInOneLongRow) {
  scene s{{{"a", 5}, {"b", 1}}, false};
  s.left() = {1000, 1000};
  for (int i = 0; i < 60; i += 6) {
    const std::size_t before = s.got()[1];
    for (int k = 0; k < 6; ++k) EXPECT_EQ(s.fetch(1), 1U);
    EXPECT_EQ(s.got()[1], before + 1);
  }
}

TEST(SharesTest, AnEmptyQueueLeavesItsPartAndIsOwedNothing) {
  for (const std::size_t size : {1UL, 10UL}) {
    scene s{{{"a", 1}, {"b", 1}}, false};
    s.left() = {0, 1'000'000};
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(s.fetch(size), size);
    s.left()[0] = 1'000'000;
    s.got() = {0, 0};
    for (std::size_t i = 0; i < 100; i += size) s.fetch(size);
    EXPECT_NEAR(static_cast<double>(s.got()[0]), 50, 3);
  }
}

TEST(SharesTest, AFetchTakesAllItCanGet) {
  scene s{{{"a", 1}, {"b", 1}, {"c", 1}}, false};
  s.left() = {2, 0, 50};
  EXPECT_EQ(s.fetch(40), 40U);
  EXPECT_EQ(s.fetch(40), 12U);
  EXPECT_EQ(s.fetch(40), 0U);
}

TEST(SharesTest, StrictServesALowerRankOnlyWhenAllAboveAreEmpty) {
  scene s{{{"low", 1}, {"high", 9}, {"middle", 5}}, true};
  s.left() = {10, 3, 4};
  s.fetch(5);
  EXPECT_EQ(s.got(), (std::vector<std::size_t>{0, 3, 2}));
  s.fetch(5);
  EXPECT_EQ(s.got(), (std::vector<std::size_t>{3, 3, 4}));
}

TEST(SharesTest, RefusesListsThatMakeNoSense) {
  const auto make = [](std::vector<queue_share> queues) { return shares{queues, false}; };
  EXPECT_THROW(make({}), error);
  EXPECT_THROW(make({{"a", 1}, {"a", 2}}), error);
  EXPECT_THROW(make({{"a", 0}}), error);
  EXPECT_THROW(make({{"a", 1001}}), error);
  EXPECT_THROW(make({{"a b", 1}}), error);
}

}  // namespace
}  // namespace ergon
