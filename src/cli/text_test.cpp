#include "cli/text.hpp"

#include <gtest/gtest.h>

namespace ergon::cli {
namespace {

using namespace std::chrono_literals;

TEST(CliTextTest, LeavesOrdinaryTextAsItIs) { EXPECT_EQ(printable("Grüße, 世界 🙂 \\ \"x\""), "Grüße, 世界 🙂 \\ \"x\""); }

TEST(CliTextTest, WritesOutWhatATerminalWouldActUpon) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1B[31mb");
  EXPECT_EQ(printable("one\ntwo\tthree\r"), "one\\ntwo\\tthree\\x0D");
  EXPECT_EQ(printable("\xC2\x9B"), "\\xC2\\x9B") << "a control character of the second kind";
  EXPECT_EQ(printable("\xE2\x80\xAE"), "\\xE2\\x80\\xAE") << "turns the direction of the line";
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(CliTextTest, WritesOutWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xFF"), "\\xFF");
  EXPECT_EQ(printable("\xE4\xB8"), "\\xE4\\xB8") << "cut off in the middle of a character";
  EXPECT_EQ(printable("\xC0\xAF"), "\\xC0\\xAF") << "overlong";
}

TEST(CliTextTest, CountsColumnsAndNotBytes) {
  EXPECT_EQ(width_of(""), 0U);
  EXPECT_EQ(width_of("Grüße"), 5U);
  EXPECT_EQ(width_of("世界"), 4U);
  EXPECT_EQ(width_of("e\xCC\x81"), 1U) << "a letter and its accent";
  EXPECT_EQ(width_of("🙂"), 2U);
}

TEST(CliTextTest, CutsAtAColumnAndNeverWithinACharacter) {
  EXPECT_EQ(cut("short", 5), "short");
  EXPECT_EQ(cut("too long", 4), "too…");
  EXPECT_EQ(cut("世界世界", 4), "世…");
  EXPECT_EQ(cut("x", 0), "");
}

TEST(CliTextTest, AnAgeIsNoFinerThanAPersonAsksForAndNeverNegative) {
  EXPECT_EQ(age(-5s), "0s");
  EXPECT_EQ(age(1'234'567ns), "1ms");
  EXPECT_EQ(age(12'345ms), "12s");
  EXPECT_EQ(age(3661s), "1h1m");
}

}  // namespace
}  // namespace ergon::cli
