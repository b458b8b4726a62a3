#include <ergon/base/time.hpp>

#include <gtest/gtest.h>

#include <random>

#include <ergon/base/error.hpp>

namespace {

using namespace std::chrono_literals;
using ergon::format_time;
using ergon::parse_time;
using ergon::wall_time;

std::string failure_of(std::string_view text) {
  try {
    static_cast<void>(parse_time(text));
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::invalid_argument);
    return caught.what();
  }
  return "accepted";
}

TEST(TimeTest, IsWrittenInUtcWithAsManyDigitsAsItNeeds) {
  const wall_time at = std::chrono::sys_days{std::chrono::year{2030} / 2 / 3} + 4h + 5min + 6s;
  EXPECT_EQ(format_time(at), "2030-02-03T04:05:06Z");
  EXPECT_EQ(format_time(at + 120ms), "2030-02-03T04:05:06.120Z");
  EXPECT_EQ(format_time(at + 12us), "2030-02-03T04:05:06.000012Z");
  EXPECT_EQ(format_time(at + 1ns), "2030-02-03T04:05:06.000000001Z");
  EXPECT_EQ(format_time(wall_time{-1ns}), "1969-12-31T23:59:59.999999999Z");
}

TEST(TimeTest, ReadsZonesFractionsAndLeapSeconds) {
  const wall_time at = std::chrono::sys_days{std::chrono::year{2030} / 1 / 1};
  EXPECT_EQ(parse_time("2030-01-01T00:00:00Z"), at);
  EXPECT_EQ(parse_time("2030-01-01t01:00:00+01:00"), at);
  EXPECT_EQ(parse_time("2029-12-31 18:30:00-05:30"), at);
  EXPECT_EQ(parse_time("2030-01-01T00:00:00.25z"), at + 250ms);
  EXPECT_EQ(parse_time("2030-01-01T00:00:00.1234567899Z"), at + 123'456'789ns);
  EXPECT_EQ(parse_time("2029-12-31T23:59:60Z"), at);
  EXPECT_EQ(parse_time("2028-02-29T00:00:00Z"), wall_time{std::chrono::sys_days{std::chrono::year{2028} / 2 / 29}});
}

TEST(TimeTest, WhatIsWrittenReadsBack) {
  std::mt19937_64 random{3};
  for (int i = 0; i < 10'000; ++i) {
    const wall_time at{std::chrono::nanoseconds{static_cast<std::int64_t>(random()) / 2}};
    ASSERT_EQ(parse_time(format_time(at)), at);
  }
}

TEST(TimeTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(failure_of("2030-01-01T00:00:00"),
            "time \"2030-01-01T00:00:00\": the zone is missing: Z or +01:00 (at 19); "
            "2030-01-31T13:45:00Z or 2030-01-31T13:45:00.5+01:00 is right");
  EXPECT_NE(failure_of("2030-02-29T00:00:00Z").find("no such day"), std::string::npos);
  EXPECT_NE(failure_of("2030-13-01T00:00:00Z").find("no such day"), std::string::npos);
  EXPECT_NE(failure_of("2030-01-01T24:00:00Z").find("no such time"), std::string::npos);
  EXPECT_NE(failure_of("2030-01-01T00:00:00.Z").find("digits are missing"), std::string::npos);
  EXPECT_NE(failure_of("2030-01-01T00:00:00Zx").find("something follows"), std::string::npos);
  EXPECT_NE(failure_of("2030-1-1").find("a month is missing"), std::string::npos);
  EXPECT_NE(failure_of("1500-01-01T00:00:00Z").find("1678 to 2261"), std::string::npos);
  EXPECT_NE(failure_of("2300-01-01T00:00:00Z").find("1678 to 2261"), std::string::npos);
  EXPECT_NE(failure_of("tomorrow").find("a year"), std::string::npos);
  EXPECT_NE(failure_of("").find("a year"), std::string::npos);
}

}  // namespace
