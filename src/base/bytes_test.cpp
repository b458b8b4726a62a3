#include <ergon/base/bytes.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace {

using ergon::byte_reader;
using ergon::byte_writer;

TEST(BytesTest, WhatIsWrittenIsReadInOrder) {
  std::string record;
  byte_writer out{record};
  out.u8(255);
  out.varint(0);
  out.varint(127);
  out.varint(128);
  out.varint(std::numeric_limits<std::uint64_t>::max());
  out.zigzag(-1);
  out.zigzag(std::numeric_limits<std::int64_t>::min());
  out.zigzag(std::numeric_limits<std::int64_t>::max());
  out.fixed64(0x0102030405060708);
  out.bytes("payload");
  out.bytes("");
  out.raw("tail");

  byte_reader in{record};
  std::uint8_t small = 0;
  std::uint64_t number = 1;
  std::int64_t whole = 0;
  std::string_view text;
  ASSERT_TRUE(in.u8(small));
  EXPECT_EQ(small, 255);
  for (std::uint64_t expected :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::numeric_limits<std::uint64_t>::max()}) {
    ASSERT_TRUE(in.varint(number));
    EXPECT_EQ(number, expected);
  }
  for (std::int64_t expected :
       {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    ASSERT_TRUE(in.zigzag(whole));
    EXPECT_EQ(whole, expected);
  }
  ASSERT_TRUE(in.fixed64(number));
  EXPECT_EQ(number, 0x0102030405060708U);
  ASSERT_TRUE(in.bytes(text));
  EXPECT_EQ(text, "payload");
  ASSERT_TRUE(in.bytes(text));
  EXPECT_EQ(text, "");
  EXPECT_EQ(in.rest(), "tail");
  ASSERT_TRUE(in.raw(4, text));
  EXPECT_TRUE(in.empty());
}

TEST(BytesTest, SmallNumbersAreShort) {
  std::string record;
  byte_writer{record}.varint(127);
  EXPECT_EQ(record.size(), 1U);
  byte_writer{record}.zigzag(-64);
  EXPECT_EQ(record.size(), 2U);
}

TEST(BytesTest, AReaderAtTheEndChangesNothing) {
  byte_reader in{""};
  std::uint8_t small = 7;
  std::uint64_t number = 7;
  std::int64_t whole = 7;
  std::string_view text = "before";
  EXPECT_FALSE(in.u8(small));
  EXPECT_FALSE(in.varint(number));
  EXPECT_FALSE(in.zigzag(whole));
  EXPECT_FALSE(in.fixed64(number));
  EXPECT_FALSE(in.bytes(text));
  EXPECT_FALSE(in.raw(1, text));
  EXPECT_EQ(small, 7);
  EXPECT_EQ(number, 7U);
  EXPECT_EQ(whole, 7);
  EXPECT_EQ(text, "before");
}

TEST(BytesTest, RefusesALengthPastTheEndAndStaysWhereItWas) {
  std::string record;
  byte_writer out{record};
  out.varint(1000);
  out.raw("abc");
  byte_reader in{record};
  std::string_view text;
  EXPECT_FALSE(in.bytes(text));
  EXPECT_EQ(in.rest(), record);
  byte_reader huge{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"};
  EXPECT_FALSE(huge.bytes(text));
}

TEST(BytesTest, RefusesNumbersThatOverflowOrAreNotTheShortestForm) {
  std::uint64_t number = 0;
  EXPECT_FALSE(byte_reader{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"}.varint(number));
  EXPECT_FALSE(byte_reader{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}.varint(number));
  EXPECT_FALSE(byte_reader{"\x80"}.varint(number));
  EXPECT_FALSE((byte_reader{std::string_view{"\x80\x00", 2}}.varint(number)));
}

TEST(BytesTest, GarbageIsReadWithoutGoingPastItsEnd) {
  std::mt19937_64 random{11};
  for (int round = 0; round < 20'000; ++round) {
    std::string garbage(random() % 24, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    // A copy on the heap of exactly this size: a read past the end is seen by the address sanitizer.
    const std::string exact{garbage};
    byte_reader in{exact};
    for (int step = 0; step < 16; ++step) {
      const std::size_t before = in.rest().size();
      std::uint8_t small = 0;
      std::uint64_t number = 0;
      std::int64_t whole = 0;
      std::string_view text;
      bool took = false;
      switch (random() % 5) {
        case 0:
          took = in.u8(small);
          break;
        case 1:
          took = in.varint(number);
          break;
        case 2:
          took = in.zigzag(whole);
          break;
        case 3:
          took = in.fixed64(number);
          break;
        default:
          took = in.bytes(text);
          break;
      }
      ASSERT_EQ(took, in.rest().size() < before);
    }
  }
}

}  // namespace
