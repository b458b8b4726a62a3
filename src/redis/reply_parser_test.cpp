#include <ergon/redis/reply_parser.hpp>

#include <charconv>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "redis/reply_test_tools.hpp"

namespace ergon::redis {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using testing::parsed;
using testing::read_all;
using testing::read_in_pieces;
using testing::reading;

// Every type, both protocols, one after the other as on a connection.
std::vector<std::string> corpus() {
  return {
      "+OK\r\n",
      "+\r\n",
      "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
      ":0\r\n",
      ":-9223372036854775808\r\n",
      "$0\r\n\r\n",
      "$5\r\n\r\n\r\n$\r\n",
      "$-1\r\n",
      "*-1\r\n",
      "*0\r\n",
      "_\r\n",
      ",3.25\r\n",
      ",-inf\r\n",
      "(3492890328409238509324850943850943825024385\r\n",
      "#t\r\n",
      "!21\r\nSYNTAX invalid syntax\r\n",
      "=15\r\ntxt:Some string\r\n",
      "=4\r\ntxt:\r\n",
      "*3\r\n:1\r\n*2\r\n+a\r\n$-1\r\n$3\r\nxyz\r\n",
      "%2\r\n+first\r\n:1\r\n$6\r\nsecond\r\n*1\r\n%0\r\n",
      "~3\r\n+a\r\n~0\r\n~1\r\n:7\r\n",
      ">3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$5\r\nhello\r\n",
      "|1\r\n+key-popularity\r\n%2\r\n$1\r\na\r\n,0.1923\r\n$1\r\nb\r\n,0.0012\r\n*2\r\n:2039123\r\n:9543892\r\n",
      "*3\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n|1\r\n+x\r\n+y\r\n:3600\r\n:3\r\n",
      "*1\r\n*2\r\n$6\r\nstream\r\n*1\r\n*2\r\n$15\r\n1526984818136-0\r\n*4\r\n$1\r\na\r\n$3\r\n\x00\xff\n\r\n$1\r\nb\r\n$"
      "1\r\n2\r\n"s,
  };
}

TEST(ReplyParserTest, ReadsTheSameHoweverTheBytesAreCut) {
  std::string all;
  for (const auto& one : corpus()) all += one;
  reading const whole = read_all(all);
  ASSERT_EQ(whole.error, "");
  ASSERT_EQ(whole.replies.size(), corpus().size());
  ASSERT_FALSE(whole.midway);
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    reading const two = read_in_pieces(all, {}, [first = true, cut](std::size_t) mutable {
      std::size_t const size = first ? cut : std::size_t{1} << 20U;
      first = false;
      return size;
    });
    ASSERT_EQ(two.replies, whole.replies) << "cut at " << cut;
  }
  for (std::size_t piece = 1; piece < 40; ++piece) {
    ASSERT_EQ(read_in_pieces(all, {}, [&](std::size_t) { return piece; }).replies, whole.replies) << "pieces of " << piece;
  }
  for (const auto& one : corpus()) {
    reply const expected = parsed(one);
    for (std::size_t cut = 1; cut < one.size(); ++cut) {
      reply_parser parser;
      reply now;
      ASSERT_EQ(parser.feed(std::span{one.data(), cut}, now), cut);
      ASSERT_FALSE(parser.whole());
      ASSERT_TRUE(parser.midway());
      ASSERT_EQ(parser.feed(std::span{one.data() + cut, one.size() - cut}, now), one.size() - cut);
      ASSERT_TRUE(parser.whole());
      ASSERT_EQ(now, expected) << one << " cut at " << cut;
    }
  }
}

TEST(ReplyParserTest, TakesOneReplyAndLeavesWhatFollows) {
  reply_parser parser;
  reply now;
  std::string_view const bytes = "+a\r\n:2\r\n+rest";
  EXPECT_EQ(parser.feed(std::span{bytes.data(), bytes.size()}, now), 4U);
  EXPECT_TRUE(parser.whole());
  EXPECT_EQ(now.root().text(), "a");
  now.clear();
  EXPECT_EQ(parser.feed(std::span{bytes.data() + 4, bytes.size() - 4}, now), 4U);
  EXPECT_EQ(now.root().integer(), 2);
  EXPECT_EQ(parser.offset(), 8U);
  EXPECT_EQ(parser.feed({}, now), 0U);
  EXPECT_TRUE(parser.whole());
  now.clear();
  EXPECT_EQ(parser.feed(std::span{bytes.data() + 8, 5}, now), 5U);
  EXPECT_FALSE(parser.whole());
  EXPECT_TRUE(parser.midway());
}

