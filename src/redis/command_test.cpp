#include <ergon/redis/command.hpp>

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "redis/reply_test_tools.hpp"

namespace ergon::redis {
namespace {

using ::testing::HasSubstr;

template <class Action>
std::string mistake(Action action) {
  try {
    action();
  } catch (const error& caught) {
    return caught.reason() == errc::invalid_argument ? caught.what() : std::string{"another error: "} + caught.what();
  }
  return "nothing was thrown";
}

TEST(CommandsTest, EncodesTextsAndIntegersAsBulkStrings) {
  commands all;
  EXPECT_TRUE(all.empty());
  std::string const key = "jobs";
  all.add("XADD", key, "*", std::string_view{"n"}, -7);
  EXPECT_EQ(all.bytes(), "*5\r\n$4\r\nXADD\r\n$4\r\njobs\r\n$1\r\n*\r\n$1\r\nn\r\n$2\r\n-7\r\n");
  all.add("PING");
  EXPECT_EQ(all.count(), 2U);
  EXPECT_THAT(std::string{all.bytes()}, ::testing::EndsWith("*1\r\n$4\r\nPING\r\n"));
  all.clear();
  EXPECT_EQ(all.bytes(), "");
  EXPECT_EQ(all.count(), 0U);
  all.add("X", INT64_MIN, UINT64_MAX, std::uint8_t{65});
  EXPECT_EQ(all.bytes(), "*4\r\n$1\r\nX\r\n$20\r\n-9223372036854775808\r\n$20\r\n18446744073709551615\r\n$2\r\n65\r\n");
}

TEST(CommandsTest, LetsAnyBytesStandInAnArgument) {
  std::string bytes("\0\r\n$1\r\n\xff", 8);
  commands all;
  all.add("SET", bytes, "");
  reply const it = testing::parsed(all.bytes());
  EXPECT_EQ(it.root()[1].text(), bytes);
  EXPECT_EQ(it.root()[2].text(), "");
  all.clear();
  all.add(std::string(100'000, 'x'));
  EXPECT_EQ(testing::parsed(all.bytes()).root()[0].text().size(), 100'000U);
}

TEST(CommandsTest, TakesACountedNumberOfArguments) {
  commands all;
  all.begin(3 + 12);
  all.arg("XACK");
  all.arg("s");
  all.arg("g");
  for (int i = 0; i < 12; ++i) all.arg(i);
  reply const it = testing::parsed(all.bytes());
  EXPECT_EQ(it.root().size(), 15U);
  EXPECT_EQ(it.root()[14].integer(), 11);
  EXPECT_EQ(all.count(), 1U);
}

TEST(CommandsTest, SeesThatACommandHasNotTheArgumentsThatItWasBegunWith) {
  commands all;
  all.begin(3);
  all.arg("GET");
  std::string const words = "begun with 3 arguments and got 1";
  EXPECT_THAT(mistake([&] { all.begin(1); }), HasSubstr(words));
  EXPECT_THAT(mistake([&] { all.add("PING"); }), HasSubstr(words));
  EXPECT_THAT(mistake([&] { static_cast<void>(all.bytes()); }), HasSubstr(words));
  all.clear();
  all.add("GET", "a");
  EXPECT_THAT(mistake([&] { all.arg("b"); }), HasSubstr("begun with 2"));
  EXPECT_THAT(mistake([&] { all.begin(0); }), HasSubstr("at least its name"));
  EXPECT_EQ(all.bytes(), "*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
}

TEST(CommandsTest, GivesALargeBufferBackWhenCleared) {
  commands all;
  all.add("SET", "k", std::string(3'000'000, 'x'));
  all.clear();
  EXPECT_LT(all.memory(), 1000U);
  all.add("SET", "k", std::string(1000, 'x'));
  all.clear();
  EXPECT_GE(all.memory(), 1000U);
}

}  // namespace
}  // namespace ergon::redis
