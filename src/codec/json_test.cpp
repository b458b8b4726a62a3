#include <ergon/codec/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include <ergon/base/error.hpp>

namespace {

using namespace std::chrono_literals;
using ergon::from_json;
using ergon::to_json;

enum class color { red, green };
BOOST_DESCRIBE_ENUM(color, red, green)
enum class plain_enum : std::uint8_t { zero, one };

struct resize {
  std::string path;
  int width = 800;
  friend bool operator==(const resize&, const resize&) = default;
};
BOOST_DESCRIBE_STRUCT(resize, (), (path, width))

struct album {
  std::string title;
  std::vector<resize> pictures;
  std::map<std::string, resize> named;
  std::optional<resize> cover;
};
BOOST_DESCRIBE_STRUCT(album, (), (title, pictures, named, cover))

struct base_job {
  std::uint64_t tenant = 7;
};
BOOST_DESCRIBE_STRUCT(base_job, (), (tenant))
struct derived_job : base_job {
  bool urgent = false;
};
BOOST_DESCRIBE_STRUCT(derived_job, (base_job), (urgent))

class with_private {
 public:
  with_private() = default;
  explicit with_private(int secret) : secret_(secret) {}
  [[nodiscard]] int secret() const { return secret_; }

 private:
  int secret_ = 0;
  BOOST_DESCRIBE_CLASS(with_private, (), (), (), (secret_))
};

struct strict_by_itself {
  static constexpr std::array<std::string_view, 1> required_fields = {"path"};
  std::string path;
  int width = 800;
};
BOOST_DESCRIBE_STRUCT(strict_by_itself, (), (path, width))

struct strict_from_outside {
  std::string path;
};
BOOST_DESCRIBE_STRUCT(strict_from_outside, (), (path))

struct everything {
  bool flag = false;
  std::int8_t small = 0;
  std::uint64_t large = 0;
  double real = 0;
  float single = 0;
  std::string text;
  color shade = color::red;
  plain_enum number = plain_enum::zero;
  std::optional<int> maybe;
  std::vector<bool> bits;
  std::vector<int> list;
  std::deque<std::string> words;
  std::set<int> unique;
  std::array<int, 2> two{};
  std::map<std::string, int> sorted;
  std::unordered_map<std::string, std::vector<int>> grouped;
  std::pair<int, std::string> pair;
  std::tuple<int, bool, std::string> triple;
  std::chrono::milliseconds span{0};
  std::chrono::duration<double> seconds{0};
  ergon::wall_time at;
  std::chrono::sys_seconds coarse;
  std::monostate nothing;
  std::unique_ptr<int> owned;
  friend bool operator==(const everything&, const everything&) = delete;
};
BOOST_DESCRIBE_STRUCT(everything, (),
                      (flag, small, large, real, single, text, shade, number, maybe, bits, list, words, unique, two, sorted,
                       grouped, pair, triple, span, seconds, at, coarse, nothing, owned))

struct node {
  std::vector<node> kids;
};
BOOST_DESCRIBE_STRUCT(node, (), (kids))

struct empty_job {};
BOOST_DESCRIBE_STRUCT(empty_job, (), ())

template <class T>
std::string failure_of(std::string_view bytes, ergon::json_options options = {}) {
  try {
    static_cast<void>(from_json<T>(bytes, options));
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::bad_payload);
    return caught.what();
  }
  return "accepted";
}

template <class T>
std::string write_failure_of(const T& value) {
  std::string out = "before";
  try {
    to_json(value, out);
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::bad_payload);
    EXPECT_EQ(out, "before");
    return caught.what();
  }
  return "accepted";
}

}  // namespace

template <>
inline constexpr std::array<std::string_view, 1> ergon::required_fields<strict_from_outside>{"path"};