TEST(ReplyParserTest, WantsAnEmptyReplyToBeginAndTheSameToGoOn) {
  reply_parser parser;
  reply now = parsed("+a\r\n");
  reply other;
  std::string_view const bytes = "*2\r\n:1\r\n:2\r\n";
  EXPECT_THROW(parser.feed(std::span{bytes.data(), bytes.size()}, now), error);
  now.clear();
  EXPECT_EQ(parser.feed(std::span{bytes.data(), 8}, now), 8U);
  EXPECT_THROW(parser.feed(std::span{bytes.data() + 8, 4}, other), error);
  EXPECT_EQ(parser.feed(std::span{bytes.data() + 8, 4}, now), 4U);
  EXPECT_TRUE(parser.whole());
}

TEST(ReplyParserTest, DropsAttributesWhereverTheyStand) {
  std::string const attribute = "|2\r\n+ttl\r\n:3600\r\n$3\r\nkey\r\n*2\r\n+a\r\n=5\r\ntxt:b\r\n";
  EXPECT_EQ(parsed(attribute + "+OK\r\n"), parsed("+OK\r\n"));
  EXPECT_EQ(parsed(attribute + attribute + "+OK\r\n"), parsed("+OK\r\n"));
  EXPECT_EQ(parsed("|0\r\n+OK\r\n"), parsed("+OK\r\n"));
  EXPECT_EQ(parsed("*2\r\n" + attribute + "$1\r\na\r\n" + attribute + "*1\r\n" + attribute + ":1\r\n"),
            parsed("*2\r\n$1\r\na\r\n*1\r\n:1\r\n"));
  EXPECT_EQ(parsed("%1\r\n" + attribute + "+k\r\n" + attribute + "%0\r\n"), parsed("%1\r\n+k\r\n%0\r\n"));
  EXPECT_EQ(parsed("|1\r\n" + attribute + "+k\r\n" + attribute + "*1\r\n|0\r\n:1\r\n" + attribute + ">1\r\n+x\r\n"),
            parsed(">1\r\n+x\r\n"));
  EXPECT_TRUE(read_all(attribute).midway) << "an attribute alone is no reply";
}

struct bad {
  std::string bytes;
  std::vector<std::string> words;
};

