#include <ergon/codec/kind.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace outer::inner {
struct resize {};
enum class color { red };
template <class T>
struct box {};
template <class T>
struct named_box {
  static constexpr std::string_view kind = "box:int";
};
struct holder {
  struct nested {};
};
}  // namespace outer::inner

struct global_type {};

namespace {

struct hidden {};

struct stated {
  static constexpr std::string_view kind = "mail:send";
  static constexpr std::array<std::string_view, 2> kind_aliases = {"mail", "send_mail"};
};

struct literal {
  static constexpr const char* kind = "literal/kind";
};

// `kind` is data here.
struct event {
  std::string kind;
  std::string kind_aliases;
};

TEST(KindTest, IsTheUnqualifiedNameOfTheType) {
  struct local {};
  EXPECT_EQ(ergon::kind_of<outer::inner::resize>(), "resize");
  EXPECT_EQ(ergon::kind_of<const outer::inner::resize&>(), "resize");
  EXPECT_EQ(ergon::kind_of<outer::inner::holder::nested>(), "nested");
  EXPECT_EQ(ergon::kind_of<global_type>(), "global_type");
  EXPECT_EQ(ergon::kind_of<hidden>(), "hidden");
  EXPECT_EQ(ergon::kind_of<local>(), "local");
  static_assert(ergon::kind_of<outer::inner::resize>() == "resize");
}

TEST(KindTest, IsWhatTheTypeStates) {
  EXPECT_EQ(ergon::kind_of<stated>(), "mail:send");
  EXPECT_EQ(ergon::kind_of<literal>(), "literal/kind");
  EXPECT_EQ(ergon::kind_of<outer::inner::named_box<int>>(), "box:int");
}

TEST(KindTest, ADataMemberOfThatNameStatesNothing) {
  EXPECT_EQ(ergon::kind_of<event>(), "event");
  EXPECT_TRUE(ergon::kind_aliases_of<event>().empty());
}

TEST(KindTest, AliasesAreThoseThatTheTypeLists) {
  const auto aliases = ergon::kind_aliases_of<stated>();
  ASSERT_EQ(aliases.size(), 2U);
  EXPECT_EQ(aliases[1], "send_mail");
  EXPECT_TRUE(ergon::kind_aliases_of<outer::inner::resize>().empty());
}

TEST(TypeNameTest, KeepsTheArgumentsOfATemplate) {
  EXPECT_EQ(ergon::type_name<outer::inner::box<int>>(), "box<int>");
  EXPECT_EQ(ergon::type_name<outer::inner::color>(), "color");
  EXPECT_EQ(ergon::type_name<int>(), "int");
}

}  // namespace
