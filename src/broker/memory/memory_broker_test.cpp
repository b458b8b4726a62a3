// What only the memory broker promises; the behaviour of all brokers is in tests/conformance.
#include "broker/memory/memory_broker.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>
#include <ergon/runtime/runtime.hpp>

#include "broker/record.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

class MemoryBrokerTest : public ::testing::Test {
 protected:
  std::shared_ptr<broker> open(std::string_view url) { return open_memory(parse_url(url), {.runtime = &rt, .clock = &clock}); }
  template <class T>
  T run(task<T> body) {
    return rt.block_on(std::move(body));
  }
  std::string put(broker& in, const new_job& job) {
    enqueued out;
    run(in.enqueue({&job, 1}, {&out, 1}));
    return out.id;
  }
  std::uint64_t ready(broker& in) {
    std::uint64_t sum = 0;
    for (const queue_info& q : run(in.queues())) sum += q.ready;
    return sum;
  }
  settled settle(consumer& by, const settlement& what) {
    settled out = settled::lost;
    run(by.settle({&what, 1}, {&out, 1}));
    return out;
  }

  manual_clock clock;
  ergon::runtime rt{{.threads = 1, .clock = &clock}};
};

errc reason_of(auto f) {
  try {
    f();
  } catch (const error& e) {
    return e.reason();
  }
  ADD_FAILURE() << "it did not throw";
  return {};
}

TEST_F(MemoryBrokerTest, ANamedStoreLivesUntilTheLastHandleIsGone) {
  auto one = open("memory:named");
  put(*one, {.kind = "k"});
  auto two = open("memory:named");
  one.reset();
  EXPECT_EQ(ready(*two), 1U);
  EXPECT_EQ(ready(*open("memory:other")), 0U);
  two.reset();
  EXPECT_EQ(ready(*open("memory:named")), 0U);
}

TEST_F(MemoryBrokerTest, AConsumerKeepsItsStore) {
  auto b = open("memory:kept");
  put(*b, {.kind = "k"});
  auto c = run(b->join({.queues = {{.name = "default"}}}));
  b.reset();
  EXPECT_EQ(ready(*open("memory:kept")), 1U);
}

TEST_F(MemoryBrokerTest, TheProcessHasAStoreOfItsOwn) {
  put(*open("memory:"), {.queue = "own", .kind = "k", .id = "stays"});
  EXPECT_TRUE(run(open("memory:")->find("stays", "own")));
  run(open("memory:")->remove("stays", "own"));
}

TEST_F(MemoryBrokerTest, RefusesUrlsThatItDoesNotUnderstand) {
  EXPECT_EQ(reason_of([&] { open("memory:x?sync=full"); }), errc::bad_url);
  EXPECT_EQ(reason_of([&] { open("memory:x?max_payload=1GiB"); }), errc::bad_url);
  EXPECT_EQ(reason_of([&] { open("memory:x?max_payload=0"); }), errc::bad_url);
  EXPECT_EQ(reason_of([&] { open("memory:x?max_bytes=much"); }), errc::bad_url);
}

// Promise 9.
TEST_F(MemoryBrokerTest, GarbageIsDeliveredAsSuchAndCanBeBuried) {
  auto b = open("memory:garbage");
  const std::string id = inject_record(*b, "default", "\x01 this is no record");
  const std::string sound = put(*b, {.kind = "k"});
  auto c = run(b->join({.queues = {{.name = "default"}}}));
  delivery_batch batch;
  run(c->fetch(2, batch));
  ASSERT_EQ(batch.jobs.size(), 2U);
  EXPECT_EQ(batch.jobs[0].fit, record_fit::garbage);
  EXPECT_EQ(batch.jobs[1].fit, record_fit::readable) << "its neighbour is not disturbed";
  EXPECT_EQ(settle(*c, {.lease = batch.jobs[0].lease, .how = verdict::bury, .text = "it cannot be read"}), settled::yes);
  const auto dead = run(b->find(id));
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->state, job_state::dead);
  EXPECT_EQ(dead->payload, "\x01 this is no record") << "the bytes are kept for whoever looks";
  EXPECT_EQ(dead->errors.at(0).error, "it cannot be read");
  EXPECT_EQ(settle(*c, {.lease = batch.jobs[1].lease}), settled::yes);
}

// Promise 9.
TEST_F(MemoryBrokerTest, EveryOperationBearsGarbage) {
  auto b = open("memory:garbage2");
  for (const verdict how :
       {verdict::complete, verdict::retry, verdict::bury, verdict::hand_back, verdict::discard, verdict::cancel}) {
    const std::string id = inject_record(*b, "default", std::string_view{"\0\xff", 2});
    EXPECT_TRUE(run(b->find(id)));
    EXPECT_EQ(run(b->list({}, {}, 10)).jobs.size(), 1U);
    auto c = run(b->join({.queues = {{.name = "default"}}}));
    delivery_batch batch;
    run(c->fetch(1, batch));
    EXPECT_EQ(run(b->workers()).size(), 1U);
    EXPECT_EQ(settle(*c, {.lease = batch.jobs.at(0).lease, .how = how, .text = "x"}), settled::yes);
    run(c->leave());
    if (run(b->find(id))) run(b->remove(id));
  }
}

