// The kit's proxy: each of its faults, seen from a plain client. Upstream is a scripted server, or a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ergon/base/error.hpp>

#include "servers/fake_server.hpp"
#include "servers/fault_proxy.hpp"
#include "servers/plain_client.hpp"
#include "servers/redis_server.hpp"

namespace ergon::test {
namespace {

using namespace std::chrono_literals;
using namespace steps;
using direction = fault_proxy::direction;
using connections = fault_proxy::connections;
using counters = fault_proxy::counters;
using ::testing::IsEmpty;

class FaultProxyTest : public ::testing::Test {
 protected:
  [[nodiscard]] plain_client connect() const { return plain_client{proxy.port()}; }

  redis_server upstream;
  fault_proxy proxy{upstream.port()};
};

TEST_F(FaultProxyTest, ForwardsAndCounts) {
  EXPECT_EQ(proxy.url(), "redis://127.0.0.1:" + std::to_string(proxy.port()));
  plain_client one = connect();
  plain_client other = connect();
  EXPECT_EQ(one.command({"SET", "a", "1"}), "OK");
  EXPECT_EQ(other.command({"GET", "a"}), "1");
  std::size_t const sent = encode({"SET", "a", "1"}).size() + encode({"GET", "a"}).size();
  EXPECT_TRUE(
      proxy.wait_until([&](const counters& c) { return c.connections == 2 && c.to_server == sent && c.to_client == 5 + 7; }));
  EXPECT_EQ(proxy.counts().open, 2U);
  one.close();
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 1; }));
  other.reset();
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 0; }));
  EXPECT_EQ(proxy.counts().connections, 2U);
}

TEST_F(FaultProxyTest, ForwardsMuch) {
  plain_client client = connect();
  std::string const much(5'000'000, 'x');
  EXPECT_EQ(client.command({"SET", "a", much}), "OK");
  EXPECT_TRUE(client.command({"GET", "a"}).text == much);
}

TEST_F(FaultProxyTest, PassesOnTheEndOfOneDirection) {
  plain_client client = connect();
  client.send(encode({"PING"}));
  EXPECT_EQ(client.read_reply(), "PONG");
  client.shutdown_send();
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 0; }));
}

TEST_F(FaultProxyTest, CutsAnAnswerShort) {
  upstream.command({"SET", "a", "0123456789"});
  for (std::uint64_t bytes = 1; bytes < 16; ++bytes) {
    plain_client client = connect();
    EXPECT_EQ(client.command({"PING"}), "PONG");
    proxy.cut_after(direction::to_client, bytes, connections::present);
    client.send(encode({"GET", "a"}));
    auto const end = client.read_to_end();
    EXPECT_EQ(end.text, std::string{"$10\r\n0123456789\r\n"}.substr(0, bytes));
    EXPECT_FALSE(end.was_reset);
  }
}

TEST_F(FaultProxyTest, LosesTheAnswerOfACommandThatWasCarriedOut) {
  proxy.cut_after(direction::to_client, 0);
  plain_client client = connect();
  client.send(encode({"INCR", "n"}));
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_EQ(upstream.command({"GET", "n"}), "1");
}

TEST_F(FaultProxyTest, CutsACommandShort) {
  std::string const incr = encode({"INCR", "n"});
  proxy.cut_after(direction::to_server, incr.size() + 4, connections::future);
  plain_client client = connect();
  client.send(incr + incr);
  static_cast<void>(client.read_to_end());
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 0; }));
  EXPECT_EQ(proxy.counts().to_server, incr.size() + 4);
  EXPECT_EQ(plain_client{upstream.port()}.command({"GET", "n"}), "1");
  // Each one that comes is cut, until it is healed.
  plain_client next = connect();
  next.send(incr + incr);
  static_cast<void>(next.read_to_end());
  proxy.heal();
  EXPECT_EQ(connect().command({"GET", "n"}), "2");
}

TEST_F(FaultProxyTest, ResetsAll) {
  plain_client one = connect();
  plain_client other = connect();
  EXPECT_EQ(one.command({"PING"}), "PONG");
  EXPECT_EQ(other.command({"PING"}), "PONG");
  proxy.reset_all();
  EXPECT_EQ(proxy.counts().open, 0U);
  EXPECT_TRUE(one.read_to_end().was_reset);
  EXPECT_TRUE(other.read_to_end().was_reset);
  EXPECT_EQ(connect().command({"PING"}), "PONG");
}

TEST_F(FaultProxyTest, HangsUpOnAll) {
  plain_client client = connect();
  EXPECT_EQ(client.command({"PING"}), "PONG");
  proxy.hang_up_all();
  auto const end = client.read_to_end();
  EXPECT_EQ(end.text, "");
  EXPECT_FALSE(end.was_reset);
}

