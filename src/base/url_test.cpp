#include <ergon/base/url.hpp>

#include <gtest/gtest.h>

#include <random>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace {

using namespace std::chrono_literals;
using ergon::parse_url;
using ergon::redact;

std::string failure_of(std::string_view text) {
  try {
    static_cast<void>(parse_url(text));
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::bad_url);
    return caught.what();
  }
  return "accepted";
}

template <class Read>
std::string option_failure(std::string_view text, Read read) {
  const ergon::url url = parse_url(text);
  ergon::option_reader options{url};
  try {
    read(options);
  } catch (const ergon::error& caught) {
    EXPECT_EQ(caught.reason(), ergon::errc::bad_url);
    return caught.what();
  }
  return "accepted";
}

TEST(UrlTest, ReadsMemoryBrokersWithAndWithoutAName) {
  EXPECT_EQ(parse_url("memory:").scheme, "memory");
  EXPECT_EQ(parse_url("memory:").path, "");
  EXPECT_EQ(parse_url("MEMORY:jobs").scheme, "memory");
  EXPECT_EQ(parse_url("memory:jobs").path, "jobs");
}

TEST(UrlTest, ReadsTheThreeFormsOfASqlitePath) {
  const ergon::url relative = parse_url("sqlite:relative/path.db?synchronous=full&readonly");
  EXPECT_EQ(relative.path, "relative/path.db");
  ASSERT_EQ(relative.options.size(), 2U);
  EXPECT_EQ(relative.options[0], (std::pair<std::string, std::string>{"synchronous", "full"}));
  EXPECT_EQ(relative.options[1], (std::pair<std::string, std::string>{"readonly", ""}));
  EXPECT_EQ(parse_url("sqlite:/abs/jobs.db").path, "/abs/jobs.db");
  EXPECT_EQ(parse_url("sqlite:///abs/jobs.db").path, "/abs/jobs.db");
  EXPECT_EQ(parse_url("sqlite://localhost/abs/jobs.db").path, "/abs/jobs.db");
  EXPECT_EQ(parse_url("sqlite://localhost/abs/jobs.db").host, "");
}

TEST(UrlTest, TakesSpacesAndUtf8InPathsAsTheyAre) {
  EXPECT_EQ(parse_url("sqlite:/home/jo/My Files/größe.db").path, "/home/jo/My Files/größe.db");
  EXPECT_EQ(parse_url("sqlite:a%20b%3fc%23%25.db").path, "a b?c#%.db");
  EXPECT_EQ(parse_url("sqlite:a:b@c.db").path, "a:b@c.db");
}

TEST(UrlTest, ReadsUserPasswordHostPortPathAndOptions) {
  const ergon::url url = parse_url("redis://user:p%40ss%2Fw@redis.example:6380/3?timeout=5s&x=a%26b");
  EXPECT_EQ(url.scheme, "redis");
  EXPECT_EQ(url.user, "user");
  EXPECT_EQ(url.password, "p@ss/w");
  EXPECT_EQ(url.host, "redis.example");
  EXPECT_EQ(url.port, 6380);
  EXPECT_EQ(url.path, "/3");
  ASSERT_EQ(url.options.size(), 2U);
  EXPECT_EQ(url.options[1].second, "a&b");
  EXPECT_EQ(url.shown, "redis://user:***@redis.example:6380/3?timeout=5s&x=a%26b");
}

TEST(UrlTest, ReadsHostsWithoutPortAndInBrackets) {
  EXPECT_EQ(parse_url("redis://localhost").host, "localhost");
  EXPECT_FALSE(parse_url("redis://localhost").port);
  EXPECT_EQ(parse_url("redis://:pw@h").password, "pw");
  const ergon::url six = parse_url("redis://[::1]:6379");
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, 6379);
}

