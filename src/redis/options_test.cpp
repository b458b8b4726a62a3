#include <ergon/redis/options.hpp>

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace ergon::redis {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string refusal(std::string_view url) {
  try {
    static_cast<void>(read_options(url));
  } catch (const error& e) {
    return e.what();
  }
  return "taken";
}

TEST(RedisOptionsTest, TakesWhatAUrlLeavesOutFromTheDefaults) {
  const auto read = read_options("redis://");
  EXPECT_EQ(read.host, "127.0.0.1");
  EXPECT_EQ(read.port, 6379);
  EXPECT_EQ(read.database, 0U);
  EXPECT_FALSE(read.tls.has_value());
  EXPECT_EQ(read.shown(), "redis 127.0.0.1:6379");
}

TEST(RedisOptionsTest, ReadsEveryPart) {
  const auto read = read_options(
      "redis://worker:se%40cret@[::1]:7000/"
      "3?connect_timeout=2s&response_timeout=300ms&patience=0s&connections=2&client_name=shop&look_out=0s");
  EXPECT_EQ(read.host, "::1");
  EXPECT_EQ(read.port, 7000);
  EXPECT_EQ(read.user, "worker");
  EXPECT_EQ(read.password, "se@cret");
  EXPECT_EQ(read.database, 3U);
  EXPECT_EQ(read.connect_timeout, 2s);
  EXPECT_EQ(read.response_timeout, 300ms);
  EXPECT_EQ(read.patience, 0s);
  EXPECT_EQ(read.connections, 2U);
  EXPECT_EQ(read.client_name, "shop");
  EXPECT_EQ(read.look_out, 0s);
  EXPECT_EQ(read.shown(), "redis [::1]:7000");
  EXPECT_THAT(read.shown(), testing::Not(HasSubstr("se@cret")));
}

TEST(RedisOptionsTest, TlsChecksTheServerUnlessToldOtherwise) {
  const auto strict = read_options("rediss://db.example");
  ASSERT_TRUE(strict.tls.has_value());
  EXPECT_TRUE(strict.tls->verify);
  EXPECT_EQ(strict.shown(), "rediss db.example:6379");
  const auto read =
      read_options("rediss://db.example:6380?tls_ca=ca.pem&tls_cert=c.pem&tls_key=k.pem&tls_name=other&tls_verify=off");
  EXPECT_EQ(read.tls->ca_file, "ca.pem");
  EXPECT_EQ(read.tls->certificate_file, "c.pem");
  EXPECT_EQ(read.tls->key_file, "k.pem");
  EXPECT_EQ(read.tls->server_name, "other");
  EXPECT_FALSE(read.tls->verify);
}

TEST(RedisOptionsTest, ReadsASocketPath) {
  const auto read = read_options("unix:/run/redis.sock?db=2&user=u&password=p");
  EXPECT_EQ(read.socket_path, "/run/redis.sock");
  EXPECT_EQ(read.database, 2U);
  EXPECT_EQ(read.user, "u");
  EXPECT_EQ(read.password, "p");
  EXPECT_EQ(read.shown(), "redis unix:/run/redis.sock");
}

TEST(RedisOptionsTest, RefusesWhatItDoesNotKnowAndSaysWhatIsRight) {
  EXPECT_THAT(refusal("redis://host/first"), HasSubstr("the number of a database"));
  EXPECT_THAT(refusal("redis://host/70000"), HasSubstr("65535"));
  EXPECT_THAT(refusal("redis://host/-1"), HasSubstr("/-1"));
  EXPECT_THAT(refusal("redis://host?tls_ca=x"), HasSubstr("tls_ca"));
  EXPECT_THAT(refusal("redis://host?connections=0"), HasSubstr("connections"));
  EXPECT_THAT(refusal("unix:"), HasSubstr("unix:/path/to/socket"));
  EXPECT_THAT(refusal("http://host"), HasSubstr("redis, rediss, unix"));
  EXPECT_THAT(refusal("redis://:hunter2@host/x"), testing::Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace ergon::redis