TEST_F(FaultProxyTest, ForwardsNothingWhileFrozen) {
  plain_client client = connect();
  EXPECT_EQ(client.command({"PING"}), "PONG");
  proxy.freeze();
  auto const before = proxy.counts();
  client.send(encode({"INCR", "n"}));
  plain_client late = connect();
  late.send(encode({"INCR", "n"}));
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.connections == 2; }));
  EXPECT_FALSE(client.is_readable());
  EXPECT_FALSE(late.is_readable());
  EXPECT_TRUE(upstream.command({"GET", "n"}).is_nil());
  EXPECT_EQ(proxy.counts().to_server, before.to_server);
  EXPECT_EQ(proxy.counts().open, 2U);
  proxy.thaw();
  EXPECT_EQ(client.read_reply().integer() + late.read_reply().integer(), 1 + 2);
}

TEST_F(FaultProxyTest, FreezesPresentConnectionsAndNotFutureOnes) {
  plain_client stuck = connect();
  EXPECT_EQ(stuck.command({"PING"}), "PONG");
  proxy.freeze(connections::present);
  stuck.send(encode({"PING"}));
  EXPECT_EQ(connect().command({"PING"}), "PONG");
  EXPECT_FALSE(stuck.is_readable());
  stuck.close();
  // A frozen connection notices no end.
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 1; }));
  proxy.thaw();
  EXPECT_TRUE(proxy.wait_until([](const counters& c) { return c.open == 0; }));
}

TEST_F(FaultProxyTest, EndsConnectionsThatAreFrozen) {
  plain_client client = connect();
  EXPECT_EQ(client.command({"PING"}), "PONG");
  proxy.freeze();
  client.send(encode({"PING"}));
  proxy.hang_up_all();
  auto const end = client.read_to_end();
  EXPECT_EQ(end.text, "");
  EXPECT_FALSE(end.was_reset);
}

TEST_F(FaultProxyTest, WritesOneByteAtATime) {
  proxy.dribble(direction::to_client, true);
  proxy.dribble(direction::to_server, true);
  plain_client client = connect();
  std::string const text(2000, 'x');
  EXPECT_EQ(client.command({"ECHO", text}), text);
  proxy.dribble(direction::to_client, false);
  EXPECT_EQ(client.command({"ECHO", text}), text);
  // Cuts are exact in it, too.
  proxy.dribble(direction::to_client, true, connections::present);
  proxy.cut_after(direction::to_client, 100, connections::present);
  client.send(encode({"ECHO", text}));
  EXPECT_EQ(client.read_to_end().text.size(), 100U);
}

TEST_F(FaultProxyTest, InjectsIntoAnIdleConnection) {
  plain_client client = connect();
  EXPECT_EQ(client.command({"PING"}), "PONG");
  proxy.inject(direction::to_client, "+garbage\r\n");
  EXPECT_EQ(client.read_reply(), "garbage");
  EXPECT_EQ(client.command({"PING"}), "PONG");
  proxy.inject(direction::to_server, encode({"SET", "injected", "1"}));
  EXPECT_EQ(client.read_reply(), "OK");
  EXPECT_EQ(upstream.command({"GET", "injected"}), "1");
}

TEST_F(FaultProxyTest, InjectsBeforeWhatComesFirst) {
  proxy.inject(direction::to_client, "+hello\r\n", connections::future);
  for (int i = 0; i < 2; ++i) {
    plain_client client = connect();
    client.send(encode({"PING"}));
    EXPECT_EQ(client.read_reply(), "hello");
    EXPECT_EQ(client.read_reply(), "PONG");
  }
}

TEST_F(FaultProxyTest, RefusesNewConnectionsAndKeepsOldOnes) {
  plain_client old = connect();
  EXPECT_EQ(old.command({"PING"}), "PONG");
  proxy.refuse(true);
  EXPECT_EQ(connect().read_to_end().text, "");
  EXPECT_EQ(old.command({"PING"}), "PONG");
  EXPECT_EQ(proxy.counts().refused, 1U);
  proxy.refuse(false);
  EXPECT_EQ(connect().command({"PING"}), "PONG");
  EXPECT_EQ(proxy.counts().connections, 2U);
}

TEST_F(FaultProxyTest, EndsConnectionsWhoseServerIsDead) {
  plain_client client = connect();
  EXPECT_EQ(client.command({"PING"}), "PONG");
  upstream.kill();
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_EQ(connect().read_to_end().text, "");
  upstream.start();
  EXPECT_EQ(connect().command({"PING"}), "PONG");
}

TEST(FaultProxyWithFakeServerTest, PassesOnResetsBothWays) {
  fake_server upstream({{expect_any(), reset()}, {expect_any(), expect_end()}});
  fault_proxy proxy{upstream.port()};
  plain_client client{proxy.port()};
  client.send(encode({"A"}));
  EXPECT_TRUE(client.read_to_end().was_reset);
  plain_client other{proxy.port()};
  other.send(encode({"A"}));
  EXPECT_TRUE(upstream.wait_for_commands(2));
  other.reset();
  EXPECT_THAT(upstream.finish(), IsEmpty());
}

TEST(FaultProxyWithFakeServerTest, WaitsNoLongerThanItsPatience) {
  fault_proxy proxy{1};
  EXPECT_FALSE(proxy.wait_until([](const counters& c) { return c.connections == 1; }, 20ms));
}

}  // namespace
}  // namespace ergon::test