namespace {

TEST(JsonTest, AStructIsAnObjectOfItsMembers) {
  EXPECT_EQ(to_json(resize{"a.png"}), R"({"path":"a.png","width":800})");
  EXPECT_EQ(from_json<resize>(R"({"path":"a.png","width":80})"), (resize{"a.png", 80}));
  EXPECT_EQ(from_json<resize>(" {\n\"width\" : 80 ,\t\"path\" : \"a.png\" }\r\n"), (resize{"a.png", 80}));
  EXPECT_EQ(to_json(empty_job{}), "{}");
  EXPECT_NO_THROW(static_cast<void>(from_json<empty_job>("{}")));
}

TEST(JsonTest, AppendsToWhatIsThere) {
  std::string out = "x";
  to_json(resize{"a", 1}, out);
  EXPECT_EQ(out, R"(x{"path":"a","width":1})");
}

TEST(JsonTest, EveryTypeReadsBackAsItWasWritten) {
  everything in;
  in.flag = true;
  in.small = -128;
  in.large = std::numeric_limits<std::uint64_t>::max();
  in.real = 0.1;
  in.single = 0.1F;
  in.text = "quote \" backslash \\ control \x01\n\t\b\f\r NUL \xC3\xA4 \xF0\x9F\x98\x80";
  in.text += '\0';
  in.shade = color::green;
  in.number = plain_enum::one;
  in.maybe = 3;
  in.bits = {true, false, true};
  in.list = {1, 2, 3};
  in.words = {"a", "b"};
  in.unique = {3, 1};
  in.two = {8, 9};
  in.sorted = {{"a b", 1}, {"", 2}};
  in.grouped = {{"x", {1, 2}}};
  in.pair = {1, "one"};
  in.triple = {1, true, "x"};
  in.span = 1500ms;
  in.seconds = std::chrono::duration<double>{2.5};
  in.at = ergon::wall_time{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}} + 5ns;
  in.coarse = std::chrono::sys_days{std::chrono::year{2031} / 1 / 1};
  in.owned = std::make_unique<int>(4);
  const std::string bytes = to_json(in);
  const auto out = from_json<everything>(bytes, {.strict = true});
  EXPECT_EQ(to_json(out), bytes);
  EXPECT_EQ(out.text, in.text);
  EXPECT_EQ(out.large, in.large);
  EXPECT_EQ(out.single, in.single);
  EXPECT_EQ(out.at, in.at);
  EXPECT_EQ(out.coarse, in.coarse);
  EXPECT_EQ(*out.owned, 4);
  EXPECT_EQ(out.triple, in.triple);
  EXPECT_NE(bytes.find(R"("span":1500,)"), std::string::npos);
  EXPECT_NE(bytes.find(R"("at":"2030-01-01T00:00:00.000000005Z")"), std::string::npos);
  EXPECT_NE(bytes.find(R"("shade":"green","number":1)"), std::string::npos);
  EXPECT_NE(bytes.find(R"("nothing":null)"), std::string::npos);
}

TEST(JsonTest, TheRootMayBeAScalarOrAList) {
  EXPECT_EQ(from_json<int>("7"), 7);
  EXPECT_EQ(from_json<int>(" -7 "), -7);
  EXPECT_EQ(from_json<std::string>(R"("x")"), "x");
  EXPECT_EQ(from_json<std::vector<int>>("[1,2]"), (std::vector{1, 2}));
  EXPECT_EQ(from_json<std::optional<int>>("null"), std::nullopt);
  EXPECT_EQ(to_json(std::string{"x"}), R"("x")");
  EXPECT_EQ(to_json(std::string_view{"x"}), R"("x")");
  EXPECT_EQ(to_json(std::monostate{}), "null");
  EXPECT_NO_THROW(static_cast<void>(from_json<std::monostate>("null")));
}

TEST(JsonTest, BasesComeFirstAndPrivateMembersCount) {
  derived_job job;
  job.urgent = true;
  EXPECT_EQ(to_json(job), R"({"tenant":7,"urgent":true})");
  EXPECT_EQ(from_json<derived_job>(R"({"tenant":9})").tenant, 9U);
  EXPECT_EQ(to_json(with_private{5}), R"({"secret_":5})");
  EXPECT_EQ(from_json<with_private>(R"({"secret_":6})").secret(), 6);
}

TEST(JsonTest, AMissingFieldKeepsTheDefaultOfItsMember) {
  EXPECT_EQ(from_json<resize>("{}"), resize{});
  EXPECT_EQ(from_json<resize>(R"({"path":"b"})").width, 800);
}

TEST(JsonTest, ARequiredFieldMustBeThere) {
  EXPECT_EQ(failure_of<strict_by_itself>(R"({"width":1})"), "strict_by_itself: the field \"path\" is required and missing");
  EXPECT_EQ(failure_of<strict_from_outside>("{}"), "strict_from_outside: the field \"path\" is required and missing");
  EXPECT_EQ(failure_of<std::vector<strict_from_outside>>(R"([{"path":""},{}])"),
            "value[1]: the field \"path\" is required and missing");
  EXPECT_EQ(failure_of<strict_by_itself>(R"({"path":""})"), "accepted");
}