TEST(ReplyParserTest, RefusesGarbageWithThePlaceAndWhatStoodThere) {
  std::vector<bad> const table{
      {"HTTP/1.1 400 Bad Request\r\n", {"byte 0", "no reply begins so", "\"H\""}},
      {"+OK\r\n\r\n", {"byte 5", "no reply begins so", "\\x0d"}},
      {"+OK\n", {"byte 0", "without a carriage return", "\"+OK\""}},
      {"+\n", {"byte 0", "without a carriage return"}},
      {"$\n", {"without a carriage return"}},
      {"+a\rb\r\n", {"carriage return within a line"}},
      {"+a\nb\r\n", {"without a carriage return", "\"+a\""}},
      {":\r\n", {"an integer is a sign and digits", "\":\""}},
      {":1 \r\n", {"an integer is a sign and digits"}},
      {": 1\r\n", {"an integer is a sign and digits"}},
      {":+-1\r\n", {"an integer is a sign and digits"}},
      {":1.5\r\n", {"an integer is a sign and digits"}},
      {":9223372036854775808\r\n", {"within 64 bits", "9223372036854775808"}},
      {":-9223372036854775809\r\n", {"within 64 bits"}},
      {"*2\r\n:1\r\n:x\r\n", {"byte 8", "\":x\""}},
      {"$abc\r\n", {"a text's length is digits and nothing else", "\"$abc\""}},
      {"$\r\n", {"a text's length is digits"}},
      {"$-2\r\n", {"a text's length is digits"}},
      {"$-1x\r\n", {"a text's length is digits"}},
      {"$+1\r\n", {"a text's length is digits"}},
      {"$1 \r\n", {"a text's length is digits"}},
      {"$2\r\nabc\r\n", {"byte 6", "a text of 2 bytes that goes on after its end", "\"c\""}},
      {"$2\r\nab\rx", {"byte 7", "goes on after its end", "\"x\""}},
      {"$99999999999999999999999999\r\n", {"a text of more than"}},
      {"$536870913\r\n", {"a text of more than 536870912 bytes"}},
      {"*x\r\n", {"an array's size is digits"}},
      {"*-2\r\n", {"an array's size is digits"}},
      {"*2147483647\r\n", {"more than 16777216 values"}},
      {"%9223372036854775807\r\n", {"more than 16777216 values"}},
      {"%-1\r\n", {"a map's size is digits"}},
      {"~-1\r\n", {"a set's size is digits"}},
      {">-1\r\n", {"a push's size is digits"}},
      {"|-1\r\n", {"an attribute's size is digits"}},
      {"!-1\r\n", {"a text's length is digits"}},
      {"=-1\r\n", {"a text's length is digits"}},
      {"=3\r\n", {"three letters and a colon"}},
      {"=5\r\ntxt-a\r\n", {"byte 4", "three letters and a colon", "\"txt-a\""}},
      {"_x\r\n", {"null has nothing after its sign"}},
      {"#\r\n", {"a boolean is t or f"}},
      {"#true\r\n", {"a boolean is t or f", "\"#true\""}},
      {"#1\r\n", {"a boolean is t or f"}},
      {",\r\n", {"a real is"}},
      {",.5\r\n", {"a real is"}},
      {",5.\r\n", {"a real is"}},
      {",1e\r\n", {"a real is"}},
      {",1e5x\r\n", {"a real is"}},
      {",+-1\r\n", {"a real is"}},
      {",0x10\r\n", {"a real is"}},
      {",infinity\r\n", {"a real is"}},
      {",+inf\r\n", {"a real is"}},
      {",NaN\r\n", {"a real is"}},
      {",1e999\r\n", {"a real is"}},
      {"(\r\n", {"a big number is"}},
      {"(-\r\n", {"a big number is"}},
      {"(12a\r\n", {"a big number is", "\"(12a\""}},
      {"$?\r\n", {"streamed", "\"$?\""}},
      {"*?\r\n", {"streamed"}},
      {"%?\r\n", {"streamed"}},
      {"~?\r\n", {"streamed"}},
      {";4\r\n", {"no reply begins so"}},
      {".\r\n", {"no reply begins so"}},
      {"*1\r\n>1\r\n+x\r\n", {"a push within another reply"}},
      {"|1\r\n+k\r\n>1\r\n+x\r\n", {"a push within another reply"}},
      {std::string("+\x01\xff\r") + std::string(3, '\0') + "\r\n", {"\\x01\\xff"}},
      {std::string(100, 'x'), {"\"x\""}},
      {":" + std::string(100, '9') + "\r\n", {"9…\""}},
  };
  for (const auto& [bytes, words] : table) {
    reading const whole = read_all(bytes);
    for (const auto& word : words) EXPECT_THAT(whole.error, HasSubstr(word)) << bytes;
    EXPECT_LE(whole.error.size(), 300U) << bytes;
    for (std::size_t piece = 1; piece < 4; ++piece) {
      EXPECT_EQ(read_in_pieces(bytes, {}, [&](std::size_t) { return piece; }).error, whole.error) << "pieces of " << piece;
    }
  }
}

TEST(ReplyParserTest, RefusesEveryByteAfterGarbageUntilItIsReset) {
  reply_parser parser;
  reply now;
  std::string_view const bytes = "*1\r\nx+OK\r\n";
  EXPECT_THROW(parser.feed(std::span{bytes.data(), bytes.size()}, now), error);
  EXPECT_TRUE(parser.broken());
  reply next;
  EXPECT_THROW(parser.feed(std::span{bytes.data() + 5, 5}, next), error);
  EXPECT_TRUE(next.empty());
  parser.reset();
  EXPECT_EQ(parser.feed(std::span{bytes.data() + 5, 5}, next), 5U);
  EXPECT_EQ(next.root().text(), "OK");
}