// Promise 12: a newer record is handed back as it was.
TEST_F(MemoryBrokerTest, ANewerRecordSurvivesAnOlderWorker) {
  auto b = open("memory:newer");
  std::string bytes;
  encode_record(record_of({.kind = "k", .payload = "p"}, clock.wall(), {}), bytes);
  bytes.front() = 2;
  bytes += std::string{"\x92\x03\x05", 3} + "later";
  inject_record(*b, "default", bytes);
  for (int i = 0; i < 3; ++i) {
    auto c = run(b->join({.queues = {{.name = "default"}}}));
    delivery_batch batch;
    run(c->fetch(1, batch));
    EXPECT_EQ(batch.jobs.at(0).fit, record_fit::newer);
    EXPECT_EQ(batch.jobs.at(0).kind, "k");
    EXPECT_EQ(settle(*c, {.lease = batch.jobs.at(0).lease, .how = verdict::hand_back}), settled::yes);
    run(c->leave());
  }
  EXPECT_EQ(ready(*b), 1U);
}

// Promise 4: dead letters and traces are bounded, the oldest go first.
TEST_F(MemoryBrokerTest, TracesOfCancelledJobsAreBounded) {
  auto b = open("memory:bounds");
  std::vector<std::string> ids;
  for (int i = 0; i < 10'100; ++i) {
    ids.push_back(put(*b, {.kind = "k"}));
    run(b->cancel(ids.back()));
  }
  EXPECT_EQ(run(b->queues()).at(0).cancelled, 10'000U);
  EXPECT_FALSE(run(b->find(ids[99])));
  EXPECT_TRUE(run(b->find(ids[100])));
}

// Promise 11.
TEST_F(MemoryBrokerTest, AFullStoreTakesABatchWholeOrNotAtAll) {
  auto b = open("memory:full?max_bytes=20000");
  const std::string payload(5'000, 'x');
  std::vector<new_job> batch(10, new_job{.kind = "k", .payload = payload});
  batch[0].id = "first";
  std::vector<enqueued> out(10);
  EXPECT_EQ(reason_of([&] { run(b->enqueue(batch, out)); }), errc::store_full);
  EXPECT_EQ(ready(*b), 0U);
  EXPECT_FALSE(run(b->find("first")));
  for (int i = 0; i < 3; ++i) put(*b, batch[1]);
  EXPECT_EQ(reason_of([&] { put(*b, batch[1]); }), errc::store_full);
  auto c = run(b->join({.queues = {{.name = "default"}}}));
  delivery_batch jobs;
  run(c->fetch(3, jobs));
  for (const delivery& d : jobs.jobs) EXPECT_EQ(settle(*c, {.lease = d.lease}), settled::yes);
  put(*b, batch[1]);
}

TEST_F(MemoryBrokerTest, JobsThatStayBehindAreFoundAfterManyHavePassed) {
  auto b = open("memory:behind");
  std::vector<std::string> stay;
  auto c = run(b->join({.queues = {{.name = "default"}}}));
  delivery_batch batch;
  for (int i = 0; i < 20'000; ++i) {
    if (i % 500 == 0) stay.push_back(put(*b, {.kind = "stays", .delay = 1h}));
    put(*b, {.kind = "k"});
    batch.clear();
    run(c->fetch(1, batch));
    ASSERT_EQ(settle(*c, {.lease = batch.jobs.at(0).lease}), settled::yes);
  }
  for (const std::string& id : stay) EXPECT_TRUE(run(b->find(id)));
  std::string cursor;
  std::size_t listed = 0;
  do {
    const job_page page = run(b->list({}, cursor, 7));
    listed += page.jobs.size();
    cursor = page.next;
  } while (!cursor.empty());
  EXPECT_EQ(listed, stay.size());
}

TEST_F(MemoryBrokerTest, AnAbandonedConsumerTakesNothing) {
  auto b = open("memory:abandoned");
  auto c = run(b->join({.queues = {{.name = "default"}}}));
  c->abandon();
  put(*b, {.kind = "k"});
  delivery_batch batch;
  EXPECT_EQ(reason_of([&] { run(c->fetch(1, batch)); }), errc::closed);
  EXPECT_EQ(ready(*b), 1U);
}

std::uint64_t ready_now(ergon::runtime& on, broker& in) {
  std::uint64_t sum = 0;
  for (const queue_info& q : on.block_on(in.queues())) sum += q.ready;
  return sum;
}

TEST_F(MemoryBrokerTest, ManyThreadsShareAStore) {
  ergon::runtime many{{.threads = 4}};
  auto b = open_memory(parse_url("memory:threads"), {.runtime = &many});
  constexpr int producers = 3;
  constexpr int each = 2000;
  std::atomic<int> done = 0;
  std::vector<std::jthread> threads;
  for (int p = 0; p < producers; ++p) {
    threads.emplace_back([&] {
      const new_job job{.kind = "k", .payload = "p"};
      for (int i = 0; i < each; ++i) {
        enqueued out;
        many.block_on(b->enqueue({&job, 1}, {&out, 1}));
      }
    });
  }
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&] {
      auto c = many.block_on(b->join({.queues = {{.name = "default"}}}));
      delivery_batch batch;
      while (done < producers * each) {
        batch.clear();
        // Not more than can come: a fetch that nobody wakes would wait for ever.
        if (ready_now(many, *b) == 0) {
          std::this_thread::yield();
          continue;
        }
        auto fetching = many.spawn(c->fetch(10, batch));
        for (int i = 0; i < 1000 && !fetching.done(); ++i) std::this_thread::yield();
        fetching.cancel();
        while (!fetching.done()) std::this_thread::yield();
        for (const delivery& d : batch.jobs) {
          const settlement s{.lease = d.lease};
          settled out = settled::lost;
          many.block_on(c->settle({&s, 1}, {&out, 1}));
          if (out == settled::yes) ++done;
        }
      }
      many.block_on(c->leave());
    });
  }
  threads.clear();
  EXPECT_EQ(done, producers * each);
  EXPECT_EQ(ready_now(many, *b), 0U);
}

}  // namespace
}  // namespace ergon
