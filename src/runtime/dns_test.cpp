// Host names to addresses, without a network: the names that every machine knows, and one that cannot exist.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ergon/runtime/dns.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/tcp.hpp>

namespace ergon {
namespace {

TEST(DnsTest, AnAddressIsItself) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(resolve("192.0.2.7", 80)), (std::vector<endpoint>{{*ip_address::parse("192.0.2.7"), 80}}));
  EXPECT_EQ(rt.block_on(resolve("2001:db8::7", 80)), (std::vector<endpoint>{{*ip_address::parse("2001:db8::7"), 80}}));
}

TEST(DnsTest, LocalhostIsThisMachine) {
  runtime rt{{.threads = 2}};
  auto const found = rt.block_on(resolve("localhost", 443));
  ASSERT_FALSE(found.empty());
  for (const endpoint& each : found) {
    EXPECT_TRUE(each.address.is_loopback()) << each.text();
    EXPECT_EQ(each.port, 443);
  }
}

TEST(DnsTest, ManyLookUpsAtOnceAllEnd) {
  runtime rt{{.threads = 2}};
  std::vector<join_handle<std::vector<endpoint>>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(rt.spawn(resolve("localhost")));
  }
  for (auto& each : all) {
    EXPECT_NE(
        rt.block_on([](join_handle<std::vector<endpoint>>& h) -> task<std::size_t> { co_return (co_await h).size(); }(each)), 0U);
  }
}

TEST(DnsTest, ANameThatDoesNotExistIsNamedInTheError) {
  runtime rt{{.threads = 1}};
  for (int i = 0; i < 2; ++i) {
    try {
      if (i == 0) {
        rt.block_on(resolve("no-such-host.invalid", 80));
      } else {
        rt.block_on(tcp_stream::connect("no-such-host.invalid", 80));
      }
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::unavailable);
      EXPECT_NE(std::string{e.what()}.find("no-such-host.invalid"), std::string::npos) << e.what();
    }
  }
}

TEST(DnsTest, AnEmptyNameIsRefused) {
  runtime rt{{.threads = 1}};
  EXPECT_THROW(rt.block_on(resolve("")), error);
  EXPECT_THROW(rt.block_on(resolve(std::string{"a\0b", 3})), error);
}

TEST(DnsTest, ACancelEndsTheWaitAndTheLookUpTouchesNothing) {
  for (int i = 0; i < 50; ++i) {
    runtime rt{{.threads = 1}};
    auto waiting = rt.spawn(resolve("localhost"));
    waiting.cancel();
    static_cast<void>(rt.block_on(
        [](join_handle<std::vector<endpoint>>& h) -> task<bool> { co_return (co_await as_result(h)).has_value(); }(waiting)));
  }
}

}  // namespace
}  // namespace ergon
