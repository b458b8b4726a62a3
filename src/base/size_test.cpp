#include <ergon/base/size.hpp>

#include <gtest/gtest.h>

#include <limits>

#include <ergon/base/error.hpp>

namespace {

using ergon::format_size;
using ergon::parse_size;

TEST(SizeTest, ReadsPowersOfThousandAndOf1024) {
  EXPECT_EQ(parse_size("65536"), 65536U);
  EXPECT_EQ(parse_size("10B"), 10U);
  EXPECT_EQ(parse_size("64k"), 64'000U);
  EXPECT_EQ(parse_size("64KiB"), 65'536U);
  EXPECT_EQ(parse_size("100MB"), 100'000'000U);
  EXPECT_EQ(parse_size("16MiB"), 16U << 20U);
  EXPECT_EQ(parse_size("1.5GiB"), 3U << 29U);
  EXPECT_EQ(parse_size("2t"), 2'000'000'000'000U);
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("9223372036854775807"), static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

TEST(SizeTest, RefusesWhatIsNoSize) {
  for (std::string_view bad : {"", "MiB", "-1", "1 MB", "1.", ".5k", "1e9", "5PB", "5kk", "9223372036854775808",
                               "99999999999999999999999999999", "9999999999T", "1ib"}) {
    EXPECT_THROW(static_cast<void>(parse_size(bad)), ergon::error) << bad;
  }
  try {
    static_cast<void>(parse_size("5 parsecs"));
  } catch (const ergon::error& caught) {
    EXPECT_STREQ(caught.what(), "size \"5 parsecs\": unknown unit \" parsecs\"; 65536, 64k, 100MB or 16MiB is right");
  }
}

TEST(SizeTest, IsShownInPowersOf1024) {
  EXPECT_EQ(format_size(0), "0B");
  EXPECT_EQ(format_size(1023), "1023B");
  EXPECT_EQ(format_size(1024), "1KiB");
  EXPECT_EQ(format_size(16U << 20U), "16MiB");
  EXPECT_EQ(format_size(3U << 29U), "1.5GiB");
  EXPECT_EQ(format_size((1U << 20U) - 1), "1MiB");
  EXPECT_EQ(format_size(std::numeric_limits<std::uint64_t>::max()), "16EiB");
}

}  // namespace
