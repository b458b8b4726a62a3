#include <ergon/base/log.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "base/json_line.hpp"

namespace {

using ergon::log_field;
using ergon::log_level;
using ergon::log_number;
using ergon::logger;

struct LogTest : testing::Test {
  std::shared_ptr<ergon::memory_sink> sink = std::make_shared<ergon::memory_sink>();
};

TEST_F(LogTest, RecordsHaveLevelTextAndFields) {
  const logger log{sink, log_level::debug};
  const std::string queue = "images";
  log.info("took over", {{"queue", queue}, {"jobs", log_number(3)}, {"late", log_number(true)}});
  const auto entries = sink->entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].level, log_level::info);
  EXPECT_EQ(entries[0].text, "took over");
  EXPECT_EQ(entries[0].field("queue"), "images");
  EXPECT_EQ(entries[0].field("jobs"), "3");
  EXPECT_EQ(entries[0].field("late"), "true");
  EXPECT_EQ(entries[0].field("other"), "");
}

TEST_F(LogTest, BelowTheLevelNoTextIsEvenMade) {
  const logger log{sink, log_level::warn};
  int made = 0;
  const auto text = [&] {
    ++made;
    return std::string{"costly"};
  };
  log.debug(text);
  log.info(text);
  log.info("plain");
  EXPECT_EQ(made, 0);
  log.warn(text);
  log.error(text);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(sink->entries().size(), 2U);
  EXPECT_FALSE(log.enabled(log_level::info));
  log.at_level(log_level::debug).debug("now");
  EXPECT_TRUE(sink->contains("now"));
}

TEST_F(LogTest, BoundFieldsComeFirstInEveryRecord) {
  const logger log = logger{sink, log_level::info}.with({{"worker", std::string{"w1"}}}).with({{"pid", log_number(7)}});
  log.info("a");
  log.info("b", {{"job", "j"}});
  const auto entries = sink->entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].fields, (std::vector<std::pair<std::string, std::string>>{{"worker", "w1"}, {"pid", "7"}}));
  EXPECT_EQ(entries[1].fields, (std::vector<std::pair<std::string, std::string>>{{"worker", "w1"}, {"pid", "7"}, {"job", "j"}}));
}

TEST_F(LogTest, TheNullLoggerWritesNothing) {
  const logger log = logger::null();
  log.error("x");
  log.with({{"a", "b"}}).error("y");
  EXPECT_FALSE(log.enabled(log_level::error));
}

TEST_F(LogTest, ATextThatCannotBeMadeDoesNotThrow) {
  const logger log{sink, log_level::info};
  log.info([]() -> std::string { throw std::runtime_error{"no"}; }, {{"job", "j"}});
  EXPECT_TRUE(sink->contains("could not be made"));
}

TEST_F(LogTest, TheDefaultLoggerCanBeReplaced) {
  const logger before = ergon::default_logger();
  ergon::set_default_logger(logger{sink, log_level::info});
  ergon::default_logger().info("here");
  ergon::set_default_logger(before);
  EXPECT_TRUE(sink->contains("here"));
}

TEST_F(LogTest, ManyThreadsMayWrite) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([log = logger{sink, log_level::info}] {
        for (int i = 0; i < 500; ++i) log.info("x", {{"i", log_number(i)}});
      });
    }
  }
  EXPECT_EQ(sink->entries().size(), 2000U);
}

TEST(JsonLogTest, ALineIsAnObjectWithTheFieldsAsMembers) {
  const log_number jobs{3};
  const log_number ratio{std::numeric_limits<double>::infinity()};
  const std::vector<log_field> fields{{"queue", "a\"b"}, {"jobs", jobs}, {"level", "x"}, {"ratio", ratio}};
  EXPECT_EQ(
      ergon::json_line({ergon::wall_time{}, log_level::warn, "two\nlines\x01", fields}),
      "{\"time\":\"1970-01-01T00:00:00Z\",\"level\":\"warn\",\"text\":\"two\\nlines\\u0001\",\"queue\":\"a\\\"b\",\"jobs\":3,"
      "\"level_\":\"x\",\"ratio\":\"inf\"}\n");
}

TEST(JsonLogTest, WhatIsNotUtf8IsReplaced) {
  std::string out;
  ergon::append_json_text(out, "a\xff\\ä\xC3");
  EXPECT_EQ(out, "\"a\xEF\xBF\xBD\\\\ä\xEF\xBF\xBD\"");
}

TEST(ConsoleLogTest, NoRecordCanForgeASecondLine) {
  const log_number n{1.5};
  const std::vector<log_field> fields{{"path", "a b"}, {"n", n}, {"empty", ""}, {"odd", "x\n"}};
  EXPECT_EQ(ergon::console_line({ergon::wall_time{}, log_level::info, "say \"hi\"\nERROR C:\\x\x1b[2J", fields}),
            "say \"hi\"\\x0aERROR C:\\x\\x1b[2J path=\"a b\" n=1.5 empty=\"\" odd=\"x\\x0a\"");
}

TEST(ConsoleLogTest, WritesTextToStderrAndJsonToo) {
  testing::internal::CaptureStderr();
  logger::console().warn("first", {{"k", "v"}});
  logger::json().error("second", {{"k", log_number(2U)}});
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find("warning first k=v\n"), std::string::npos) << out;
  EXPECT_NE(out.find("\"level\":\"error\",\"text\":\"second\",\"k\":2}\n"), std::string::npos) << out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
}

}  // namespace