TEST(JsonTest, UnknownFieldsAreIgnoredUnlessStrict) {
  constexpr std::string_view bytes = R"({"path":"a","widht":{"x":[1,{"y":null}],"n":123456789012345678901234567890},"width":3})";
  EXPECT_EQ(from_json<resize>(bytes), (resize{"a", 3}));
  EXPECT_EQ(failure_of<resize>(bytes, {.strict = true}), "resize.widht: unknown field; known are path, width");
  EXPECT_EQ(failure_of<album>(R"({"pictures":[{"w":1}]})", {.strict = true}),
            "album.pictures[0].w: unknown field; known are path, width");
}

TEST(JsonTest, WhatIsIgnoredMustStillBeJson) {
  for (std::string_view bad :
       {R"({"x":tru})", R"({"x":nul})", R"({"x":01})", R"({"x":1.})", R"({"x":"\q"})", R"({"x":"\ud800"})", R"({"x":[1,]})",
        R"({"x":{"y"}})", R"({"x":+1})", R"({"x":.5})", R"({"x":NaN})", "{\"x\":\"\x01\"}"}) {
    EXPECT_NE(failure_of<empty_job>(bad).find("not valid JSON"), std::string::npos) << bad << ": " << failure_of<empty_job>(bad);
  }
}

TEST(JsonTest, AWrongTypeIsNamedWithItsPath) {
  EXPECT_EQ(failure_of<resize>(R"({"width":"x"})"),
            "resize.width: expected an integer from -2147483648 to 2147483647, got a string \"x\"");
  EXPECT_EQ(failure_of<resize>(R"({"path":1})"), "resize.path: expected a string, got 1");
  EXPECT_EQ(failure_of<resize>(R"({"path":null})"), "resize.path: expected a string, got null");
  EXPECT_EQ(failure_of<resize>(R"({"path":{}})"), "resize.path: expected a string, got an object");
  EXPECT_EQ(failure_of<resize>(R"({"path":[]})"), "resize.path: expected a string, got an array");
  EXPECT_EQ(failure_of<resize>("[]"), "resize: expected an object, got an array");
  EXPECT_EQ(failure_of<resize>("null"), "resize: expected an object, got null");
  EXPECT_EQ(failure_of<std::vector<int>>("{}"), "value: expected an array, got an object");
  EXPECT_EQ(failure_of<bool>("1"), "value: expected true or false, got 1");
  EXPECT_EQ(failure_of<double>("\"1\""), "value: expected a number within the range of a double, got a string \"1\"");
  EXPECT_EQ(failure_of<std::monostate>("0"), "value: expected null, got 0");
  EXPECT_EQ(failure_of<std::optional<int>>("true"), "value: expected an integer from -2147483648 to 2147483647, got true");
}

TEST(JsonTest, ThePathGoesThroughListsAndMaps) {
  EXPECT_EQ(failure_of<album>(R"({"pictures":[{},{"width":true}]})"),
            "album.pictures[1].width: expected an integer from -2147483648 to 2147483647, got true");
  EXPECT_EQ(failure_of<album>(R"({"named":{"a b":{"path":1}}})"), "album.named[\"a b\"].path: expected a string, got 1");
  EXPECT_EQ(failure_of<album>(R"({"cover":{"path":1}})"), "album.cover.path: expected a string, got 1");
  EXPECT_EQ(failure_of<album>(R"({"pictures":[{},{}],"title":2})"), "album.title: expected a string, got 2");
}

