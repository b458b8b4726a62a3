// The scripted server of the kit: it does what the script says, and says what clients did otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <ergon/base/error.hpp>

#include "servers/fake_server.hpp"
#include "servers/plain_client.hpp"

namespace ergon::test {
namespace {

using namespace std::chrono_literals;
using namespace steps;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FakeServerTest, FollowsItsScript) {
  fake_server server({{expect({"HELLO", "3"}), send("+OK\r\n"), expect_any(), send(":7\r\n"), hang_up()}});
  plain_client client{server.port()};
  EXPECT_EQ(client.command({"HELLO", "3"}), "OK");
  EXPECT_EQ(client.command({"INCR", "n"}), 7);
  auto const end = client.read_to_end();
  EXPECT_EQ(end.text, "");
  EXPECT_FALSE(end.was_reset);
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, GivesEachConnectionItsScript) {
  fake_server server({{expect({"A"}), send("+a\r\n"), expect_end()}, {expect({"B"}), send("+b\r\n"), expect_end()}});
  plain_client first{server.port()};
  ASSERT_TRUE(server.wait_for_connections(1));
  plain_client second{server.port()};
  EXPECT_EQ(second.command({"B"}), "b");
  EXPECT_EQ(first.command({"A"}), "a");
  auto const seen = server.commands();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].connection, 1U);
  EXPECT_THAT(seen[0].words, ElementsAre("B"));
  EXPECT_EQ(seen[1].connection, 0U);
  first.close();
  second.close();
  EXPECT_TRUE(server.wait_until_followed());
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, TakesCommandsThatComeTogetherAndInPieces) {
  fake_server server({{expect({"A", "1"}), expect({"B", ""}), expect({"C", "x\r\ny"}), send("+OK\r\n")}});
  plain_client client{server.port()};
  std::string const all = encode({"A", "1"}) + encode({"B", ""}) + encode({"C", "x\r\ny"});
  for (char const each : all) client.send(std::string_view{&each, 1});
  EXPECT_EQ(client.read_reply(), "OK");
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, AsksAPredicate) {
  auto const is_get = [](const command_words& words) { return words.front() == "GET"; };
  fake_server server({{expect("a GET", is_get), send("$1\r\nv\r\n"), expect("a GET", is_get)}});
  plain_client client{server.port()};
  EXPECT_EQ(client.command({"GET", "k"}), "v");
  client.send(encode({"SET", "k", "v"}));
  EXPECT_THAT(server.finish(), ElementsAre(HasSubstr("step 2 (expect a GET): there came SET k v")));
}

TEST(FakeServerTest, ReportsAnotherCommandAndEndsTheConnection) {
  fake_server server({{expect({"GET", "a"}), send("+never\r\n")}});
  plain_client client{server.port()};
  client.send(encode({"GET", "a b"}));
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_THAT(server.finish(), ElementsAre("fake server: connection 0, step 0 (expect GET a): there came GET \"a b\""));
}

TEST(FakeServerTest, ReportsWhatComesAfterTheScript) {
  fake_server server({{expect({"A"}), send("+a\r\n")}});
  plain_client client{server.port()};
  EXPECT_EQ(client.command({"A"}), "a");
  client.send(encode({"B"}));
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_THAT(server.finish(), ElementsAre("fake server: connection 0, after its script: there came B"));
}

TEST(FakeServerTest, ReportsWhatIsNoCommand) {
  fake_server server({{expect_any()}});
  plain_client client{server.port()};
  client.send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(server.finish(), ElementsAre(HasSubstr("GET / HTTP/1.1")));
}

TEST(FakeServerTest, ReportsAClientThatLeavesEarly) {
  fake_server server({{expect({"A"}), expect({"B"})}, {expect({"C"})}});
  plain_client{server.port()}.send(encode({"A"}));
  plain_client{server.port()}.send("*1\r\n$1\r\n");
  EXPECT_TRUE(server.wait_for_connections(2));
  EXPECT_TRUE(server.wait_until_followed());
  EXPECT_THAT(server.finish(), ::testing::UnorderedElementsAre(HasSubstr("step 1 (expect B): the client ended the connection"),
                                                               HasSubstr("the client ended the connection inside of a command")));
}

TEST(FakeServerTest, ReportsScriptsThatNobodyFollowed) {
  fake_server server({{expect({"A"})}, {}}, {.patience = 50ms});
  plain_client client{server.port()};
  EXPECT_FALSE(server.wait_until_followed());
  EXPECT_FALSE(server.wait_for_connections(2));
  EXPECT_THAT(server.finish(), ElementsAre("fake server: connection 0, step 0 (expect A): the script was not followed to its end",
                                           "fake server: connection 1: nobody connected"));
}

