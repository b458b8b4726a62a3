#include <ergon/redis/reply.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "redis/reply_test_tools.hpp"

namespace ergon::redis {
namespace {

using ::testing::HasSubstr;
using testing::parsed;

template <class Access>
std::string refusal(Access access) {
  try {
    static_cast<void>(access());
  } catch (const error& caught) {
    return caught.reason() == errc::bad_reply ? caught.what() : std::string{"another error: "} + caught.what();
  }
  return "nothing was thrown";
}

TEST(ReplyTest, GivesEachTypeAsWhatItIs) {
  EXPECT_EQ(parsed("+OK\r\n").root().text(), "OK");
  EXPECT_EQ(parsed("+OK\r\n").root().type(), reply_type::simple);
  EXPECT_EQ(parsed("-ERR no\r\n").root().text(), "ERR no");
  EXPECT_TRUE(parsed("-ERR no\r\n").root().is_error());
  EXPECT_TRUE(parsed("!5\r\nA\r\nB \r\n").root().is_error());
  EXPECT_EQ(parsed("!5\r\nA\r\nB \r\n").root().text(), "A\r\nB ");
  EXPECT_EQ(parsed(":-42\r\n").root().integer(), -42);
  EXPECT_EQ(parsed(":+42\r\n").root().integer(), 42);
  EXPECT_EQ(parsed(":-9223372036854775808\r\n").root().integer(), INT64_MIN);
  EXPECT_EQ(parsed(":9223372036854775807\r\n").root().integer(), INT64_MAX);
  EXPECT_EQ(parsed("$5\r\na\r\nbc\r\n").root().text(), "a\r\nbc");
  EXPECT_EQ(parsed("$0\r\n\r\n").root().text(), "");
  EXPECT_FALSE(parsed("$0\r\n\r\n").root().is_null());
  EXPECT_TRUE(parsed("_\r\n").root().is_null());
  EXPECT_TRUE(parsed("#t\r\n").root().boolean());
  EXPECT_FALSE(parsed("#f\r\n").root().boolean());
  EXPECT_EQ(parsed(",1.25e2\r\n").root().real(), 125.0);
  EXPECT_EQ(parsed(",-10\r\n").root().real(), -10.0);
  EXPECT_EQ(parsed(",+0.5\r\n").root().real(), 0.5);
  EXPECT_EQ(parsed(",inf\r\n").root().real(), HUGE_VAL);
  EXPECT_EQ(parsed(",-inf\r\n").root().real(), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(parsed(",nan\r\n").root().real()));
  EXPECT_EQ(parsed("(-123456789012345678901234567890\r\n").root().text(), "-123456789012345678901234567890");
  EXPECT_EQ(parsed("=8\r\nmkd:*hi*\r\n").root().text(), "*hi*");
  EXPECT_EQ(parsed("=8\r\nmkd:*hi*\r\n").root().format(), "mkd");
  EXPECT_EQ(parsed("~2\r\n:1\r\n:2\r\n").root().type(), reply_type::set);
  EXPECT_EQ(parsed(">1\r\n+x\r\n").root().type(), reply_type::push);
}

TEST(ReplyTest, TakesBothNullsOfResp2AsNull) {
  EXPECT_TRUE(parsed("$-1\r\n").root().is_null());
  EXPECT_TRUE(parsed("*-1\r\n").root().is_null());
  reply const inside = parsed("*3\r\n$-1\r\n*-1\r\n*0\r\n");
  EXPECT_TRUE(inside.root()[0].is_null());
  EXPECT_TRUE(inside.root()[1].is_null());
  EXPECT_TRUE(inside.root()[2].empty());
}

TEST(ReplyTest, ReadsNumbersOutOfTextsAsResp2SendsThem) {
  EXPECT_EQ(parsed("$2\r\n-7\r\n").root().integer(), -7);
  EXPECT_EQ(parsed("+12\r\n").root().integer(), 12);
  EXPECT_EQ(parsed("(12\r\n").root().integer(), 12);
  EXPECT_EQ(parsed("$3\r\n2.5\r\n").root().real(), 2.5);
  EXPECT_EQ(parsed("$4\r\n-inf\r\n").root().real(), -HUGE_VAL);
  EXPECT_EQ(parsed(":3\r\n").root().real(), 3.0);
  EXPECT_TRUE(parsed(":1\r\n").root().boolean());
  EXPECT_FALSE(parsed(":0\r\n").root().boolean());
}

TEST(ReplyTest, SaysWhatWasWantedAndWhatIsThere) {
  EXPECT_THAT(refusal([] { return parsed("*2\r\n$2\r\nab\r\n:7\r\n").root().integer(); }),
              HasSubstr("wanted an integer, got array of 2: \"ab\", 7"));
  EXPECT_THAT(refusal([] { return parsed("$3\r\n1 2\r\n").root().integer(); }),
              HasSubstr("wanted an integer, got bulk string \"1 2\""));
  EXPECT_THAT(refusal([] { return parsed("$0\r\n\r\n").root().integer(); }), HasSubstr("wanted an integer"));
  EXPECT_THAT(refusal([] { return parsed("$20\r\n99999999999999999999\r\n").root().integer(); }), HasSubstr("wanted an integer"));
  EXPECT_THAT(refusal([] { return parsed("-5\r\n").root().integer(); }), HasSubstr("wanted an integer, got error \"5\""));
  EXPECT_THAT(refusal([] { return parsed("+x\r\n").root().real(); }), HasSubstr("wanted a real number, got simple string \"x\""));
  EXPECT_THAT(refusal([] { return parsed(":2\r\n").root().boolean(); }), HasSubstr("wanted a boolean, got integer 2"));
  EXPECT_THAT(refusal([] { return parsed("_\r\n").root().text(); }), HasSubstr("wanted a text, got null"));
  EXPECT_THAT(refusal([] { return parsed("+txt:a\r\n").root().format(); }), HasSubstr("wanted a verbatim string"));
  EXPECT_THAT(refusal([] { return parsed(":1\r\n").root().size(); }),
              HasSubstr("wanted an array, map, set or push, got integer 1"));
  EXPECT_THAT(refusal([] { return parsed("_\r\n").root().begin() == value::iterator{}; }), HasSubstr("got null"));
  EXPECT_THAT(refusal([] { return parsed("*1\r\n:1\r\n").root()[1].is_null(); }),
              HasSubstr("wanted a child number 1, counted from 0"));
  EXPECT_THAT(refusal([] { return parsed("*1\r\n:1\r\n").root().find("a").has_value(); }), HasSubstr("wanted a map"));
  EXPECT_THAT(refusal([] { return parsed("~2\r\n:1\r\n:2\r\n").root().find("a").has_value(); }), HasSubstr("wanted a map"));
}

TEST(ReplyTest, StepsOverChildrenHoweverMuchIsInThem) {
  reply const it = parsed("*4\r\n*2\r\n*1\r\n:1\r\n:2\r\n:3\r\n%1\r\n+k\r\n*0\r\n+end\r\n");
  value const root = it.root();
  ASSERT_EQ(root.size(), 4U);
  EXPECT_EQ(root[0][0][0].integer(), 1);
  EXPECT_EQ(root[0][1].integer(), 2);
  EXPECT_EQ(root[1].integer(), 3);
  EXPECT_EQ(root[2].size(), 2U);
  EXPECT_EQ(root[3].text(), "end");
  std::vector<reply_type> types;
  for (value const child : root) types.push_back(child.type());
  EXPECT_EQ(types, (std::vector{reply_type::array, reply_type::integer, reply_type::map, reply_type::simple}));
  value::iterator at = root.begin();
  EXPECT_EQ(at++->type(), reply_type::array);
  EXPECT_EQ((*at).integer(), 3);
}

TEST(ReplyTest, FindsAKeyInAMapAndInAnArrayOfPairs) {
  for (std::string const& head : {"%3\r\n", "*6\r\n"}) {
    reply const it = parsed(head + "$1\r\na\r\n*2\r\n+b\r\n:0\r\n:5\r\n:6\r\n+b\r\n:7\r\n");
    ASSERT_TRUE(it.root().find("a").has_value()) << head;
    EXPECT_EQ(it.root().find("a")->size(), 2U);
    EXPECT_EQ(it.root().find("b")->integer(), 7);
    EXPECT_FALSE(it.root().find("5").has_value()) << "a number is no text";
    EXPECT_FALSE(it.root().find("c").has_value());
  }
  EXPECT_FALSE(parsed("*0\r\n").root().find("a").has_value());
}

TEST(ReplyTest, WalksToTheBottomOfADeepReply) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes += "*2\r\n:" + std::to_string(i) + "\r\n";
  bytes += "+bottom\r\n";
  reply const it = parsed(bytes);
  value at = it.root();
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(at[0].integer(), i);
    value::iterator last = at.begin();
    ++last;
    at = *last;
  }
  EXPECT_EQ(at.text(), "bottom");
}