TEST(JsonTest, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(failure_of<std::uint8_t>("256"), "value: expected an integer from 0 to 255, got 256");
  EXPECT_EQ(failure_of<std::uint8_t>("-1"), "value: expected an integer from 0 to 255, got -1");
  EXPECT_EQ(failure_of<std::int8_t>("-129"), "value: expected an integer from -128 to 127, got -129");
  EXPECT_EQ(failure_of<std::int64_t>("9223372036854775808"),
            "value: expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808");
  EXPECT_EQ(failure_of<std::uint64_t>("18446744073709551616"),
            "value: expected an integer from 0 to 18446744073709551615, got 18446744073709551616");
  EXPECT_EQ(failure_of<std::uint64_t>(std::string(100, '9')),
            "value: expected an integer from 0 to 18446744073709551615, got " + std::string(64, '9') + "…");
  EXPECT_EQ(failure_of<int>("1.0"), "value: expected an integer from -2147483648 to 2147483647, got 1.0");
  EXPECT_EQ(failure_of<int>("1e3"), "value: expected an integer from -2147483648 to 2147483647, got 1e3");
  EXPECT_EQ(failure_of<double>("1e400"), "value: expected a number within the range of a double, got 1e400");
  EXPECT_EQ(failure_of<float>("1e39"), "value: expected a number within the range of a float, got 1e39");
  EXPECT_EQ(from_json<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(from_json<std::int64_t>("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(from_json<double>("123456789012345678901234567890"), 123456789012345678901234567890.0);
  EXPECT_EQ(from_json<double>("-0.5e-3"), -0.5e-3);
}

TEST(JsonTest, EnumeratorsGoByName) {
  EXPECT_EQ(from_json<color>("\"green\""), color::green);
  EXPECT_EQ(failure_of<color>("\"blue\""), "value: expected one of red, green, got a string \"blue\"");
  EXPECT_EQ(failure_of<color>("1"), "value: expected one of red, green, got 1");
  EXPECT_EQ(write_failure_of(static_cast<color>(9)), "value: the enumeration has no name for 9");
  EXPECT_EQ(failure_of<plain_enum>("256"), "value: expected an integer from 0 to 255, got 256");
}

TEST(JsonTest, ListsOfFixedLengthHaveExactlyThat) {
  EXPECT_EQ((failure_of<std::array<int, 2>>("[1]")), "value: expected an array of exactly 2 elements");
  EXPECT_EQ((failure_of<std::array<int, 2>>("[1,2,3]")), "value[2]: expected an array of exactly 2 elements");
  EXPECT_EQ((failure_of<std::pair<int, int>>("[]")), "value: expected an array of exactly 2 elements");
  EXPECT_EQ((failure_of<std::tuple<int, bool>>("[1,2]")), "value[1]: expected true or false, got 2");
}

TEST(JsonTest, OfARepeatedFieldTheLastOneCountsAlone) {
  EXPECT_EQ(from_json<resize>(R"({"width":1,"width":2})").width, 2);
  const auto twice = from_json<album>(R"({"pictures":[{"width":1}],"cover":{"width":5},"pictures":[{}],"cover":{"path":"x"}})");
  ASSERT_EQ(twice.pictures.size(), 1U);
  EXPECT_EQ(twice.pictures[0].width, 800);
  EXPECT_EQ(*twice.cover, resize{"x"});
}

TEST(JsonTest, FieldNamesMayBeEscaped) { EXPECT_EQ(from_json<resize>(R"({"\u0070ath":"a"})").path, "a"); }

TEST(JsonTest, EveryByteOfATextIsEscapedWhereverItStands) {
  for (int c = 0; c < 0x80; ++c) {
    for (std::size_t at : {0U, 3U, 7U, 8U, 15U, 16U, 20U}) {
      std::string text(21, 'x');
      text[at] = static_cast<char>(c);
      const std::string bytes = to_json(text);
      ASSERT_EQ(from_json<std::string>(bytes), text) << c << " at " << at;
      const bool special = c < 0x20 || c == '"' || c == '\\';
      ASSERT_EQ(bytes.size() > text.size() + 2, special) << c << " at " << at;
    }
  }
}

TEST(JsonTest, BrokenTextIsNamedWithPlaceAndPath) {
  EXPECT_EQ(failure_of<resize>(""), "resize: not valid JSON at byte 0: there is no value: it is empty");
  EXPECT_EQ(failure_of<resize>("  "), "resize: not valid JSON at byte 2: there is no value: it is empty");
  EXPECT_EQ(failure_of<resize>(R"({"path":"a)"), "resize.path: not valid JSON at byte 10: a string is not closed");
  EXPECT_EQ(failure_of<resize>(R"({"path":"a"} x)"), "resize: not valid JSON at byte 13: \"x\" follows the value");
  EXPECT_EQ(failure_of<resize>(R"({"path":"a"}])"), "resize: not valid JSON at byte 12: \"]\" follows the value");
  EXPECT_EQ(failure_of<resize>(R"({},{})"), "resize: not valid JSON at byte 2: \",{}\" follows the value");
  EXPECT_EQ(failure_of<resize>(R"({"path":"a")"), "resize: not valid JSON at byte 11: expected ',' or '}', got the end");
  EXPECT_EQ(failure_of<resize>(R"({"path" "a"})"), "resize.path: not valid JSON at byte 8: expected ':', got \"\\\"a\\\"}\"");
  EXPECT_EQ(failure_of<resize>(R"({"width":0x10})"),
            "resize.width: not valid JSON at byte 9: \"0x10\" is not a number as JSON writes it");
  EXPECT_EQ(failure_of<resize>(R"({path:1})"),
            "resize: not valid JSON at byte 1: expected a field's name in quotes, got \"path:1}\"");
  EXPECT_EQ(failure_of<resize>("]"), "resize: not valid JSON at byte 0: expected a value, got \"]\"");
  EXPECT_EQ(failure_of<int>("1]["), "value: not valid JSON at byte 1: \"][\" follows the value");
  EXPECT_EQ(failure_of<int>("1,2"), "value: not valid JSON at byte 1: \",2\" follows the value");
  EXPECT_EQ(failure_of<int>("1 2"), "value: not valid JSON at byte 2: \"2\" follows the value");
  EXPECT_EQ(failure_of<std::string>(R"("\ud83d")"),
            "value: not valid JSON at byte 1: \"\\\\ud83d\\\"\": half of a surrogate pair");
  EXPECT_NE(failure_of<resize>(std::string_view{"{}\0", 3}), "accepted");
}

TEST(JsonTest, BadUtf8IsNamedWithPlaceAndPath) {
  EXPECT_EQ(failure_of<resize>("{\"path\":\"a\xFF\"}"), "resize.path: not valid JSON at byte 10: byte 0xff is not UTF-8");
  EXPECT_EQ(failure_of<album>("{\"pictures\":[{\"path\":\"\xED\xA0\x80\"}]}"),
            "album.pictures[0].path: not valid JSON at byte 22: byte 0xed is not UTF-8");
  EXPECT_EQ(write_failure_of(resize{"a\xC3"}),
            "resize.path: byte 0xc3 at 1 of the string is not UTF-8; bytes travel as ergon::raw_bytes, or encoded");
  album deep;
  deep.named["k"].path = "\xFF";
  EXPECT_NE(write_failure_of(deep).find("album.named.k.path: byte 0xff at 0"), std::string::npos);
}

TEST(JsonTest, OnlyFiniteNumbersAreWritten) {
  EXPECT_EQ(write_failure_of(std::numeric_limits<double>::quiet_NaN()),
            "value: nan is no number that JSON has: only finite ones are");
  EXPECT_EQ(write_failure_of(std::vector{1.0, -std::numeric_limits<double>::infinity()}),
            "value[1]: -inf is no number that JSON has: only finite ones are");
  EXPECT_EQ(to_json(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(from_json<double>(to_json(std::numeric_limits<double>::denorm_min())), std::numeric_limits<double>::denorm_min());
}

TEST(JsonTest, SixtyFourLevelsAreReadAndWrittenAndNoMore) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(failure_of<empty_job>(R"({"x":)" + nested(63) + "}"), "accepted");
  EXPECT_NE(failure_of<empty_job>(R"({"x":)" + nested(64) + "}").find("more than 64 levels"), std::string::npos);
  EXPECT_NE(failure_of<empty_job>(R"({"x":)" + nested(100'000) + "}").find("more than 64 levels"), std::string::npos);
  EXPECT_NE(failure_of<empty_job>(std::string(100'000, '[')), "accepted");

  node root;
  node* last = &root;
  for (int i = 0; i < 31; ++i) last = &last->kids.emplace_back();
  const std::string fits = to_json(root);
  EXPECT_EQ(to_json(from_json<node>(fits)), fits);
  last->kids.emplace_back();
  EXPECT_NE(write_failure_of(root).find("more than 64 levels"), std::string::npos);
}

TEST(JsonTest, TimesAreRfc3339WithinTheirRange) {
  EXPECT_EQ(from_json<ergon::wall_time>(R"("1970-01-01T01:00:00+01:00")"), ergon::wall_time{});
  EXPECT_EQ(failure_of<ergon::wall_time>("5"), "value: expected a time, got 5");
  EXPECT_NE(failure_of<ergon::wall_time>(R"("yesterday")").find("value: time \"yesterday\""), std::string::npos);
  EXPECT_NE(write_failure_of(ergon::wall_time::max()).find("between 1678 and 2261"), std::string::npos);
  EXPECT_NE(write_failure_of(std::chrono::sys_seconds::max()).find("between 1678 and 2261"), std::string::npos);
}

TEST(JsonTest, AReaderInsideAReaderAndOnOtherThreadsWorks) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        const resize job{std::string(static_cast<std::size_t>(i), 'x'), i};
        EXPECT_EQ(from_json<resize>(to_json(job)), job);
      }
    });
  }
}

TEST(JsonTest, LargeTextIsReadWhole) {
  const resize job{std::string(5'000'000, 'y'), 1};
  EXPECT_EQ(from_json<resize>(to_json(job)), job);
  EXPECT_EQ(from_json<resize>(R"({"path":"small"})").path, "small");
}

}  // namespace
