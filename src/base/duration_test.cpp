#include <ergon/base/duration.hpp>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace {

using namespace std::chrono_literals;
using ergon::format_duration;
using ergon::parse_duration;

std::string failure_of(std::string_view text) {
  try {
    static_cast<void>(parse_duration(text));
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::invalid_argument);
    return caught.what();
  }
  return "accepted";
}

TEST(DurationTest, ReadsNumbersWithUnits) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  EXPECT_EQ(parse_duration("2d"), 48h);
  EXPECT_EQ(parse_duration("1w"), 7 * 24h);
  EXPECT_EQ(parse_duration("3us7ns"), 3007ns);
  EXPECT_EQ(parse_duration("3µs"), 3us);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(parse_duration("0.000000001s"), 1ns);
  EXPECT_EQ(parse_duration("0.00000000049999999999999999999999999s"), 0ns);
  EXPECT_EQ(parse_duration("87600h"), 87600h);
}

TEST(DurationTest, SaysWhatIsWrong) {
  EXPECT_EQ(failure_of("-5s"), "duration \"-5s\": is negative; 250ms, 1.5s, 1h30m or 2d is right");
  EXPECT_EQ(failure_of("5"), "duration \"5\": has no unit (ns, us, ms, s, m, h, d, w); 250ms, 1.5s, 1h30m or 2d is right");
  EXPECT_NE(failure_of("").find("is empty"), std::string::npos);
  EXPECT_NE(failure_of("5 s").find("unknown unit"), std::string::npos);
  EXPECT_NE(failure_of("5min").find("unknown unit \"min\""), std::string::npos);
  EXPECT_NE(failure_of("s").find("expected a number at 0"), std::string::npos);
  EXPECT_NE(failure_of("1h2").find("has no unit"), std::string::npos);
  EXPECT_NE(failure_of("1m1h").find("large to small"), std::string::npos);
  EXPECT_NE(failure_of("1m1m").find("large to small"), std::string::npos);
  EXPECT_NE(failure_of("1.s").find("digits on both sides"), std::string::npos);
  EXPECT_NE(failure_of(".5s").find("digits on both sides"), std::string::npos);
  EXPECT_NE(failure_of("1.2.3s").find("unknown unit"), std::string::npos);
  EXPECT_NE(failure_of("1e3s").find("unknown unit"), std::string::npos);
  EXPECT_NE(failure_of("inf").find("expected a number"), std::string::npos);
}

TEST(DurationTest, RefusesMoreThanTenYears) {
  EXPECT_EQ(failure_of("3652d"), "accepted");
  for (std::string_view text : {"3653d", "1000000d", "99999999999999999999999999999999w", "9223372036854775807ns", "521w6d"}) {
    EXPECT_NE(failure_of(text).find("over the limit of ten years"), std::string::npos) << text;
  }
}

TEST(DurationTest, ChecksSpansThatCodeGives) {
  EXPECT_NO_THROW(ergon::check_duration("delay", 0s));
  EXPECT_NO_THROW(ergon::check_duration("delay", ergon::longest_duration));
  try {
    ergon::check_duration("delay", -1500ms);
    FAIL();
  } catch (const ergon::error& caught) {
    EXPECT_STREQ(caught.what(), "delay of -1.5s is negative: from 0s to ten years is right");
  }
  EXPECT_THROW(ergon::check_duration("delay", std::chrono::nanoseconds::max()), ergon::error);
  EXPECT_THROW(ergon::check_duration("delay", std::chrono::nanoseconds::min()), ergon::error);
}

TEST(DurationTest, IsShownShortAndRounded) {
  EXPECT_EQ(format_duration(0ns), "0s");
  EXPECT_EQ(format_duration(999ns), "999ns");
  EXPECT_EQ(format_duration(1500ns), "1.5us");
  EXPECT_EQ(format_duration(250ms), "250ms");
  EXPECT_EQ(format_duration(999'499us), "999ms");
  EXPECT_EQ(format_duration(999'600us), "1s");
  EXPECT_EQ(format_duration(1234ms), "1.23s");
  EXPECT_EQ(format_duration(12'340ms), "12.3s");
  EXPECT_EQ(format_duration(59'960ms), "1m");
  EXPECT_EQ(format_duration(200s), "3m20s");
  EXPECT_EQ(format_duration(3599'600ms), "1h");
  EXPECT_EQ(format_duration(90min), "1h30m");
  EXPECT_EQ(format_duration(52h), "2d4h");
  EXPECT_EQ(format_duration(-5s), "-5s");
  EXPECT_EQ(format_duration(std::chrono::nanoseconds::min()), "-106752d");
}

}  // namespace