TEST(UrlTest, NamesThePartThatIsWrong) {
  EXPECT_EQ(failure_of("jobs.db"),
            "broker URL \"jobs.db\", at 0: it does not begin with a scheme; memory:, sqlite:jobs.db, "
            "sqlite:/var/lib/app/jobs.db or redis://host:6379/0 is right");
  EXPECT_NE(failure_of("").find("it is empty"), std::string::npos);
  EXPECT_NE(failure_of(":x").find("scheme"), std::string::npos);
  EXPECT_NE(failure_of("/a:b").find("scheme"), std::string::npos);
  EXPECT_NE(failure_of("redis://host:port/0").find("at 13: the port must be a number from 1 to 65535"), std::string::npos);
  EXPECT_NE(failure_of("redis://host:0").find("the port"), std::string::npos);
  EXPECT_NE(failure_of("redis://host:65536").find("the port"), std::string::npos);
  EXPECT_NE(failure_of("redis://host:99999999999999999999").find("the port"), std::string::npos);
  EXPECT_NE(failure_of("redis://ho st").find("user:password@host:port"), std::string::npos);
  EXPECT_NE(failure_of("redis://[::1").find("user:password@host:port"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a%2.db").find("at 8: in the path, % must be followed"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a%").find("% must be followed"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a%00b").find("NUL"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a%ff").find("not UTF-8"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a#b").find("at 8: a '#' must be written %23"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:").find("the path of the database is missing"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:?x=1").find("the path of the database is missing"), std::string::npos);
  EXPECT_NE(failure_of("sqlite://jobs.db").find("sqlite has none"), std::string::npos);
  EXPECT_NE(failure_of("memory://jobs").find("no host"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a?=1").find("an option has no name"), std::string::npos);
  EXPECT_NE(failure_of("sqlite:a?x=1&x=2").find("option \"x\" is given twice"), std::string::npos);
}

TEST(UrlTest, ErrorsNeverShowThePassword) {
  for (std::string_view text :
       {"redis://u:secret@host:port", "redis://u:secret@ho st", "redis://u:sec%zzsecret@host", "redis://u:secret@h?a=%",
        "redis://u:1/secret@h#x", "redis://u:a?secret@h:b", "redis://h?password=secret&x=%"}) {
    const std::string text_of_failure = failure_of(text);
    EXPECT_NE(text_of_failure, "accepted") << text;
    EXPECT_EQ(text_of_failure.find("secret"), std::string::npos) << text_of_failure;
  }
}

TEST(UrlTest, RedactsPasswordsAndNothingElse) {
  EXPECT_EQ(redact("redis://u:pw@h:1/0"), "redis://u:***@h:1/0");
  EXPECT_EQ(redact("redis://:pw@h"), "redis://:***@h");
  EXPECT_EQ(redact("redis://u@h"), "redis://u@h");
  EXPECT_EQ(redact("redis://u:p@w@h"), "redis://u:***@h");
  EXPECT_EQ(redact("redis://u:p/w@h/0"), "redis://u:***@h/0");
  EXPECT_EQ(redact("redis://u:1/w@h/0"), "redis://u:***@h/0");
  EXPECT_EQ(redact("redis://h:6379/0?name=a@b"), "redis://h:6379/0?name=a@b");
  EXPECT_EQ(redact("redis://h?x=1&token=abc&y=2"), "redis://h?x=1&token=***&y=2");
  EXPECT_EQ(redact("sqlite:a:b@c.db?x"), "sqlite:a:b@c.db?x");
  EXPECT_EQ(redact("memory:"), "memory:");
  EXPECT_EQ(redact(""), "");
}

TEST(UrlTest, GarbageIsAnErrorAndNeverACrash) {
  std::mt19937_64 random{5};
  constexpr std::string_view bytes = "sqlitememoryredis:://@[]?&=%%2F0 #\xff\n";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::size_t i = random() % 20; i > 0; --i) text += bytes[random() % bytes.size()];
    for (const std::string& candidate : {text, "sqlite:" + text, "redis://" + text}) {
      try {
        static_cast<void>(parse_url(candidate));
      } catch (const ergon::error& caught) {
        ASSERT_EQ(caught.reason(), ergon::errc::bad_url);
        ASSERT_TRUE(ergon::is_utf8(caught.what()));
      }
    }
  }
}

TEST(OptionReaderTest, TakesEachTypeAndFallsBackWhereNothingIsGiven) {
  enum class mode { off, normal, full };
  const ergon::url url = parse_url("sqlite:x?a=off&b=-5&c=1.5s&d=16MiB&e=full&f=text&g");
  ergon::option_reader options{url};
  EXPECT_FALSE(options.take_bool("a", true));
  EXPECT_EQ(options.take_number("b", 1), -5);
  EXPECT_EQ(options.take_duration("c", 0s), 1500ms);
  EXPECT_EQ(options.take_size("d", 0), 16U << 20U);
  EXPECT_EQ(options.take_choice("e", mode::off, {{"off", mode::off}, {"normal", mode::normal}, {"full", mode::full}}),
            mode::full);
  EXPECT_EQ(options.take_text("f", ""), "text");
  EXPECT_TRUE(options.take_bool("g", false));
  EXPECT_EQ(options.take_number<std::uint16_t>("missing", 7), 7);
  EXPECT_EQ(options.take_duration("missing too", 3s), 3s);
  EXPECT_NO_THROW(options.done());
}

TEST(OptionReaderTest, RefusesAnUnknownOptionAndListsTheKnownOnes) {
  EXPECT_EQ(option_failure("sqlite:x?sync=full",
                           [](auto& options) {
                             static_cast<void>(options.take_bool("readonly", false));
                             static_cast<void>(options.take_text("synchronous", ""));
                             options.done();
                           }),
            "broker URL \"sqlite:x?sync=full\": unknown option \"sync\"; known are readonly, synchronous");
  EXPECT_NE(option_failure("memory:?x", [](auto& options) { options.done(); }).find("this broker has none"), std::string::npos);
}

TEST(OptionReaderTest, NamesOptionValueAndWhatIsRight) {
  EXPECT_EQ(option_failure("sqlite:x?n=300",
                           [](auto& options) { static_cast<void>(options.template take_number<std::uint8_t>("n", 1)); }),
            "broker URL \"sqlite:x?n=300\": option n=\"300\": must be a number from 0 to 255");
  EXPECT_NE(
      option_failure("sqlite:x?n=-1", [](auto& options) { static_cast<void>(options.take_number("n", 1U)); }).find("from 0"),
      std::string::npos);
  EXPECT_NE(
      option_failure("sqlite:x?n=1x", [](auto& options) { static_cast<void>(options.take_number("n", 1)); }).find("must be"),
      std::string::npos);
  EXPECT_NE(option_failure("sqlite:x?n=", [](auto& options) { static_cast<void>(options.take_number("n", 1, 1, 5)); })
                .find("from 1 to 5"),
            std::string::npos);
  EXPECT_NE(option_failure("sqlite:x?b=maybe", [](auto& options) { static_cast<void>(options.take_bool("b", true)); })
                .find("true or false"),
            std::string::npos);
  EXPECT_NE(
      option_failure("sqlite:x?d=-5s", [](auto& options) { static_cast<void>(options.take_duration("d", 1s)); }).find("negative"),
      std::string::npos);
  EXPECT_NE(option_failure("sqlite:x?d=1ms", [](auto& options) { static_cast<void>(options.take_duration("d", 1s, 1s, 1h)); })
                .find("must be from 1s to 1h"),
            std::string::npos);
  EXPECT_NE(option_failure("sqlite:x?s=2k", [](auto& options) { static_cast<void>(options.take_size("s", 1, 0, 1024)); })
                .find("must be from 0B to 1KiB"),
            std::string::npos);
  EXPECT_NE(option_failure(
                "sqlite:x?e=no",
                [](auto& options) { static_cast<void>(options.template take_choice<int>("e", 1, {{"one", 1}, {"two", 2}})); })
                .find("must be one of one, two"),
            std::string::npos);
}

}  // namespace
