#include <ergon/codec/codec.hpp>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace {

struct resize {
  std::string path;
  int width = 800;
};
BOOST_DESCRIBE_STRUCT(resize, (), (path, width))

struct picture {
  int pixels = 0;
};

struct money {
  long cents = 0;
};

}  // namespace

template <>
struct ergon::codec<picture> {
  static constexpr std::string_view content_type = "image/x-dots";
  static void encode(const picture& value, std::string& out) { out.append(static_cast<std::size_t>(value.pixels), '.'); }
  static picture decode(std::string_view bytes) { return {static_cast<int>(bytes.size())}; }
};

template <>
struct ergon::json_value<money> {
  static void write(json_writer& out, const money& value) { out.text(std::to_string(value.cents) + "c"); }
  static void read(json_reader& in, money& value) {
    const std::string text{in.text()};
    if (!text.ends_with('c')) in.fail_expected("an amount like 5c");
    value.cents = std::stol(text);
  }
};

namespace {

using ergon::codec;

template <class T>
std::string encoded(const T& value) {
  std::string out;
  codec<T>::encode(value, out);
  return out;
}

TEST(CodecTest, IsJsonUnlessTheTypeSaysOtherwise) {
  static_assert(ergon::encodable<resize> && ergon::encodable<picture> && ergon::encodable<ergon::raw_bytes>);
  EXPECT_EQ(encoded(resize{"a", 1}), R"({"path":"a","width":1})");
  EXPECT_EQ(codec<resize>::decode(R"({"path":"b"})").path, "b");
  EXPECT_EQ(codec<resize>::content_type, "application/json");
  EXPECT_EQ(codec<picture>::content_type, "image/x-dots");
  EXPECT_EQ(encoded(picture{3}), "...");
  EXPECT_EQ(codec<picture>::decode("....").pixels, 4);
}

TEST(CodecTest, TextIsAJsonStringAndRawBytesAreThemselves) {
  EXPECT_EQ(encoded(std::string{"x"}), "\"x\"");
  const ergon::raw_bytes raw{std::string{"\xFF\0\x01", 3}};
  EXPECT_EQ(encoded(raw), raw.bytes);
  EXPECT_EQ(codec<ergon::raw_bytes>::decode(raw.bytes), raw);
}

TEST(CodecTest, NoResultIsNull) {
  std::string out;
  codec<void>::encode(out);
  EXPECT_EQ(out, "null");
  EXPECT_NO_THROW(codec<void>::decode("anything"));
}

TEST(CodecTest, ATypeMayHaveAJsonFormOfItsOwn) {
  EXPECT_EQ(encoded(std::vector<money>{{5}, {7}}), R"(["5c","7c"])");
  EXPECT_EQ(codec<money>::decode("\"9c\"").cents, 9);
  try {
    static_cast<void>(codec<std::vector<money>>::decode(R"(["5c","x"])"));
    FAIL();
  } catch (const ergon::error& caught) {
    EXPECT_STREQ(caught.what(), "value[1]: expected an amount like 5c, got a string \"x\"");
  }
}

}  // namespace
