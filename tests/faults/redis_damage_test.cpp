// What hands, other programs and other releases may leave in a store: a clear error or the right behaviour, and nothing else is disturbed
// (promise 9).
#include <array>

#include "faults/scene.hpp"

namespace ergon::test {
namespace {

class RedisDamageTest : public FaultTest {
 protected:
  [[nodiscard]] static std::string key(std::string_view name, std::string_view queue = "default") {
    return "{ergon:" + std::string{queue} + ":0}:" + std::string{name};
  }
  delivery take(consumer& seat, delivery_batch& into) {
    into.clear();
    rt.block_on(seat.fetch(1, into));
    return into.jobs.at(0);
  }
  settled settle(consumer& seat, const settlement& what) {
    settled out = settled::lost;
    rt.block_on(seat.settle({&what, 1}, {&out, 1}));
    return out;
  }
  std::optional<job_info> find(broker& store, const std::string& id) { return rt.block_on(store.find(id)); }

  redis_server server;
  std::shared_ptr<broker> store = open(server.url());
  std::unique_ptr<consumer> seat = rt.block_on(store->join({.queues = {{.name = "default"}}}));
};

TEST_F(RedisDamageTest, EntriesThatAreNoJobsAreDeliveredAsGarbageAndCanBeBuried) {
  std::vector<std::vector<std::string>> entries{{"something", "else"},
                                                {"r", ""},
                                                {"r", std::string("\0\xff\x01", 3)},
                                                {"r", "\x01 not a record"},
                                                {"i", "no serial", "r", "\x02"}};
  std::vector<std::string> many;
  for (int i = 0; i < 3000; ++i) {
    many.push_back("f" + std::to_string(i));
    many.emplace_back("v");
  }
  entries.push_back(std::move(many));
  for (const auto& fields : entries) {
    command_words words{"XADD", key("ready"), "*"};
    words.insert(words.end(), fields.begin(), fields.end());
    server.command(words);
    delivery_batch batch;
    const delivery job = take(*seat, batch);
    EXPECT_NE(job.fit, record_fit::readable) << fields[0];
    EXPECT_NO_THROW((void)rt.block_on(store->list({}, {}, 10)));
    EXPECT_EQ(settle(*seat, {.lease = job.lease, .how = verdict::bury, .text = "no job"}), settled::yes) << fields[0];
  }
  put(rt, *store, "sound");
  delivery_batch batch;
  EXPECT_EQ(take(*seat, batch).payload, "sound");
  const job_page dead = rt.block_on(store->list({.state = job_state::dead}, {}, 10));
  EXPECT_EQ(dead.jobs.size(), entries.size());
  for (const job_info& job : dead.jobs) {
    EXPECT_EQ(job.result, std::nullopt);
    ASSERT_FALSE(job.errors.empty());
    EXPECT_EQ(job.errors.back().error, "no job");
    EXPECT_TRUE(find(*store, job.id)) << job.id;
  }
}

TEST_F(RedisDamageTest, ParkedRecordsThatNobodyCanReadGoToTheDeadLetters) {
  const new_job job{.kind = "k", .payload = "p", .id = "own", .delay = 1h};
  enqueued put_in;
  rt.block_on(store->enqueue({&job, 1}, {&put_in, 1}));
  const std::string serial = server.command({"HKEYS", key("body")}).elements.at(0).text;
  server.command({"HSET", key("body"), serial, "garbage"});
  server.command({"ZADD", key("due"), "1", serial});
  const kept_in_order upkeep{rt, *seat};
  EXPECT_TRUE(eventually([&] { return counts(*store).dead == 1; }));
  // The id is free again.
  EXPECT_TRUE(eventually([&] {
    rt.block_on(store->enqueue({&job, 1}, {&put_in, 1}));
    return put_in.created;
  }));
}

TEST_F(RedisDamageTest, WhatWasTrimmedByHandBlocksNobody) {
  const new_job job{.kind = "k", .payload = "p", .id = "own", .unique_key = "key", .unique_for = 1h};
  enqueued first;
  rt.block_on(store->enqueue({&job, 1}, {&first, 1}));
  server.command({"XTRIM", key("ready"), "MAXLEN", "0"});
  EXPECT_FALSE(find(*store, first.id));
  const kept_in_order upkeep{rt, *seat};
  enqueued second;
  EXPECT_TRUE(eventually([&] {
    rt.block_on(store->enqueue({&job, 1}, {&second, 1}));
    return second.created;
  })) << "the sweep gives the id and the key free";
}

TEST_F(RedisDamageTest, ALostPlaceInTimeIsMadeUpFor) {
  const new_job job{.kind = "k", .payload = "p", .delay = 1h};
  enqueued put_in;
  rt.block_on(store->enqueue({&job, 1}, {&put_in, 1}));
  server.command({"DEL", key("due")});
  const kept_in_order upkeep{rt, *seat};
  delivery_batch batch;
  EXPECT_EQ(take(*seat, batch).payload, "p") << "better early than never";
}

TEST_F(RedisDamageTest, AJobWhoseEntryIsGoneIsLostToItsWorkerAlone) {
  put(rt, *store, "a");
  put(rt, *store, "b");
  delivery_batch first;
  const delivery a = take(*seat, first);
  delivery_batch second;
  const delivery b = take(*seat, second);
  server.command({"XTRIM", key("ready"), "MAXLEN", "1"});
  EXPECT_EQ(settle(*seat, {.lease = a.lease, .how = verdict::retry, .text = "x"}), settled::lost);
  EXPECT_EQ(settle(*seat, {.lease = b.lease}), settled::yes);
}

// A key of the wrong type: every operation that needs it says which command met it, and nothing was half done.
TEST_F(RedisDamageTest, KeysOfTheWrongType) {
  const auto sum = [&] {
    const queue_info q = counts(*store);
    return q.ready + q.active + q.scheduled + q.retry + q.dead + q.completed;
  };
  for (const std::string_view name : {"due", "again", "body", "loc", "ids", "tomb", "done", "dead", "cancelled", "discarded",
                                      "uniq", "uniqx", "stats", "meta", "notes"}) {
    put(rt, *store, "plain");
    delivery_batch batch;
    const delivery job = take(*seat, batch);
    const auto before = sum();
    server.command({"RENAME", key(name), "kept"});
    server.command({"SET", key(name), "a string"});
    const settlement retry{.lease = job.lease, .how = verdict::retry, .text = "x", .delay = 1h};
    settled how = settled::lost;
    std::string text;
    EXPECT_EQ(failure_of(rt, seat->settle({&retry, 1}, {&how, 1}), &text), errc::rejected) << name;
    EXPECT_TRUE(text.contains("WRONGTYPE")) << text;
    const new_job own{.kind = "k", .payload = "p", .id = std::string_view{"own"}};
    enqueued out;
    EXPECT_EQ(failure_of(rt, store->enqueue({&own, 1}, {&out, 1})), errc::rejected) << name;
    server.command({"DEL", key(name)});
    server.command({"RENAME", "kept", key(name)});
    EXPECT_EQ(sum(), before) << name;
    EXPECT_EQ(settle(*seat, {.lease = job.lease}), settled::yes) << name << ": it is the worker's still";
  }
}

// A stream that is no stream: a fetch says so, at the pace of a back-off, and goes on once it is right again.
TEST_F(RedisDamageTest, AStreamOfTheWrongType) {
  server.command({"DEL", key("ready")});
  server.command({"SET", key("ready"), "a string"});
  delivery_batch batch;
  std::string text;
  EXPECT_EQ(failure_of(rt, seat->fetch(1, batch), &text), errc::rejected) << text;
  EXPECT_TRUE(text.contains("WRONGTYPE")) << text;
  server.command({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(failure_of(rt, seat->fetch(1, batch)), errc::rejected);
  const std::string stats = server.command({"INFO", "commandstats"}).text;
  const std::string_view name = "cmdstat_evalsha:calls=";
  ASSERT_TRUE(stats.contains(name));
  EXPECT_LT(std::stoi(stats.substr(stats.find(name) + name.size())), 50) << "nobody hammers the server";
  server.command({"DEL", key("ready")});
  put(rt, *store, "sound");
  EXPECT_TRUE(eventually([&] {
    batch.clear();
    return !failure_of(rt, seat->fetch(1, batch));
  }));
  EXPECT_EQ(batch.jobs.at(0).payload, "sound");
}

// Clocks of workers may be wrong by an hour: the store's time is the server's.
TEST_F(RedisDamageTest, AWorkersCalendarDoesNotMatter) {
  class wrong_clock final : public clock {
   public:
    explicit wrong_clock(std::chrono::nanoseconds by) : by_(by) {}
    [[nodiscard]] wall_time wall() const noexcept override { return system().wall() + by_; }
    [[nodiscard]] steady_time steady() const noexcept override { return system().steady(); }
    [[nodiscard]] std::chrono::nanoseconds boot() const noexcept override { return system().boot(); }
    [[nodiscard]] std::string boot_id() const override { return system().boot_id(); }
    [[nodiscard]] bool is_manual() const noexcept override { return false; }
    [[nodiscard]] std::shared_ptr<void> listen(listener) override { return nullptr; }

   private:
    std::chrono::nanoseconds by_;
  };
  for (const auto by : {1h, -1h}) {
    wrong_clock wrong{by};
    auto other = open_broker(with_options(server.url()), {.runtime = &rt, .clock = &wrong});
    const std::array<new_job, 2> jobs{{{.kind = "k", .payload = "delayed", .delay = 300ms},
                                       {.kind = "k", .payload = "deadline", .deadline = clock::system().wall() + 30min}}};
    std::array<enqueued, 2> out;
    rt.block_on(other->enqueue(jobs, out));
    auto theirs = rt.block_on(other->join({.queues = {{.name = "default"}}}));
    const kept_in_order upkeep{rt, *theirs};
    delivery_batch batch;
    const auto began = clock::system().steady();
    EXPECT_EQ(take(*theirs, batch).payload, "deadline") << "it has half an hour";
    EXPECT_EQ(settle(*theirs, {.lease = batch.jobs.at(0).lease}), settled::yes);
    EXPECT_EQ(take(*theirs, batch).payload, "delayed");
    EXPECT_LT(clock::system().steady() - began, 20s) << "and not after an hour";
    EXPECT_EQ(settle(*theirs, {.lease = batch.jobs.at(0).lease}), settled::yes);
    EXPECT_EQ(rt.block_on(store->workers()).size(), 2U) << "nobody looks dead";
    rt.block_on(theirs->leave());
  }
}

}  // namespace
}  // namespace ergon::test
