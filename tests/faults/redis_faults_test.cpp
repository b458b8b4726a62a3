// A broker on a server that fails: through every fault what was acknowledged ends, and workers come back by themselves.
#include <algorithm>

#include "faults/scene.hpp"

namespace ergon::test {
namespace {

class RedisFaultTest : public FaultTest {
 protected:
  /// Puts jobs in while `fault` happens again and again, and checks that each of them ends.
  template <class Fault>
  void survives(redis_server& server, const std::string& url, int jobs, int faults, Fault fault) {
    ledger done;
    auto store = open(url);
    {
      steady_worker worker{rt, store, done};
      int unknown = 0;
      for (int i = 0; i < jobs; ++i) {
        if (i % (jobs / faults) == jobs / faults / 2) fault();
        put(rt, *store, std::to_string(i), &unknown);
      }
      EXPECT_TRUE(eventually([&] { return done.distinct() == static_cast<std::size_t>(jobs); })) << done.distinct();
      EXPECT_TRUE(eventually([&] {
        const queue_info q = counts(*store);
        return q.ready + q.active + q.retry + q.scheduled == 0;
      })) << "something is left";
      int more_than_once = 0;
      for (int i = 0; i < jobs; ++i) more_than_once += done.times(std::to_string(i)) - 1;
      EXPECT_LE(more_than_once, unknown) << "only what may have been put in twice was completed twice";
    }
    EXPECT_EQ(server.command({"EXISTS", "ergon:beats"}).integer(), 0) << "the worker has left";
  }
};

TEST_F(RedisFaultTest, ConnectionsThatAreKilled) {
  redis_server server;
  survives(server, server.url(), 2000, 10, [&] { server.command({"CLIENT", "KILL", "TYPE", "normal"}); });
}

TEST_F(RedisFaultTest, ConnectionsThatAreReset) {
  redis_server server;
  fault_proxy proxy{server.port()};
  survives(server, proxy.url(), 1000, 10, [&] { proxy.reset_all(); });
}

TEST_F(RedisFaultTest, AnswersThatAreCutShort) {
  redis_server server;
  fault_proxy proxy{server.port()};
  std::uint64_t bytes = 0;
  survives(server, proxy.url(), 1000, 20, [&] {
    // Each time at another place of what is under way.
    proxy.cut_after(fault_proxy::direction::to_client, bytes += 37, fault_proxy::connections::present);
  });
}

TEST_F(RedisFaultTest, CommandsThatAreCutShort) {
  redis_server server;
  fault_proxy proxy{server.port()};
  std::uint64_t bytes = 0;
  survives(server, proxy.url(), 1000, 20,
           [&] { proxy.cut_after(fault_proxy::direction::to_server, bytes += 61, fault_proxy::connections::present); });
}

TEST_F(RedisFaultTest, ScriptsThatAreForgotten) {
  redis_server server;
  survives(server, server.url(), 1000, 10, [&] { server.command({"SCRIPT", "FLUSH"}); });
}

TEST_F(RedisFaultTest, ANetworkThatGarblesAnswers) {
  redis_server server;
  fault_proxy proxy{server.port()};
  survives(server, proxy.url(), 500, 5, [&] { proxy.inject(fault_proxy::direction::to_client, "$-9\r\nwhat is this\r\n"); });
}

TEST_F(RedisFaultTest, AServerThatDiesAndComesBack) {
  redis_server server{{.append_only = true}};
  survives(server, server.url(), 600, 3, [&] {
    server.kill();
    server.start();
  });
}

TEST_F(RedisFaultTest, ServersThatAnswerNobodyForAWhile) {
  redis_server server;
  ledger done;
  auto store = open(server.url());
  steady_worker worker{rt, store, done};
  for (int i = 0; i < 50; ++i) put(rt, *store, std::to_string(i));
  server.freeze();
  const new_job job{.kind = "k", .payload = "in the cold"};
  enqueued out;
  EXPECT_EQ(failure_of(rt, store->enqueue({&job, 1}, {&out, 1})), errc::unknown_outcome);
  server.thaw();
  put(rt, *store, "after");
  EXPECT_TRUE(eventually([&] { return done.times("after") == 1; }));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(eventually([&] { return done.times(std::to_string(i)) == 1; })) << i;
}

// A read whose reply never arrived has given its jobs to this worker: it takes them up, and nobody waits for a lease to run out.
TEST_F(RedisFaultTest, JobsWhoseDeliveryWasLostAreTakenUp) {
  redis_server server;
  fault_proxy proxy{server.port()};
  auto own = open_broker(proxy.url() + "?lease=1h", {.runtime = &rt});
  auto store = open(server.url());
  auto seat = rt.block_on(own->join({.queues = {{.name = "default"}}}));
  delivery_batch batch;
  auto fetching = rt.spawn(seat->fetch(10, batch));
  EXPECT_TRUE(eventually([&] { return server.command({"CLIENT", "LIST"}).text.contains("cmd=xreadgroup"); }));
  // Of what is on its way to the worker not one byte arrives.
  proxy.cut_after(fault_proxy::direction::to_client, 0, fault_proxy::connections::present);
  put(rt, *store, "lost on the way");
  EXPECT_TRUE(eventually([&] { return fetching.done(); }));
  ASSERT_EQ(batch.jobs.size(), 1U);
  EXPECT_EQ(batch.jobs[0].payload, "lost on the way");
  EXPECT_EQ(batch.jobs[0].losses, 0U);
  rt.block_on(seat->leave());
}

// A settlement whose answer was lost is sent again; it counts once, and is not called lost.
TEST_F(RedisFaultTest, ASettlementWhoseAnswerWasLostCountsOnce) {
  redis_server server;
  fault_proxy proxy{server.port()};
  auto store = open(proxy.url());
  auto seat = rt.block_on(store->join({.queues = {{.name = "default"}}}));
  put(rt, *store, "a");
  delivery_batch batch;
  rt.block_on(seat->fetch(1, batch));
  proxy.cut_after(fault_proxy::direction::to_client, 0, fault_proxy::connections::present);
  const settlement done{.lease = batch.jobs.at(0).lease};
  settled how = settled::lost;
  rt.block_on(seat->settle({&done, 1}, {&how, 1}));
  EXPECT_EQ(how, settled::yes);
  const auto hours = rt.block_on(store->stats("default", 2));
  std::uint64_t completed = 0;
  for (const hour_stats& h : hours) completed += h.completed;
  EXPECT_EQ(completed, 1U);
  rt.block_on(seat->leave());
}

TEST_F(RedisFaultTest, ADatabaseThatIsEmptied) {
  redis_server server;
  ledger done;
  auto store = open(server.url());
  steady_worker worker{rt, store, done};
  put(rt, *store, "before");
  EXPECT_TRUE(eventually([&] { return done.times("before") == 1; }));
  server.command({"FLUSHALL"});
  const std::string id = put(rt, *store, "after").id;
  EXPECT_TRUE(eventually([&] { return done.times("after") == 1; })) << "the worker makes anew what it needs";
  // Jobs that need scripts, and a client that knows the queue from before.
  const new_job job{.kind = "k", .payload = "delayed", .id = "own", .delay = 10ms};
  enqueued out;
  rt.block_on(store->enqueue({&job, 1}, {&out, 1}));
  EXPECT_TRUE(eventually([&] { return done.times("delayed") == 1; }));
}

TEST_F(RedisFaultTest, JobsInHandWhenTheDatabaseIsEmptiedAreLost) {
  redis_server server;
  auto store = open(server.url());
  auto seat = rt.block_on(store->join({.queues = {{.name = "default"}}}));
  put(rt, *store, "a");
  delivery_batch batch;
  rt.block_on(seat->fetch(1, batch));
  server.command({"FLUSHALL"});
  const consumer_news news = rt.block_on(seat->news());
  ASSERT_EQ(news.lost.size(), 1U) << "its handler is told";
  EXPECT_EQ(news.lost[0], batch.jobs.at(0).lease);
  rt.block_on(seat->leave());
}

TEST_F(RedisFaultTest, AServerThatBecomesAReplica) {
  redis_server other;
  redis_server server;
  ledger done;
  auto store = open(server.url());
  steady_worker worker{rt, store, done};
  put(rt, *store, "before");
  EXPECT_TRUE(eventually([&] { return done.times("before") == 1; }));
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
  const new_job job{.kind = "k", .payload = "refused"};
  enqueued out;
  std::string text;
  const auto reason = failure_of(rt, store->enqueue({&job, 1}, {&out, 1}), &text);
  EXPECT_TRUE(reason == errc::store_read_only || reason == errc::unavailable) << text;
  server.command({"REPLICAOF", "NO", "ONE"});
  put(rt, *store, "after");
  EXPECT_TRUE(eventually([&] { return done.times("after") == 1; }));
}

TEST_F(RedisFaultTest, RefusesWhatItCannotUse) {
  redis_server server{{.password = "secret"}};
  const auto open_failure = [&](const std::string& url, std::string* text) {
    try {
      (void)open(url);
      return std::error_code{};
    } catch (const error& e) {
      *text = e.what();
      return e.code();
    }
  };
  std::string text;
  EXPECT_EQ(open_failure(server.url(), &text), errc::not_permitted) << text;
  EXPECT_EQ(open_failure("redis://:wrong@127.0.0.1:" + std::to_string(server.port()), &text), errc::not_permitted) << text;
  EXPECT_FALSE(text.contains("wrong")) << "no secrets in errors: " << text;
  EXPECT_EQ(open_failure("redis://:secret@127.0.0.1:" + std::to_string(server.port()), &text), std::error_code{}) << text;
  const reserved_port nobody;
  EXPECT_EQ(open_failure("redis://127.0.0.1:" + std::to_string(nobody.number()), &text), errc::unavailable) << text;
}

// As docs/redis.md has it.
TEST_F(RedisFaultTest, AUserOfLeastPrivilegeIsEnough) {
  redis_server server;
  ASSERT_FALSE(server
                   .command({"ACL",
                             "SETUSER",
                             "jobs",
                             "on",
                             ">secret",
                             "resetkeys",
                             "~ergon:*",
                             "~{ergon:*",
                             "resetchannels",
                             "&ergon:*",
                             "&{ergon:*",
                             "-@all",
                             "+@hash",
                             "+@sortedset",
                             "+@stream",
                             "+@transaction",
                             "+eval",
                             "+evalsha",
                             "+script|load",
                             "+publish",
                             "+subscribe",
                             "+unsubscribe",
                             "+hello",
                             "+auth",
                             "+select",
                             "+ping",
                             "+client|setname",
                             "+client|id",
                             "+client|unblock",
                             "+time",
                             "+info"})
                   .is_error());
  ledger done;
  auto store = open("redis://jobs:secret@127.0.0.1:" + std::to_string(server.port()));
  {
    steady_worker worker{rt, store, done};
    put(rt, *store, "plain");
    const new_job rich{.kind = "k",
                       .payload = "rich",
                       .id = "own",
                       .delay = 20ms,
                       .unique_key = "u",
                       .unique_for = 1h,
                       .retention = 1h,
                       .keep_result = 1h};
    enqueued out;
    rt.block_on(store->enqueue({&rich, 1}, {&out, 1}));
    EXPECT_EQ(rt.block_on(store->wait(out.id)).state, job_state::completed);
    EXPECT_TRUE(eventually([&] { return done.distinct() == 2; }));
    rt.block_on(store->pause("default"));
    rt.block_on(store->resume("default"));
    EXPECT_EQ(rt.block_on(store->list({}, {}, 10)).jobs.size(), 1U);
    rt.block_on(store->remove(out.id));
    EXPECT_EQ(rt.block_on(store->workers()).size(), 1U);
    EXPECT_FALSE(rt.block_on(store->stats("default", 1)).empty());
  }
  EXPECT_EQ(server.command({"ACL", "LOG"}).elements.size(), 0U) << "nothing was refused";
}

TEST_F(RedisFaultTest, ReachesAServerByEveryRoad) {
  redis_server server{{.tls = true}};
  const std::string ca = server.certs().ca.certificate.string();
  for (const std::string& url :
       {"unix:" + server.socket_path() + "?lease=2s", server.url() + "/3?lease=2s", server.tls_url() + "?tls_ca=" + ca}) {
    ledger done;
    auto store = open_broker(url, {.runtime = &rt});
    steady_worker worker{rt, store, done};
    put(rt, *store, "p");
    EXPECT_TRUE(eventually([&] { return done.times("p") == 1; })) << url;
  }
  EXPECT_EQ(server.command({"DBSIZE"}).integer() > 0, true);
  std::string text;
  try {
    (void)open_broker(server.tls_url() + "?patience=1s", {.runtime = &rt});
    ADD_FAILURE() << "a certificate that nobody vouches for was taken";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::not_trusted) << e.what();
  }
}

TEST_F(RedisFaultTest, TheSameUrlIsOneBrokerAndAnotherPasswordIsAnother) {
  redis_server server;
  server.command({"ACL", "SETUSER", "a", "on", ">one", ">two", "~*", "&*", "+@all"});
  const std::string at = "@127.0.0.1:" + std::to_string(server.port());
  const auto first = open("redis://a:one" + at);
  EXPECT_EQ(open("redis://a:one" + at), first);
  EXPECT_NE(open("redis://a:two" + at), first);
  runtime other{{.threads = 1}};
  EXPECT_NE(open_broker(with_options("redis://a:one" + at), {.runtime = &other}), first);
}

TEST_F(RedisFaultTest, WarnsOfAServerThatThrowsJobsAway) {
  redis_server server{{.extra = {"--maxmemory-policy", "allkeys-lru"}}};
  auto log = std::make_shared<memory_sink>();
  set_default_logger(logger{log, log_level::debug});
  (void)open(server.url());
  set_default_logger(logger::console());
  EXPECT_TRUE(log->contains("maxmemory-policy"));
}

}  // namespace
}  // namespace ergon::test
