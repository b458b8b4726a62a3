#include "bench/driver/statistics.hpp"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace ergon::bench {
namespace {

using rounds = std::vector<std::optional<double>>;

TEST(StatisticsTest, TheMedianOfAnEvenNumberOfValuesIsTheMeanOfTheTwoInTheMiddle) {
  EXPECT_DOUBLE_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
}

TEST(StatisticsTest, APercentileIsAValueThatWasMeasured) {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(percentile(hundred, 50), 50);
  EXPECT_DOUBLE_EQ(percentile(hundred, 99), 99);
  EXPECT_DOUBLE_EQ(percentile(hundred, 100), 100);
  EXPECT_DOUBLE_EQ(percentile(hundred, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{3, 8}, 99), 8);
}

TEST(StatisticsTest, TheBestTimeIsTheLowestAndTheBestRateTheHighest) {
  const std::vector<double> values{3, 1, 2};
  EXPECT_DOUBLE_EQ(summarise(values, direction::lower).best, 1);
  EXPECT_DOUBLE_EQ(summarise(values, direction::lower).worst, 3);
  EXPECT_DOUBLE_EQ(summarise(values, direction::higher).best, 3);
  EXPECT_DOUBLE_EQ(summarise(values, direction::higher).worst, 1);
  EXPECT_DOUBLE_EQ(summarise(values, direction::higher).median, 2);
}

TEST(StatisticsTest, ARatioSaysHowManyTimesBetterWhicheverWayTheFigureRuns) {
  EXPECT_DOUBLE_EQ(compare(rounds{200.0}, rounds{100.0}, direction::higher)->median, 2);
  EXPECT_DOUBLE_EQ(compare(rounds{1.0}, rounds{4.0}, direction::lower)->median, 4);
}

TEST(StatisticsTest, NoiseThatBothSharedCancelsOutInThePairs) {
  // The machine was twice as slow in the second round: the ranges overlap widely, the pairs do not.
  const auto c = compare(rounds{220.0, 110.0, 215.0}, rounds{200.0, 100.0, 200.0}, direction::higher);
  EXPECT_EQ(c->verdict, finding::faster);
  EXPECT_NEAR(c->median, 1.1, 1e-9);
}

TEST(StatisticsTest, CannotTellOnlyWhereThePairedDifferenceStraddlesNought) {
  EXPECT_EQ(compare(rounds{101.0, 99.0, 102.0}, rounds{100.0, 100.0, 100.0}, direction::higher)->verdict, finding::cannot_tell);
  EXPECT_EQ(compare(rounds{99.0, 98.0, 97.0}, rounds{100.0, 100.0, 100.0}, direction::higher)->verdict, finding::slower);
  EXPECT_EQ(compare(rounds{100.0, 100.0}, rounds{100.0, 100.0}, direction::higher)->verdict, finding::cannot_tell);
}

TEST(StatisticsTest, OneOddRoundInNineDoesNotHideADifference) {
  const rounds theirs(9, 100.0);
  const auto one = compare(rounds{110.0, 111.0, 112.0, 50.0, 110.0, 113.0, 109.0, 111.0, 110.0}, theirs, direction::higher);
  EXPECT_EQ(one->verdict, finding::faster);
  EXPECT_DOUBLE_EQ(one->low, 1.09);
  const auto two = compare(rounds{110.0, 111.0, 112.0, 50.0, 50.0, 113.0, 109.0, 111.0, 110.0}, theirs, direction::higher);
  EXPECT_EQ(two->verdict, finding::cannot_tell);
}

TEST(StatisticsTest, WithFewRoundsTheIntervalRunsFromTheLowestPairToTheHighest) {
  const auto c = compare(rounds{300.0, 100.0, 200.0, 150.0, 120.0}, rounds(5, 100.0), direction::higher);
  EXPECT_DOUBLE_EQ(c->low, 1);
  EXPECT_DOUBLE_EQ(c->high, 3);
  EXPECT_EQ(c->pairs, 5U);
}

TEST(StatisticsTest, ARoundThatFailedLeavesItsPairOut) {
  const auto c = compare(rounds{200.0, std::nullopt, 300.0}, rounds{100.0, 100.0, std::nullopt}, direction::higher);
  EXPECT_EQ(c->pairs, 1U);
  EXPECT_DOUBLE_EQ(c->median, 2);
  EXPECT_FALSE(compare(rounds{std::nullopt}, rounds{100.0}, direction::higher).has_value());
}

}  // namespace
}  // namespace ergon::bench
