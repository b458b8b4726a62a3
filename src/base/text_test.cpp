#include <ergon/base/text.hpp>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace {

using ergon::is_utf8;
using ergon::quoted;

std::string failure_of(std::string_view what, std::string_view value) {
  try {
    ergon::check_name(what, value);
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::invalid_argument);
    return caught.what();
  }
  return "accepted";
}

TEST(Utf8Test, AcceptsEveryLengthAtItsBorders) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain text, longer than a word"));
  EXPECT_TRUE(is_utf8(std::string_view{"\0", 1}));
  EXPECT_TRUE(is_utf8("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"));
}

TEST(Utf8Test, RefusesWhatIsIllFormed) {
  for (std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xE2\x82",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98", "\xFF"}) {
    EXPECT_FALSE(is_utf8(bad)) << quoted(bad);
    EXPECT_FALSE(is_utf8("12345678" + std::string{bad} + "12345678")) << quoted(bad);
  }
}

TEST(Utf8Test, SaysWhereTheFirstIllFormedSequenceBegins) {
  EXPECT_EQ(ergon::utf8_prefix("aä\xFF-"), 3U);
  EXPECT_EQ(ergon::utf8_prefix("aä"), 3U);
}

TEST(QuotedTest, ShowsControlAndForeignBytesAsHexadecimal) {
  EXPECT_EQ(quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("a\n\x1b[31m\x7f\xff"), R"("a\x0a\x1b[31m\x7f\xff")");
  EXPECT_EQ(quoted("\xC2\x9B"), R"("\xc2\x9b")");
  EXPECT_EQ(quoted("größe 价"), "\"größe 价\"");
}

TEST(QuotedTest, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(quoted("abcdef", 3), "\"abc…\"");
  EXPECT_EQ(quoted("abcdef", 6), "\"abcdef\"");
  EXPECT_EQ(quoted("aää", 4), "\"aä…\"");
}

TEST(NameTest, AcceptsLettersDigitsAndFiveSigns) {
  EXPECT_EQ(failure_of("kind", "Mail.send-2_x:y/z"), "accepted");
  EXPECT_EQ(failure_of("kind", std::string(128, 'a')), "accepted");
  static_assert(ergon::is_name("resize"));
  static_assert(!ergon::is_name("re size"));
}

TEST(NameTest, NamesTheByteThatIsWrong) {
  EXPECT_EQ(failure_of("queue name", "a b"), "queue name \"a b\": byte 0x20 at 1 is not allowed; letters, digits and -_.:/ are");
  EXPECT_EQ(failure_of("queue name", "ä"), "queue name \"ä\": byte 0xc3 at 0 is not allowed; letters, digits and -_.:/ are");
  EXPECT_EQ(failure_of("kind", std::string_view{"a\0", 2}),
            "kind \"a\\x00\": byte 0x00 at 1 is not allowed; letters, digits and -_.:/ are");
  EXPECT_EQ(failure_of("kind", ""), "kind is empty: 1 to 128 letters, digits or -_.:/ are right");
  EXPECT_NE(failure_of("kind", std::string(129, 'a')).find("has 129 bytes: at most 128"), std::string::npos);
}

}  // namespace