TEST(ReplyParserTest, HoldsEachLimit) {
  auto const nested = [](int depth) {
    std::string out;
    for (int i = 0; i < depth; ++i) out += "*1\r\n";
    return out + ":1\r\n";
  };
  auto const line = [](std::size_t size) { return "+" + std::string(size - 1, 'x') + "\r\n"; };
  std::string const texts = "*2\r\n$4\r\nabcd\r\n$4\r\nabcd\r\n";
  struct row {
    std::string fits;
    std::string breaks;
    reply_limits limits;
    std::string words;
  };
  std::vector<row> const table{
      {nested(3), nested(4), {.depth = 3}, "deeper than 3"},
      {"|1\r\n+a\r\n+b\r\n*0\r\n", "|1\r\n+a\r\n*0\r\n:1\r\n", {.depth = 1}, "deeper than 1"},
      {"$4\r\nabcd\r\n", "$5\r\nabcde\r\n", {.text = 4}, "a text of more than 4 bytes"},
      {"!4\r\nabcd\r\n", "!5\r\nabcde\r\n", {.text = 4}, "a text of more than 4 bytes"},
      {"*3\r\n:1\r\n:2\r\n:3\r\n", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", {.elements = 4}, "more than 4 values"},
      {"*1\r\n*2\r\n:1\r\n:2\r\n", "*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", {.elements = 4}, "more than 4 values"},
      {line(64), line(65), {.line = 64}, "a line of more than 64 bytes"},
      {":" + std::string(63, '0') + "\r\n", ":" + std::string(64, '0') + "\r\n", {.line = 64}, "a line of more than 64 bytes"},
      {texts, texts, {.total = texts.size()}, ""},
      {"", texts, {.total = texts.size() - 1}, "a reply of more than 23 bytes"},
      {"", "+abcdefgh\r\n", {.total = 10}, "a reply of more than 10 bytes"},
      {"|1\r\n:1\r\n:2\r\n+x\r\n",
       "|2\r\n:1\r\n:2\r\n:3\r\n:4\r\n+x\r\n",
       {.attribute_elements = 2},
       "attributes of more than 2 values"},
      {"", "|1\r\n:1\r\n:2\r\n|1\r\n:1\r\n:2\r\n+x\r\n", {.attribute_elements = 2}, "attributes of more than 2 values"},
      {"|1\r\n:1\r\n:2\r\n+long enough\r\n",
       "|1\r\n:1\r\n$3\r\nabc\r\n+x\r\n",
       {.attribute_bytes = 12},
       "attributes of more than 12 bytes"},
  };
  for (const auto& [fits, breaks, limits, words] : table) {
    if (!fits.empty()) {
      reading const good = read_all(fits, limits);
      EXPECT_EQ(good.error, "") << fits;
      EXPECT_EQ(good.replies.size(), 1U) << fits;
    }
    if (words.empty()) continue;
    reading const whole = read_all(breaks, limits);
    EXPECT_THAT(whole.error, HasSubstr(words)) << breaks;
    EXPECT_TRUE(whole.replies.empty());
    for (std::size_t piece = 1; piece < 8; ++piece) {
      EXPECT_EQ(read_in_pieces(breaks, limits, [&](std::size_t) { return piece; }).error, whole.error) << breaks;
    }
  }
}

TEST(ReplyParserTest, CountsLimitsAnewForEachReply) {
  reply_limits const limits{.elements = 3, .total = 40, .attribute_elements = 2, .attribute_bytes = 16};
  std::string bytes;
  for (int i = 0; i < 50; ++i) bytes += "|1\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n";
  EXPECT_EQ(read_all(bytes, limits).replies.size(), 50U);
}

TEST(ReplyParserTest, TakesNoMemoryForWhatIsOnlyPromised) {
  for (std::string const bytes :
       {"*16777216\r\n", "$536870912\r\nabc", "%8388608\r\n", "*1000\r\n*16000000\r\n", "=536870000\r\n"}) {
    reply_parser parser;
    reply now;
    EXPECT_EQ(parser.feed(std::span{bytes.data(), bytes.size()}, now), bytes.size());
    EXPECT_TRUE(parser.midway());
    EXPECT_LT(now.memory(), 1000U) << bytes;
  }
}

// A tree of every type, as RESP3.
std::string random_reply(std::mt19937& random, int depth, bool top) {
  auto const below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  auto const text = [&](unsigned longest) {
    std::string out(below(longest), '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
  };
  auto const bulk = [&](char type, std::string const& bytes) {
    return type + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
  };
  std::string out;
  if (below(12) == 0 && depth > 0) {
    unsigned const pairs = below(3);
    out = "|" + std::to_string(pairs) + "\r\n";
    for (unsigned i = 0; i < 2 * pairs; ++i) out += random_reply(random, depth - 1, false);
  }
  switch (below(depth > 0 ? (top ? 16 : 15) : 10)) {
    case 0:
      return out + "+" + std::string(below(20), 'a') + "\r\n";
    case 1:
      return out + "-ERR " + std::string(below(20), 'e') + "\r\n";
    case 2:
      return out + ":" + std::to_string(static_cast<std::int64_t>((std::uint64_t{random()} << 32U) | random())) + "\r\n";
    case 3:
      return out + (below(2) == 0 ? "$-1\r\n" : "_\r\n");
    case 4:
      return out + "," + std::to_string(static_cast<double>(random()) / 1000) + "\r\n";
    case 5:
      return out + (below(2) == 0 ? "#t\r\n" : "#f\r\n");
    case 6:
      return out + "(-" + std::string(below(40) + 1, '7') + "\r\n";
    case 7:
      return out + bulk('=', "txt:" + text(30));
    case 8:
      return out + bulk('!', text(30));
    case 9:
      return out + bulk('$', text(300));
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
    default: {
      unsigned const count = below(6);
      unsigned const kind = top ? below(4) : below(3);
      out += "*~%>"[kind] + std::to_string(count) + "\r\n";
      for (unsigned i = 0; i < (kind == 2 ? 2 * count : count); ++i) out += random_reply(random, depth - 1, false);
      return out;
    }
  }
}

// Writes a value as RESP3 would, so that what was read can be compared with what was sent.
std::string written(value const& of) {
  auto const bulk = [](std::string const& sign, std::string_view text) {
    return sign + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n";
  };
  std::string out;
  switch (of.type()) {
    case reply_type::null:
      return "_\r\n";
    case reply_type::simple:
      return "+" + std::string{of.text()} + "\r\n";
    case reply_type::error:
      return bulk("!", of.text());
    case reply_type::integer:
      return ":" + std::to_string(of.integer()) + "\r\n";
    case reply_type::bulk:
      return bulk("$", of.text());
    case reply_type::real: {
      char text[32];
      return "," + std::string{text, std::to_chars(text, text + sizeof text, of.real()).ptr} + "\r\n";
    }
    case reply_type::boolean:
      return of.boolean() ? "#t\r\n" : "#f\r\n";
    case reply_type::big_number:
      return "(" + std::string{of.text()} + "\r\n";
    case reply_type::verbatim:
      return bulk("=", std::string{of.format()} + ":" + std::string{of.text()});
    case reply_type::array:
      out = "*" + std::to_string(of.size()) + "\r\n";
      break;
    case reply_type::set:
      out = "~" + std::to_string(of.size()) + "\r\n";
      break;
    case reply_type::push:
      out = ">" + std::to_string(of.size()) + "\r\n";
      break;
    case reply_type::map:
      out = "%" + std::to_string(of.size() / 2) + "\r\n";
      break;
  }
  for (value const child : of) out += written(child);
  return out;
}

TEST(ReplyParserTest, ReadsRandomRepliesBackHoweverTheyAreCut) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random{seed};
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += random_reply(random, 4, true);
    reading const whole = read_all(bytes);
    ASSERT_EQ(whole.error, "") << "seed " << seed;
    ASSERT_EQ(whole.replies.size(), 8U) << "seed " << seed;
    ASSERT_FALSE(whole.midway);
    for (unsigned longest : {3U, 50U, 1000U}) {
      reading const cut = read_in_pieces(bytes, {}, [&](std::size_t) { return 1 + random() % longest; });
      ASSERT_EQ(cut.replies, whole.replies) << "seed " << seed;
    }
    for (const auto& one : whole.replies) {
      std::string const again = written(one.root());
      ASSERT_EQ(written(parsed(again).root()), again) << "seed " << seed;
      ASSERT_EQ(parsed(again), parsed(written(parsed(again).root()))) << "seed " << seed;
    }
  }
}

TEST(ReplyParserTest, ReadsWhatWasWrittenByteForByte) {
  // Attributes and RESP2's nulls have no place here: they are not written back.
  std::string const bytes =
      "*6\r\n%1\r\n$1\r\na\r\n~2\r\n:-1\r\n,0.5\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n(123\r\n#f\r\n*2\r\n_\r\n+\r\n";
  EXPECT_EQ(written(parsed(bytes).root()), bytes);
}

}  // namespace
}  // namespace ergon::redis
