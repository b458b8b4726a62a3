#include "cli/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ergon::cli {
namespace {

using testing::HasSubstr;

TEST(CliJsonTest, AcceptsWhatIsJson) {
  for (const char* text :
       {"{}", " [1, 2]\n", "null", "\"x\"", "-1.5e3", "123456789012345678901234567890", R"({"a": {"b": ["ü", "\u00e4"]}})"}) {
    EXPECT_EQ(fault_in_json(text), std::nullopt) << text;
  }
  EXPECT_EQ(fault_in_json(std::string(1000, '[') + std::string(1000, ']')), std::nullopt);
}

TEST(CliJsonTest, SaysWhereSomethingIsWrong) {
  EXPECT_THAT(fault_in_json("{\n  \"a\": x\n}").value_or(""), HasSubstr("line 2, column 8, near 'x\\n}'"));
  EXPECT_THAT(fault_in_json("{\"a\": 1").value_or(""), HasSubstr("at its end"));
  EXPECT_THAT(fault_in_json("{} {}").value_or(""), HasSubstr("column 4"));
  EXPECT_EQ(fault_in_json(" \n"), "it is empty");
}

TEST(CliJsonTest, RefusesWhatIsAlmostJson) {
  for (const char* text : {"{'a': 1}", "[1,]", "NaN", "// x\n1", "\"\xFF\"", "01", "\"\n\"", "nul"}) {
    EXPECT_NE(fault_in_json(text), std::nullopt) << text;
  }
  EXPECT_NE(fault_in_json(std::string(100'000, '[')), std::nullopt) << "too deep for any reader";
}

TEST(CliJsonTest, CompactingTouchesNoString) {
  EXPECT_EQ(compact_json(" { \"a b\" : [ 1 , \"x \\\" , y\" ] , \"c\":null } \n"), "{\"a b\":[1,\"x \\\" , y\"],\"c\":null}");
}

TEST(CliJsonTest, IndentsAMemberALine) {
  EXPECT_EQ(indented_json(R"({"a":[1,{"b":"{,}"}],"c":{},"d":[]})"),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"{,}\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
  EXPECT_EQ(indented_json("7"), "7");
}

TEST(CliJsonTest, WritesDocumentsThatAreJsonWhateverIsInThem) {
  document doc;
  doc.begin_object()
      .field("text", std::string_view("a\"\\\n\xFF\x01 世"))
      .field("nothing", std::optional<double>())
      .field("big", std::uint64_t{18446744073709551615U})
      .field("span_ms", std::chrono::milliseconds{1500})
      .field("at", wall_time{std::chrono::sys_days{std::chrono::year{2030} / 1 / 2}})
      .key("payload")
      .raw("[12345678901234567890123]")
      .key("list")
      .begin_array()
      .value(1)
      .begin_object()
      .end_object()
      .end_array()
      .end_object();
  EXPECT_EQ(doc.text(), R"({"text":"a\"\\\u000a)"
                        "\xEF\xBF\xBD"
                        R"(\u0001 世","nothing":null,"big":18446744073709551615,"span_ms":1500,"at":"2030-01-02T00:00:00Z",)"
                        R"("payload":[12345678901234567890123],"list":[1,{}]})");
  EXPECT_EQ(fault_in_json(doc.text()), std::nullopt);
}

}  // namespace
}  // namespace ergon::cli