TEST(ReplyTest, DescribesItselfInAFewPrintableWords) {
  EXPECT_EQ(parsed("_\r\n").root().describe(), "null");
  EXPECT_EQ(parsed(":7\r\n").root().describe(), "integer 7");
  EXPECT_EQ(parsed(",0.5\r\n").root().describe(), "real 0.5");
  EXPECT_EQ(parsed("#t\r\n").root().describe(), "boolean true");
  EXPECT_EQ(parsed("(77\r\n").root().describe(), "big number 77");
  EXPECT_EQ(parsed("-ERR no\r\n").root().describe(), "error \"ERR no\"");
  EXPECT_EQ(parsed("$3\r\na\x01\xff\r\n").root().describe(), "bulk string \"a\\x01\\xff\"");
  EXPECT_EQ(parsed("*0\r\n").root().describe(), "array of 0");
  EXPECT_EQ(parsed("*3\r\n$2\r\nab\r\n:7\r\n*1\r\n_\r\n").root().describe(), "array of 3: \"ab\", 7, array of 1");
  EXPECT_EQ(parsed("%2\r\n+a\r\n:1\r\n+b\r\n#f\r\n").root().describe(), "map of 2 pairs: \"a\": 1, \"b\": false");
}

TEST(ReplyTest, NeverDescribesItselfInMoreThanAHundredBytes) {
  for (std::string const& text :
       {std::string(1000, 'a'), std::string(1000, '\x01'), std::string(1000, '"'), std::string(20, '\xff')}) {
    std::string const bulk = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    EXPECT_LE(parsed(bulk).root().describe().size(), 100U);
    std::string many = "*50\r\n";
    for (int i = 0; i < 50; ++i) many += bulk;
    EXPECT_LE(parsed(many).root().describe().size(), 100U);
    EXPECT_THAT(parsed(many).root().describe(), ::testing::EndsWith("…"));
  }
  EXPECT_LE(parsed("(" + std::string(1000, '9') + "\r\n").root().describe().size(), 100U);
}

TEST(ReplyTest, KeepsItsMemoryWhenClearedUnlessItIsMuch) {
  reply it = parsed("$1000\r\n" + std::string(1000, 'x') + "\r\n");
  std::size_t const held = it.memory();
  EXPECT_GE(held, 1000U);
  it.clear();
  EXPECT_TRUE(it.empty());
  EXPECT_EQ(it.memory(), held);
  it = parsed("$3000000\r\n" + std::string(3'000'000, 'x') + "\r\n");
  it.clear(10'000'000);
  EXPECT_GE(it.memory(), 3'000'000U);
  it.clear();
  EXPECT_LT(it.memory(), 10'000U);
}

TEST(ReplyTest, HasNoRootWhileItIsEmpty) {
  try {
    static_cast<void>(reply{}.root());
    FAIL();
  } catch (const error& caught) {
    EXPECT_EQ(caught.reason(), errc::invalid_argument);
  }
}

}  // namespace
}  // namespace ergon::redis
