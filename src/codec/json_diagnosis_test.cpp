#include "codec/json_diagnosis.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/codec/json.hpp>

namespace {

struct nothing {};
BOOST_DESCRIBE_STRUCT(nothing, (), ())

struct anything {
  std::string text;
  int number = 0;
  std::vector<double> reals;
  std::optional<bool> flag;
};
BOOST_DESCRIBE_STRUCT(anything, (), (text, number, reals, flag))

bool reads(std::string_view bytes) {
  try {
    ergon::json_reader reader{bytes, "value"};
    reader.skip();
    reader.finish();
    return true;
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::bad_payload);
    EXPECT_TRUE(ergon::is_utf8(caught.what()));
    return false;
  }
}

TEST(JsonDiagnosisTest, AcceptsWhatTheStandardAccepts) {
  for (std::string_view good : {"null", " [ ] ", "{}", "[1,-0,0.5,1e5,1E-5,-1.5e+5]", R"(["\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00"])",
                                R"({"":{"":[]}})", "99999999999999999999999", "1e999", "\"\x7F\""}) {
    EXPECT_FALSE(ergon::diagnose_json(good)) << good << ": " << ergon::diagnose_json(good)->why;
    EXPECT_TRUE(reads(good)) << good;
  }
}

TEST(JsonDiagnosisTest, NamesThePlaceAndThePath) {
  const auto problem = ergon::diagnose_json(R"({"a":[1,{"b c":tru}]})");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->at, 15U);
  EXPECT_EQ(problem->path, R"(.a[1]["b c"])");
  EXPECT_EQ(problem->why, "expected a value, got \"tru}]}\"");
}

// The fast reader and the plain one must agree on every text: what one refuses and the other takes would be an error without a
// reason, or garbage that is believed.
TEST(JsonDiagnosisTest, AgreesWithTheReaderOnMutatedText) {
  std::mt19937_64 random{20300101};
  const std::array<std::string, 6> seeds = {
      R"({"text":"a\u00e4\n","number":-12,"reals":[1.5,2e3,0],"flag":true})",
      R"([[],{},[{}],"",null,false,[1,2,[3,[4]]]])",
      R"({"x":{"y":{"z":[1,"\ud83d\ude00",{"w":null}]}}, "t" : [ true , false ] })",
      "{\"text\":\"größe 价 😀\",\"flag\":null}",
      "-123.456e-7",
      R"("just text with \\ and \" in it, long enough to fill more than one block of sixty-four bytes, and then some")",
  };
  constexpr std::string_view bytes = "{}[]\",:\\ \n01-+.eEtrufalsn/\x01\x7F\xFF\xC3\xA4\xED\xA0u\0";
  const std::string_view alphabet{bytes.data(), bytes.size() + 1};
  std::size_t accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    for (std::size_t i = 1 + random() % 3; i > 0 && !text.empty(); --i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.resize(at);
          break;
      }
    }
    const auto problem = ergon::diagnose_json(text);
    ASSERT_EQ(reads(text), !problem) << ergon::quoted(text, 1000) << (problem ? problem->why : "");
    accepted += problem ? 0 : 1;
    // A type must make no difference to what is JSON at all.
    try {
      static_cast<void>(ergon::from_json<anything>(text));
      ASSERT_FALSE(problem) << ergon::quoted(text, 1000);
    } catch (const ergon::error& caught) {
      ASSERT_EQ(std::string_view{caught.what()}.find("not readable"), std::string_view::npos)
          << caught.what() << ergon::quoted(text, 1000);
    }
  }
  EXPECT_GT(accepted, 200U);
}

}  // namespace
