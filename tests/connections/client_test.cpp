// The shared connection against real servers, scripted ones, and through a proxy that breaks it.
#include <ergon/redis/client.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <expected>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

#include "connections/scene.hpp"
#include "servers/fake_server.hpp"
#include "servers/fault_proxy.hpp"
#include "servers/redis_server.hpp"

namespace ergon::test {
namespace {

using testing::HasSubstr;
using namespace steps;

constexpr const char* hello_answer =
    "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:9\r\n$4\r\nmode\r\n$"
    "10\r\n"
    "standalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

// The greeting of a client, and then what is said.
script greeted(script then) {
  script all{expect({"HELLO", "3"}), send(hello_answer),         expect({"CLIENT", "SETNAME", "ergon"}),
             send("+OK\r\n"),        expect({"INFO", "server"}), send("$0\r\n\r\n"),
             expect({"PING"}),       send("+PONG\r\n")};
  std::ranges::move(then, std::back_inserter(all));
  return all;
}

// Once the client is gone, who would come back to a server that ends.
std::vector<std::string> problems_of(fake_server& server, scene& s) {
  s.redis.close();
  s.rt.settle();
  return server.finish();
}

TEST(ClientTest, GivesEachTaskItsOwnAnswer) {
  redis_server server;
  scene s{quick(server.url())};
  std::atomic<int> wrong{0};
  s.rt.block_on(with_group([&](task_group& tasks) -> task<void> {
    for (int i = 0; i < 50; ++i) {
      tasks.spawn([](redis::client& redis, int i, std::atomic<int>& wrong) -> task<void> {
        for (int k = 0; k < 100; ++k) {
          const std::string text = std::to_string(i) + "/" + std::to_string(k);
          if (co_await ask(redis, {"ECHO", text}) != text) ++wrong;
        }
      }(s.redis, i, wrong));
    }
    co_return;
  }));
  EXPECT_EQ(wrong, 0);
  const auto stats = s.redis.stats();
  EXPECT_EQ(stats.commands, 5000U);
  EXPECT_LT(stats.writes, 5000U) << "what is asked in one turn goes out together";
  EXPECT_EQ(stats.in_flight, 0U);
}

TEST(ClientTest, KeepsTheOrderOfACallAndTakesErrorsAsAnswers) {
  redis_server server;
  scene s{quick(server.url())};
  s.rt.block_on([](redis::client& redis) -> task<void> {
    redis::commands asked;
    asked.add("SET", "n", 1);
    asked.add("LPUSH", "n", "x");
    asked.add("INCR", "n");
    std::vector<redis::reply> answers(3);
    co_await redis.run(asked, answers);
    EXPECT_EQ(answers[0].root().text(), "OK");
    EXPECT_EQ(redis::error_word(answers[1].root()), "WRONGTYPE");
    EXPECT_EQ(answers[2].root().integer(), 2);
  }(s.redis));
}

TEST(ClientTest, CarriesLargeAndBinaryTexts) {
  redis_server server;
  scene s{quick(server.url())};
  std::string large(5'000'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 >> 3U);
  EXPECT_EQ(s.ask({"SET", "k", large}), "OK");
  EXPECT_EQ(s.ask({"GET", "k"}), large);
  EXPECT_EQ(s.ask({"GET", "none"}), "null");
}

TEST(ClientTest, ReachesAServerInEachWay) {
  redis_server server{{.password = "pass word"}};
  EXPECT_EQ(scene{quick("redis://:pass%20word@127.0.0.1:" + std::to_string(server.port()))}.ask({"PING"}), "PONG");
  EXPECT_EQ(scene{quick("unix:" + server.socket_path() + "?password=pass%20word&db=3")}.ask({"PING"}), "PONG");
  scene third{quick("redis://:pass%20word@127.0.0.1:" + std::to_string(server.port()) + "/3?client_name=shop&connections=3")};
  EXPECT_EQ(third.ask({"SET", "a", "b"}), "OK");
  EXPECT_THAT(third.ask({"CLIENT", "INFO"}), testing::AllOf(HasSubstr("name=shop"), HasSubstr("db=3"), HasSubstr("resp=3")));
  EXPECT_EQ(third.redis.options().connections, 3U);
}

TEST(ClientTest, ChecksTheServersCertificate) {
  redis_server server{{.tls = true, .tls_client_certificates = true}};
  const auto& certs = server.certs();
  const std::string right = server.tls_url() + "?tls_ca=" + certs.ca.certificate.string() +
                            "&tls_cert=" + certs.client.certificate.string() + "&tls_key=" + certs.client.key.string();
  EXPECT_EQ(scene{quick(right)}.ask({"PING"}), "PONG");
  scene stranger{quick(server.tls_url())};
  EXPECT_EQ(stranger.failure_of({"PING"}), errc::not_trusted);
  EXPECT_EQ(scene{quick(server.tls_url() + "?tls_verify=off&tls_cert=" + certs.client.certificate.string() +
                        "&tls_key=" + certs.client.key.string())}
                .ask({"PING"}),
            "PONG");
}

TEST(ClientTest, AWrongPasswordFailsAtOnceAndSaysSo) {
  redis_server server{{.password = "right"}};
  scene s{quick("redis://:hunter2@127.0.0.1:" + std::to_string(server.port()))};
  std::string text;
  EXPECT_EQ(s.failure_of({"PING"}, &text), errc::not_permitted);
  EXPECT_THAT(text, HasSubstr("WRONGPASS"));
  for (const auto& entry : s.log->entries()) {
    EXPECT_THAT(entry.text + entry.field("why"), testing::Not(HasSubstr("hunter2")));
  }
}

TEST(ClientTest, WaitsForAServerThatIsAwayAndThenSaysWhy) {
  std::uint16_t port = 0;
  {
    redis_server server;
    port = server.port();
  }
  auto options = quick("redis://127.0.0.1:" + std::to_string(port));
  options.patience = 50ms;
  scene s{options};
  std::string text;
  EXPECT_EQ(s.failure_of({"PING"}, &text), errc::unavailable);
  EXPECT_THAT(text, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_TRUE(s.log->contains("cannot connect"));
  EXPECT_EQ(s.failure_of({"PING"}), errc::unavailable);
}

TEST(ClientTest, ComesBackByItselfWhenTheServerDoes) {
  redis_server server{{.append_only = true}};
  scene s{quick(server.url())};
  EXPECT_EQ(s.ask({"SET", "a", "1"}), "OK");
  server.kill();
  std::thread starts{[&] { server.start(); }};
  // It may meet the end of the old connection, and then waits for the new one.
  std::string got;
  for (int attempt = 0; attempt < 3 && got.empty(); ++attempt) {
    try {
      got = s.ask({"GET", "a"});
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::unknown_outcome) << e.what();
    }
  }
  starts.join();
  EXPECT_EQ(got, "1");
  EXPECT_TRUE(s.log->contains("connection lost"));
}

TEST(ClientTest, WhatCallsAreToldHoldsWhereverTheConnectionBreaks) {
  redis_server server;
  for (const auto way : {fault_proxy::direction::to_server, fault_proxy::direction::to_client}) {
    for (std::uint64_t bytes = 150; bytes < 1500; bytes += 37) {
      fault_proxy proxy{server.port()};
      scene s{quick(proxy.url())};
      EXPECT_EQ(s.ask({"SET", "n", "0"}), "OK");
      proxy.cut_after(way, bytes, fault_proxy::connections::present);
      std::atomic<int> done{0};
      std::atomic<int> unknown{0};
      s.rt.block_on(with_group([&](task_group& tasks) -> task<void> {
        for (int i = 0; i < 40; ++i) {
          tasks.spawn([](redis::client& redis, std::atomic<int>& done, std::atomic<int>& unknown) -> task<void> {
            try {
              static_cast<void>(co_await ask(redis, {"INCR", "n"}));
              ++done;
            } catch (const error& e) {
              EXPECT_EQ(e.reason(), errc::unknown_outcome) << e.what();
              ++unknown;
            }
          }(s.redis, done, unknown));
        }
        co_return;
      }));
      const auto n = server.command({"GET", "n"});
      ASSERT_FALSE(n.is_nil());
      const int counted = std::stoi(n.text);
      EXPECT_EQ(done + unknown, 40);
      EXPECT_GE(counted, done) << "what was answered was done; cut after " << bytes;
      EXPECT_LE(counted, done + unknown) << "nothing was done twice; cut after " << bytes;
    }
  }
}

TEST(ClientTest, RepeatsWhatDoesNoHarmTwice) {
  redis_server server;
  fault_proxy proxy{server.port()};
  scene s{quick(proxy.url())};
  EXPECT_EQ(s.ask({"PING"}), "PONG");
  for (int round = 0; round < 10; ++round) {
    proxy.cut_after(fault_proxy::direction::to_client, 0, fault_proxy::connections::present);
    s.rt.block_on([](redis::client& redis, int round) -> task<void> {
      redis::commands asked;
      asked.add("SET", "k", round);
      redis::reply answer;
      co_await redis.repeat(asked, {&answer, 1});
      EXPECT_EQ(answer.root().text(), "OK");
    }(s.redis, round));
    EXPECT_EQ(s.ask({"GET", "k"}), std::to_string(round));
  }
}

TEST(ClientTest, LeavesAServerThatOwesAnAnswerForTooLong) {
  redis_server server;
  fault_proxy proxy{server.port()};
  scene s{quick(proxy.url())};
  EXPECT_EQ(s.ask({"PING"}), "PONG");
  // The peer is gone, and nobody was told.
  proxy.freeze(fault_proxy::connections::present);
  std::string text;
  EXPECT_EQ(s.failure_of({"INCR", "n"}, &text), errc::unknown_outcome);
  EXPECT_THAT(text, HasSubstr("owed an answer"));
  EXPECT_EQ(s.ask({"PING"}), "PONG");
}

TEST(ClientTest, NoticesADeadConnectionOnWhichNobodyAsksAnything) {
  redis_server server;
  fault_proxy proxy{server.port()};
  auto options = quick(proxy.url());
  options.response_timeout = 50ms;
  scene s{options};
  EXPECT_EQ(s.ask({"PING"}), "PONG");
  proxy.freeze(fault_proxy::connections::present);
  EXPECT_TRUE(proxy.wait_until([](const fault_proxy::counters& c) { return c.connections >= 2; }));
  EXPECT_EQ(s.ask({"PING"}), "PONG");
}

TEST(ClientTest, GarbageCostsTheConnectionAndNothingElse) {
  redis_server server;
  fault_proxy proxy{server.port()};
  scene s{quick(proxy.url())};
  for (const char* garbage : {"hello\r\n", "*99999999999\r\n", "$-2\r\n", ":12a\r\n", "\r\n"}) {
    EXPECT_EQ(s.ask({"ECHO", "before"}), "before");
    proxy.inject(fault_proxy::direction::to_client, garbage);
    std::string got;
    while (got.empty()) {
      try {
        got = s.ask({"ECHO", "after"});
      } catch (const error& e) {
        ASSERT_EQ(e.reason(), errc::unknown_outcome) << e.what();
      }
    }
    EXPECT_EQ(got, "after");
  }
  EXPECT_TRUE(s.log->contains("connection lost"));
}

TEST(ClientTest, ReadsWhatComesByteByByte) {
  redis_server server;
  fault_proxy proxy{server.port()};
  proxy.dribble(fault_proxy::direction::to_client, true);
  proxy.dribble(fault_proxy::direction::to_server, true);
  scene s{quick(proxy.url())};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(s.ask({"ECHO", std::to_string(i)}), std::to_string(i));
}

TEST(ClientTest, ACancelledCallTakesNoOthersAnswer) {
  fake_server server({greeted({expect({"GET", "a"}), expect({"GET", "b"}), hold(), send("$1\r\nA\r\n$1\r\nB\r\n"),
                               expect({"GET", "c"}), send("$1\r\nC\r\n")})});
  scene s{quick(server.url())};
  auto first = s.rt.spawn(ask(s.redis, {"GET", "a"}));
  EXPECT_TRUE(server.wait_for_commands(5));
  auto second = s.rt.spawn(ask(s.redis, {"GET", "b"}));
  EXPECT_TRUE(server.wait_for_holds(1));
  first.cancel();
  EXPECT_EQ(s.rt.block_on([](join_handle<std::string> of) -> task<std::error_code> {
    const auto end = co_await as_result(of);
    co_return end ? std::error_code{} : end.error();
  }(std::move(first))),
            errc::cancelled);
  server.release();
  EXPECT_EQ(s.rt.block_on([](join_handle<std::string> of) -> task<std::string> { co_return co_await of; }(std::move(second))),
            "B");
  EXPECT_EQ(s.ask({"GET", "c"}), "C");
  EXPECT_THAT(problems_of(server, s), testing::IsEmpty());
}

TEST(ClientTest, HoldsBackWhatIsTooMuchAtOnce) {
  script then;
  for (int i = 0; i < 4; ++i) then.push_back(expect_any());
  then.push_back(hold());
  for (int i = 0; i < 4; ++i) then.push_back(send("+1\r\n"));
  for (int i = 0; i < 16; ++i) {
    then.push_back(expect_any());
    then.push_back(send("+2\r\n"));
  }
  fake_server server({greeted(then)});
  auto options = quick(server.url());
  options.most_in_flight = 4;
  options.response_timeout = 10s;
  scene s{options};
  std::vector<join_handle<std::string>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(s.rt.spawn(ask(s.redis, {"GET", std::to_string(i)})));
  EXPECT_TRUE(server.wait_for_holds(1));
  s.rt.settle();
  EXPECT_EQ(s.redis.stats().in_flight, 4U);
  EXPECT_EQ(server.commands().size(), 4U + 4U);
  // One of those that wait for room goes.
  calls.back().cancel();
  calls.pop_back();
  s.rt.settle();
  then.clear();
  server.release();
  for (auto& call : calls)
    s.rt.block_on([](join_handle<std::string>& of) -> task<void> { static_cast<void>(co_await of); }(call));
  EXPECT_EQ(s.redis.stats().commands, 19U);
  EXPECT_EQ(s.ask({"GET", "last"}), "2");
  EXPECT_THAT(problems_of(server, s), testing::IsEmpty());
}

TEST(ClientTest, LeavesAMasterThatHasBecomeAReplica) {
  fake_server server(
      {greeted({expect({"SET", "a", "1"}), send("-READONLY You can't write against a read only replica.\r\n"), expect_end()}),
       greeted({expect({"SET", "a", "1"}), send("+OK\r\n")})});
  scene s{quick(server.url())};
  EXPECT_EQ(s.failure_of({"SET", "a", "1"}), errc::store_read_only);
  EXPECT_EQ(s.ask({"SET", "a", "1"}), "OK");
  EXPECT_THAT(problems_of(server, s), testing::IsEmpty());
}

TEST(ClientTest, ComesBackToAServerThatIsStillLoading) {
  const script loading{expect({"HELLO", "3"}),
                       expect_any(),
                       expect_any(),
                       expect_any(),
                       send("-LOADING Redis is loading the dataset in memory\r\n"),
                       expect_end()};
  fake_server server({loading, loading, greeted({expect({"PING"}), send("+PONG\r\n")})});
  scene s{quick(server.url())};
  EXPECT_EQ(s.ask({"PING"}), "PONG");
  EXPECT_THAT(problems_of(server, s), testing::IsEmpty());
}

TEST(ClientTest, PassesOverPushesAndLeavesWhoAnswersUnasked) {
  fake_server server({greeted({expect({"GET", "a"}), send(">2\r\n+invalidate\r\n*0\r\n"), send("$1\r\nA\r\n>1\r\n+x\r\n"), hold(),
                               send("+unasked\r\n"), expect_end()}),
                      greeted({expect({"GET", "b"}), send("$1\r\nB\r\n")})});
  scene s{quick(server.url())};
  EXPECT_EQ(s.ask({"GET", "a"}), "A");
  server.release();
  EXPECT_TRUE(server.wait_for_connections(2));
  EXPECT_EQ(s.ask({"GET", "b"}), "B");
  EXPECT_TRUE(s.log->contains("connection lost"));
  EXPECT_THAT(problems_of(server, s), testing::IsEmpty());
}

TEST(ClientTest, WhatWasClosedFailsWhatWaitsAndWhatComes) {
  fake_server server({greeted({expect({"GET", "a"}), hold(), expect_end()})});
  scene s{quick(server.url())};
  auto waits = s.rt.spawn(ask(s.redis, {"GET", "a"}));
  EXPECT_TRUE(server.wait_for_holds(1));
  s.redis.close();
  EXPECT_EQ(s.rt.block_on([](join_handle<std::string> of) -> task<std::error_code> {
    try {
      static_cast<void>(co_await of);
    } catch (const error& e) {
      co_return e.code();
    }
    co_return std::error_code{};
  }(std::move(waits))),
            errc::unknown_outcome);
  EXPECT_EQ(s.failure_of({"GET", "b"}), errc::closed);
  server.release();
}

TEST(ClientTest, RefusesACallWithoutRoomForItsAnswers) {
  redis_server server;
  scene s{quick(server.url())};
  s.rt.block_on([](redis::client& redis) -> task<void> {
    redis::commands asked;
    std::vector<redis::reply> answers(2);
    asked.add("PING");
    EXPECT_THROW(static_cast<void>(redis.run(asked, answers)), error);
    EXPECT_THROW(static_cast<void>(redis.run(asked, {})), error);
    co_return;
  }(s.redis));
}

TEST(ClientTest, LivesThroughARestartUnderLoad) {
  redis_server server{{.append_only = true}};
  scene s{quick(server.url())};
  std::atomic<bool> goes_on{true};
  std::atomic<int> acknowledged{0};
  std::atomic<int> unknown{0};
  std::vector<join_handle<>> producers;
  for (int i = 0; i < 8; ++i) {
    producers.push_back(s.rt.spawn([](redis::client& redis, std::atomic<bool>& goes_on, std::atomic<int>& acknowledged,
                                      std::atomic<int>& unknown) -> task<void> {
      while (goes_on) {
        try {
          static_cast<void>(co_await ask(redis, {"RPUSH", "list", "x"}));
          ++acknowledged;
        } catch (const error& e) {
          EXPECT_EQ(e.reason(), errc::unknown_outcome) << e.what();
          ++unknown;
        }
      }
    }(s.redis, goes_on, acknowledged, unknown)));
  }
  for (int restart = 0; restart < 3; ++restart) {
    const int before = acknowledged;
    while (acknowledged < before + 100) std::this_thread::yield();
    server.kill();
    server.start();
  }
  goes_on = false;
  for (auto& p : producers) s.rt.block_on([](join_handle<>& of) -> task<void> { co_await of; }(p));
  const int length = std::stoi(s.ask({"LLEN", "list"}));
  EXPECT_GE(length, acknowledged);
  EXPECT_LE(length, acknowledged + unknown);
  EXPECT_GE(s.redis.stats().connections_lost, 3U);
}

}  // namespace
}  // namespace ergon::test
