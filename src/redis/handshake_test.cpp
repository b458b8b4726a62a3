// Greetings played through without a connection.
#include <ergon/redis/handshake.hpp>

#include <initializer_list>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ergon/base/error.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/redis/reply_parser.hpp>

namespace ergon::redis {
namespace {

using testing::HasSubstr;

constexpr std::string_view hello_7 =
    "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:42\r\n$"
    "4\r\nmode\r\n$10\r\n"
    "standalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
constexpr std::string_view ok = "+OK\r\n";
constexpr std::string_view pong = "+PONG\r\n";

std::string bulk(std::string_view text) { return "$" + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n"; }
std::string info_text() { return bulk("# Server\r\nredis_version:5.0.3\r\nrun_id:abc\r\nredis_mode:standalone\r\n"); }

// Plays a server that answers so; true when the round is over.
bool answer(handshake& with, std::initializer_list<std::string_view> answers) {
  bool over = false;
  for (const std::string_view text : answers) {
    EXPECT_FALSE(over) << "more answers than questions: " << text;
    reply_parser parser;
    reply one;
    EXPECT_EQ(parser.feed({text.data(), text.size()}, one), text.size());
    EXPECT_TRUE(parser.whole());
    over = with.take(one.root());
  }
  return over;
}

std::string sent(const handshake& with) { return std::string{with.to_send().bytes()}; }

TEST(HandshakeTest, GreetsInOneRoundTrip) {
  connection_options options;
  options.password = "hunter2";
  options.database = 5;
  handshake greeting{options};
  EXPECT_THAT(sent(greeting), HasSubstr("HELLO"));
  EXPECT_THAT(sent(greeting), HasSubstr("$7\r\ndefault\r\n$7\r\nhunter2\r\n"));
  EXPECT_THAT(sent(greeting), HasSubstr("SELECT"));
  EXPECT_EQ(greeting.to_send().count(), 5U);
  EXPECT_TRUE(answer(greeting, {hello_7, ok, ok, info_text(), pong}));
  ASSERT_TRUE(greeting.done());
  EXPECT_EQ(greeting.server().version, "7.0.15");
  EXPECT_EQ(greeting.server().run_id, "abc");
  EXPECT_EQ(greeting.server().role, "master");
  EXPECT_EQ(greeting.server().mode, "standalone");
  EXPECT_EQ(greeting.server().client_id, 42);
  EXPECT_EQ(greeting.server().resp, 3);
}

TEST(HandshakeTest, GreetsAnOldServerAgainInResp2) {
  connection_options options;
  options.user = "worker";
  options.password = "p";
  options.database = 2;
  handshake greeting{options};
  EXPECT_TRUE(answer(greeting, {"-ERR unknown command `HELLO`\r\n", "-NOAUTH Authentication required.\r\n",
                                "-NOAUTH Authentication required.\r\n", "-NOAUTH Authentication required.\r\n",
                                "-NOAUTH Authentication required.\r\n"}));
  ASSERT_FALSE(greeting.done());
  EXPECT_THAT(sent(greeting), testing::StartsWith("*3\r\n$4\r\nAUTH\r\n$6\r\nworker\r\n$1\r\np\r\n"));
  EXPECT_TRUE(answer(greeting, {ok, ok, ok, info_text(), pong, ":7\r\n", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"}));
  ASSERT_TRUE(greeting.done());
  EXPECT_EQ(greeting.server().resp, 2);
  EXPECT_EQ(greeting.server().version, "5.0.3");
  EXPECT_EQ(greeting.server().client_id, 7);
  EXPECT_EQ(greeting.server().role, "master");
}

TEST(HandshakeTest, AWrongPasswordIsSaidAsTheServerSaysIt) {
  connection_options options;
  options.password = "wrong";
  handshake greeting{options};
  try {
    answer(greeting, {"-WRONGPASS invalid username-password pair or user is disabled.\r\n"});
    FAIL() << "it was taken";
  } catch (const server_error& e) {
    EXPECT_EQ(e.reason(), errc::not_permitted);
    EXPECT_EQ(e.word(), "WRONGPASS");
    EXPECT_THAT(e.what(), HasSubstr("HELLO"));
    EXPECT_THAT(e.what(), testing::Not(HasSubstr("wrong ")));
  }
}

TEST(HandshakeTest, AServerThatLoadsIsUnavailable) {
  const connection_options options;
  handshake greeting{options};
  try {
    answer(greeting, {"-LOADING Redis is loading the dataset in memory\r\n"});
    FAIL() << "it was taken";
  } catch (const server_error& e) {
    EXPECT_EQ(e.reason(), errc::unavailable);
  }
}

TEST(HandshakeTest, AServerThatGreetsWhileItLoadsIsUnavailable) {
  const connection_options options;
  handshake greeting{options};
  try {
    answer(greeting, {hello_7, ok, info_text(), "-LOADING Redis is loading the dataset in memory\r\n"});
    FAIL() << "it was taken";
  } catch (const server_error& e) {
    EXPECT_EQ(e.reason(), errc::unavailable);
  }
}

TEST(HandshakeTest, ADatabaseThatIsNotThereIsAnError) {
  connection_options options;
  options.database = 99;
  handshake greeting{options};
  EXPECT_THROW(answer(greeting, {hello_7, ok, "-ERR DB index is out of range\r\n"}), server_error);
}

TEST(HandshakeTest, WorksWithoutWhatTheUserMayNotDo) {
  const connection_options options;
  handshake greeting{options};
  EXPECT_TRUE(answer(greeting, {hello_7, "-NOPERM this user has no permissions to run the 'client|setname' command\r\n",
                                "-NOPERM this user has no permissions to run the 'info' command\r\n",
                                "-NOPERM this user has no permissions to run the 'ping' command\r\n"}));
  EXPECT_TRUE(greeting.done());
  EXPECT_EQ(greeting.server().run_id, "");
}

TEST(HandshakeTest, GarbageInsteadOfAGreetingIsABadReply) {
  const connection_options options;
  handshake greeting{options};
  try {
    answer(greeting, {":5\r\n"});
    FAIL() << "it was taken";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::bad_reply);
  }
}

TEST(ServerInfoTest, ComparesVersions) {
  const auto at_least = [](std::string version, int major, int minor) {
    server_info info;
    info.version = std::move(version);
    return info.is_at_least(major, minor);
  };
  EXPECT_TRUE(at_least("7.0.15", 7, 0));
  EXPECT_TRUE(at_least("7.0.15", 6, 2));
  EXPECT_FALSE(at_least("6.2.1", 7, 0));
  EXPECT_TRUE(at_least("6.2.1", 6, 2));
  EXPECT_TRUE(at_least("10.1", 7, 4));
  EXPECT_FALSE(at_least("", 6, 0));
  EXPECT_TRUE(at_least("255.255.255", 7, 0));
}

}  // namespace
}  // namespace ergon::redis
