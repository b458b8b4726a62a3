// The real server of the kit: it answers, dies and comes back as tests want it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <ergon/base/error.hpp>

#include "servers/plain_client.hpp"
#include "servers/redis_server.hpp"
#include "servers/thrown_by.hpp"

namespace ergon::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Sets a variable of the environment for a while.
class with_variable {
 public:
  with_variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~with_variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// What the TLS port answers to a PING; nothing if it refuses to talk.
std::string ask_with_tls(const redis_server& server, bool show_certificate) {
  std::unique_ptr<SSL_CTX, freed_by<&::SSL_CTX_free>> const context{::SSL_CTX_new(::TLS_client_method())};
  EXPECT_EQ(::SSL_CTX_load_verify_file(context.get(), server.certs().ca.certificate.c_str()), 1);
  if (show_certificate) {
    EXPECT_EQ(::SSL_CTX_use_certificate_file(context.get(), server.certs().client.certificate.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(::SSL_CTX_use_PrivateKey_file(context.get(), server.certs().client.key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  SSL_CTX_set_mode(context.get(), SSL_MODE_AUTO_RETRY);
  descriptor const socket = begin_connect(server.tls_port());
  ::fcntl(socket.get(), F_SETFL, 0);
  std::unique_ptr<SSL, freed_by<&::SSL_free>> const session{::SSL_new(context.get())};
  ::SSL_set_verify(session.get(), SSL_VERIFY_PEER, nullptr);
  EXPECT_EQ(::SSL_set1_host(session.get(), "127.0.0.1"), 1);
  EXPECT_EQ(::SSL_set_fd(session.get(), socket.get()), 1);
  EXPECT_EQ(::SSL_connect(session.get()), 1);
  std::array<char, 100> answer;
  // Who is refused learns it by reading; OpenSSL's write to a closed connection would be a SIGPIPE.
  if (show_certificate) ::SSL_write(session.get(), "PING\r\n", 6);
  int const size = ::SSL_read(session.get(), answer.data(), answer.size());
  ::ERR_clear_error();
  return {answer.data(), static_cast<std::size_t>(std::max(size, 0))};
}

TEST(RedisServerTest, AnswersOnItsPortAndItsUnixSocket) {
  redis_server server;
  EXPECT_EQ(server.command({"PING"}), "PONG");
  EXPECT_EQ(server.command({"SET", "a", "one two"}), "OK");
  EXPECT_EQ(plain_client{server.port()}.command({"GET", "a"}), "one two");
  EXPECT_EQ(plain_client{server.socket_path()}.command({"GET", "a"}), "one two");
  EXPECT_EQ(server.url(), "redis://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_THAT(server.log(), HasSubstr("Ready to accept connections"));
}

TEST(RedisServerTest, ReadsEveryKindOfAnswer) {
  redis_server server;
  EXPECT_EQ(server.command({"INCR", "n"}), 1);
  EXPECT_TRUE(server.command({"GET", "none"}).is_nil());
  EXPECT_EQ(server.command({"RPUSH", "l", "a", "", "b\r\n"}).integer(), 3);
  EXPECT_EQ(server.command({"LRANGE", "l", "0", "-1"}).to_string(), R"(["a", "", "b\r\n"])");
  EXPECT_EQ(server.command({"BLPOP", "none", "0.01"}).to_string(), "nil");
  reply const refused = server.command({"INCR", "l"});
  EXPECT_TRUE(refused.is_error());
  EXPECT_THAT(refused.text, HasSubstr("WRONGTYPE"));
}

TEST(RedisServerTest, TwoAtOnceKnowNothingOfEachOther) {
  redis_server one;
  redis_server other;
  EXPECT_NE(one.port(), other.port());
  EXPECT_NE(one.folder(), other.folder());
  one.command({"SET", "a", "1"});
  EXPECT_TRUE(other.command({"GET", "a"}).is_nil());
}

TEST(RedisServerTest, KeepsAcknowledgedDataThroughAKillWhenItAppends) {
  redis_server server{{.append_only = true}};
  for (int i = 0; i < 100; ++i) server.command({"RPUSH", "l", std::to_string(i)});
  pid_t const before = server.pid();
  std::uint16_t const port = server.port();
  server.kill();
  EXPECT_FALSE(server.is_running());
  EXPECT_EQ(thrown_by([&] { server.command({"PING"}); }).reason(), errc::unavailable);
  server.start();
  EXPECT_NE(server.pid(), before);
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(server.command({"LLEN", "l"}), 100);
}

TEST(RedisServerTest, ForgetsItsDataWhenItDoesNotAppend) {
  redis_server server;
  server.command({"SET", "a", "1"});
  server.stop();
  EXPECT_THAT(server.log(), HasSubstr("User requested shutdown"));
  server.start();
  EXPECT_TRUE(server.command({"GET", "a"}).is_nil());
}

TEST(RedisServerTest, IsStartedAgainAfterItEndedByItself) {
  redis_server server;
  EXPECT_THROW(server.command({"SHUTDOWN", "NOSAVE"}), error);
  server.stop();
  server.start();
  EXPECT_EQ(server.command({"PING"}), "PONG");
  EXPECT_EQ(thrown_by([&] { server.start(); }).reason(), errc::wrong_state);
}

TEST(RedisServerTest, AnswersNobodyWhileFrozen) {
  redis_server server;
  plain_client early{server.port()};
  server.freeze();
  early.send(encode({"PING"}));
  plain_client late{server.port(), 50ms};
  late.send(encode({"PING"}));
  EXPECT_EQ(thrown_by([&] { static_cast<void>(late.read_reply()); }).reason(), errc::timed_out);
  EXPECT_FALSE(early.is_readable());
  EXPECT_TRUE(server.is_running());
  server.thaw();
  EXPECT_EQ(early.read_reply(), "PONG");
}

TEST(RedisServerTest, IsStoppedAndKilledWhileFrozen) {
  redis_server server;
  server.freeze();
  server.stop();
  server.start();
  server.freeze();
  server.kill();
  server.start();
  EXPECT_EQ(server.command({"PING"}), "PONG");
}

TEST(RedisServerTest, ReconnectsWhenATestKilledTheConnectionsOfClients) {
  redis_server server;
  server.command({"PING"});
  plain_client{server.port()}.command({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_EQ(server.command({"PING"}), "PONG");
}

TEST(RedisServerTest, TakesFurtherArgumentsAndAPassword) {
  redis_server server{{.password = "open sesame", .extra = {"--maxmemory", "10mb", "--maxmemory-policy", "noeviction"}}};
  EXPECT_EQ(server.command({"CONFIG", "GET", "maxmemory"}).to_string(), R"(["maxmemory", "10485760"])");
  EXPECT_THAT(plain_client{server.port()}.command({"PING"}).text, HasSubstr("NOAUTH"));
}

TEST(RedisServerTest, SaysWhatTheLogSaysWhenItDoesNotStart) {
  error const why = thrown_by([] { redis_server{{.extra = {"--no-such-option", "1"}}}; });
  EXPECT_EQ(why.reason(), errc::unavailable);
  EXPECT_THAT(why.what(), HasSubstr("no-such-option"));
}

TEST(RedisServerTest, TriesOtherPortsAndGivesUpIfAllAreTaken) {
  listener const taken;
  error const why = thrown_by([&] { redis_server{{.extra = {"--port", std::to_string(taken.port())}}}; });
  EXPECT_EQ(why.reason(), errc::unavailable);
  EXPECT_THAT(why.what(), HasSubstr("Address already in use"));
}

TEST(RedisServerTest, SaysWhatToInstallWhereNoServerIs) {
  with_variable const unset{"ERGON_TEST_REDIS", ""};
  with_variable const nowhere{"PATH", "/nowhere"};
  error const why = thrown_by([] { redis_server{}; });
  EXPECT_EQ(why.reason(), errc::not_found);
  EXPECT_THAT(why.what(), HasSubstr("apt-get install redis-tools"));
}

TEST(RedisServerTest, TakesTheProgramsThatTheEnvironmentNames) {
  {
    with_variable const named{"ERGON_TEST_REDIS", "/bin/sh"};
    EXPECT_EQ(redis_program(), "/bin/sh");
  }
  {
    with_variable const named{"ERGON_TEST_REDIS", "/no/server"};
    EXPECT_THAT(thrown_by([] { static_cast<void>(redis_program()); }).what(), HasSubstr("ERGON_TEST_REDIS=/no/server"));
  }
  with_variable const unset{"ERGON_TEST_VALKEY", ""};
  EXPECT_FALSE(valkey_program().has_value());
  with_variable const named{"ERGON_TEST_VALKEY", "/bin/sh"};
  EXPECT_EQ(valkey_program(), "/bin/sh");
}

TEST(RedisServerTest, ListensWithTlsToo) {
  redis_server server{{.tls = true, .tls_client_certificates = true}};
  EXPECT_EQ(server.command({"CONFIG", "GET", "tls-port"}).elements.at(1), std::to_string(server.tls_port()));
  EXPECT_EQ(ask_with_tls(server, true), "+PONG\r\n");
  EXPECT_EQ(ask_with_tls(server, false), "");
  // An alert instead of an answer.
  plain_client plain{server.tls_port()};
  plain.send("PING\r\n");
  EXPECT_NE(plain.read_to_end().text, "+PONG\r\n");
}

TEST(RedisServerTest, OutlivesTheThreadThatStartedIt) {
  std::optional<redis_server> server;
  std::thread([&] { server.emplace(); }).join();
  EXPECT_EQ(server->command({"PING"}), "PONG");
}

TEST(RedisServerTest, LeavesNothingBehind) {
  std::filesystem::path folder;
  descriptor process;
  {
    redis_server server{{.append_only = true}};
    folder = server.folder();
    process = watch_process(server.pid());
    server.freeze();
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(wait_for(process.get(), POLLIN, deadline{0ms}));
}

/// What the next test kills: it starts a server, says where, and waits for its end.
TEST(RedisServerTest, DISABLED_WaitsToBeKilled) {
  redis_server server;
  std::ofstream{std::getenv("ERGON_TEST_TELL")} << server.pid() << ' ' << server.folder().string() << std::endl;
  for (;;) ::pause();
}

TEST(RedisServerTest, DiesWhenTheTestIsKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  descriptor const told{ends[0]};
  descriptor tell{ends[1]};
  ::fcntl(told.get(), F_SETFD, FD_CLOEXEC);
  std::string const where = "/proc/self/fd/" + std::to_string(tell.get());
  with_variable const telling{"ERGON_TEST_TELL", where.c_str()};
  std::vector<std::string> words{"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_repeat=1",
                                 "--gtest_filter=RedisServerTest.DISABLED_WaitsToBeKilled"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // It says much that nobody wants to read.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t test = 0;
  ASSERT_EQ(::posix_spawn(&test, words[0].c_str(), &actions, nullptr, arguments.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  tell.close();

  std::string text;
  std::array<char, 500> part;
  deadline const until{default_patience};
  while (text.find('\n') == std::string::npos && wait_for(told.get(), POLLIN, until)) {
    ssize_t const n = ::read(told.get(), part.data(), part.size());
    if (n <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  std::istringstream words_of{text};
  pid_t server = 0;
  std::string folder;
  words_of >> server >> folder;
  descriptor const process = server > 0 ? watch_process(server) : descriptor{};
  EXPECT_TRUE(process) << text;
  if (process) {
    EXPECT_FALSE(wait_for(process.get(), POLLIN, deadline{0ms}));
  }

  ::kill(test, SIGKILL);
  ::waitpid(test, nullptr, 0);
  if (process) {
    EXPECT_TRUE(wait_for(process.get(), POLLIN, deadline{default_patience})) << "the server has outlived its test";
  }
  if (!folder.empty()) std::filesystem::remove_all(folder);
}

TEST(ReservedPortTest, RefusesWhileNobodyListensAndIsNobodyElses) {
  reserved_port const port;
  // As often as a client that tries a dead server again and again: it must never meet itself.
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(thrown_by([&] { plain_client{port.number()}; }).reason(), errc::unavailable);
  }
}

}  // namespace
}  // namespace ergon::test