TEST(FakeServerTest, ReportsAConnectionWithoutAScriptUnlessThereIsOneForOthers) {
  fake_server strict({});
  EXPECT_EQ(plain_client{strict.port()}.read_to_end().text, "");
  EXPECT_THAT(strict.finish(), ElementsAre(HasSubstr("connection 0, after its script: there is no script for it")));

  fake_server open({{send("first"), hang_up()}}, {.others = script{send("other"), hang_up()}});
  EXPECT_EQ(plain_client{open.port()}.read_to_end().text, "first");
  EXPECT_EQ(plain_client{open.port()}.read_to_end().text, "other");
  EXPECT_EQ(plain_client{open.port()}.read_to_end().text, "other");
  EXPECT_EQ(open.connections(), 3U);
  EXPECT_THAT(open.finish(), IsEmpty());
}

TEST(FakeServerTest, TellsItsProblemsAtItsEndIfNobodyAsked) {
  std::vector<std::string> told;
  {
    fake_server server({{expect({"A"})}}, {.on_problem = [&](const std::string& problem) { told.push_back(problem); }});
    plain_client{server.port()}.send(encode({"B"}));
  }
  EXPECT_THAT(told, ElementsAre(HasSubstr("there came B")));
}

TEST(FakeServerTest, SendsInPieces) {
  std::string const text = "$10\r\n0123456789\r\n";
  fake_server server({{send_in_pieces(text, 3), hang_up()}});
  EXPECT_EQ(plain_client{server.port()}.read_to_end().text, text);
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, SendsMoreThanBuffersHold) {
  std::string const much(20'000'000, 'x');
  fake_server server({{send(much), hang_up()}});
  EXPECT_EQ(plain_client{server.port()}.read_to_end().text.size(), much.size());
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, ResetsAConnection) {
  fake_server server({{expect_any(), reset()}});
  plain_client client{server.port()};
  client.send(encode({"A"}));
  EXPECT_TRUE(client.read_to_end().was_reset);
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, EndsWithoutAResetThoughTheClientSentMore) {
  fake_server server({{expect({"A"}), hold(), send("+a\r\n"), hang_up()}});
  plain_client client{server.port()};
  client.send(encode({"A"}) + encode({"B"}));
  ASSERT_TRUE(server.wait_for_holds(1));
  client.send(encode({"C"}));
  server.release();
  auto const end = client.read_to_end();
  EXPECT_EQ(end.text, "+a\r\n");
  EXPECT_FALSE(end.was_reset);
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, HoldsUntilItIsReleased) {
  fake_server server({{expect({"A"}), hold(), send("+a\r\n"), hold(), send("+b\r\n")}});
  plain_client client{server.port()};
  client.send(encode({"A"}));
  ASSERT_TRUE(server.wait_for_holds(1));
  EXPECT_FALSE(client.is_readable());
  server.release();
  EXPECT_EQ(client.read_reply(), "a");
  ASSERT_TRUE(server.wait_for_holds(2));
  EXPECT_FALSE(client.is_readable());
  server.release();
  EXPECT_EQ(client.read_reply(), "b");
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, ReleasesOneConnectionAndNotTheOther) {
  fake_server server({{hold(), send("+a\r\n")}, {hold(), send("+b\r\n")}});
  plain_client first{server.port()};
  plain_client second{server.port()};
  ASSERT_TRUE(server.wait_for_holds(2));
  server.release(1);
  EXPECT_EQ(second.read_reply(), "b");
  EXPECT_FALSE(first.is_readable());
  EXPECT_THAT(server.finish(), ElementsAre("fake server: connection 0, step 0 (hold): nobody released it"));
}

TEST(FakeServerTest, MayEndInAHold) {
  fake_server server({{expect({"A"}), hold()}});
  plain_client client{server.port()};
  client.send(encode({"A"}));
  EXPECT_TRUE(server.wait_for_commands(1));
  EXPECT_THAT(server.finish(), IsEmpty());
}

TEST(FakeServerTest, SeesTheEndAndReportsWhatComesInstead) {
  fake_server server({{expect_end()}, {expect_end()}, {expect_end()}});
  plain_client{server.port()}.close();
  plain_client{server.port()}.reset();
  plain_client client{server.port()};
  client.send(encode({"A"}));
  EXPECT_EQ(client.read_to_end().text, "");
  EXPECT_THAT(server.finish(), ElementsAre("fake server: connection 2, step 0 (expect the end): there came A"));
}

TEST(FakeServerTest, TakesScriptsWhileItRuns) {
  fake_server server({});
  server.serve({send("1"), hang_up()});
  EXPECT_EQ(plain_client{server.port()}.read_to_end().text, "1");
  server.serve({send("2"), hang_up()});
  EXPECT_EQ(plain_client{server.port()}.read_to_end().text, "2");
  EXPECT_THAT(server.finish(), IsEmpty());
}

}  // namespace
}  // namespace ergon::test
