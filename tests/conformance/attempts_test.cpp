// Attempts: leases, verdicts, losses, cancels, what a consumer is told.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "conformance/scene.hpp"

namespace ergon::conformance {
namespace {

class AttemptConformance : public Scene {};
ERGON_ON_EVERY_STORE(AttemptConformance);

TEST_P(AttemptConformance, ACompletedJobIsGoneAndCounted) {
  const std::string id = put({.kind = "k"}).id;
  auto c = join();
  const taken t = take(*c);
  EXPECT_EQ(state(id), job_state::active);
  EXPECT_EQ(info(id).worker, c->id());
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
  EXPECT_FALSE(find(id));
  EXPECT_EQ(totals().enqueued, 1U);
  EXPECT_EQ(totals().completed, 1U);
  run(c->leave());
}

TEST_P(AttemptConformance, AFetchWaitsAndIsWokenByAnEnqueue) {
  auto c = join({{.name = "a", .weight = 1}, {.name = "b", .weight = 1}});
  for (const std::string_view queue : {"a", "b"}) {
    taken t;
    auto fetching = rt.spawn(c->fetch(5, t.batch));
    EXPECT_TRUE(stays_waiting(fetching));
    put({.queue = queue, .kind = "k"});
    joined(std::move(fetching));
    EXPECT_EQ(t.size(), 1U);
    EXPECT_EQ(t.at(0).queue, queue);
    complete(*c, t.at(0));
  }
  run(c->leave());
}

TEST_P(AttemptConformance, ACancelledFetchLosesNothing) {
  auto c = join();
  for (int round = 0; round < 50; ++round) {
    taken t;
    auto fetching = rt.spawn(c->fetch(5, t.batch));
    // The enqueue and the cancel race.
    enqueued e;
    const new_job job{.kind = "k"};
    auto putting = rt.spawn(store->enqueue({&job, 1}, {&e, 1}));
    fetching.cancel();
    cancel(std::move(fetching));
    joined(std::move(putting));
    if (t.size() == 0) t = take(*c);
    ASSERT_EQ(t.size(), 1U);
    EXPECT_EQ(public_id(t.at(0)), e.id);
    EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
  }
  EXPECT_EQ(counts().ready, 0U);
  EXPECT_EQ(counts().active, 0U);
  run(c->leave());
}

TEST_P(AttemptConformance, AWokenButCancelledFetchPassesTheJobOn) {
  auto first = join();
  auto second = join();
  for (int round = 0; round < 100; ++round) {
    taken a;
    taken b;
    auto one = rt.spawn(first->fetch(1, a.batch));
    EXPECT_TRUE(round != 0 || stays_waiting(one));
    auto two = rt.spawn(second->fetch(1, b.batch));
    EXPECT_TRUE(round != 0 || stays_waiting(two));
    put({.kind = "k"});
    cancel(std::move(one));
    if (a.size() == 1) {
      complete(*first, a.at(0));
      cancel(std::move(two));
      if (b.size() == 1) ADD_FAILURE() << "delivered twice";
    } else {
      joined(std::move(two));
      ASSERT_EQ(b.size(), 1U);
      complete(*second, b.at(0));
    }
  }
  run(first->leave());
  run(second->leave());
}

task<void> work_off(consumer* by, std::size_t batch_size, std::atomic<std::size_t>* done, std::multiset<std::string>* seen,
                    std::mutex* guard) {
  delivery_batch batch;
  for (;;) {
    batch.clear();
    co_await by->fetch(batch_size, batch);
    std::vector<settlement> ends;
    for (const delivery& d : batch.jobs) {
      const std::scoped_lock lock{*guard};
      seen->insert(public_id(d));
      ends.push_back({.lease = d.lease});
    }
    std::vector<settled> out(ends.size());
    co_await by->settle(ends, out);
    for (const settled s : out) {
      EXPECT_EQ(s, settled::yes);
      ++*done;
    }
  }
}

// Promise 1.
TEST_P(AttemptConformance, ConsumersShareAQueueWithoutDoubleDelivery) {
  constexpr std::size_t total = 3000;
  auto a = join();
  auto b = join();
  std::atomic<std::size_t> done = 0;
  std::multiset<std::string> seen;
  std::mutex guard;
  auto one = rt.spawn(work_off(a.get(), 7, &done, &seen, &guard));
  auto two = rt.spawn(work_off(b.get(), 3, &done, &seen, &guard));
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < total / 100; ++i) {
    for (auto& id : put_many(100)) ids.push_back(std::move(id));
  }
  EXPECT_TRUE(eventually([&] { return done == total; }, 120s)) << done;
  cancel(std::move(one));
  cancel(std::move(two));
  EXPECT_EQ(std::vector<std::string>(seen.begin(), seen.end()), ids);
  run(a->leave());
  run(b->leave());
}

TEST_P(AttemptConformance, SharesQueuesByWeight) {
  put_many(400, "high");
  put_many(400, "low");
  auto c = join({{.name = "high", .weight = 3}, {.name = "low", .weight = 1}});
  std::map<std::string, int> got;
  for (auto& t : take_exactly(*c, 200)) {
    for (const delivery& d : t.jobs()) ++got[std::string{d.queue}];
  }
  EXPECT_NEAR(got["high"], 150, 4);
  EXPECT_NEAR(got["low"], 50, 4);
  run(c->leave());
}

TEST_P(AttemptConformance, OneAtATimeIsSharedByWeightToo) {
  put_many(100, "high");
  put_many(100, "low");
  auto c = join({{.name = "high", .weight = 3}, {.name = "low", .weight = 1}});
  std::map<std::string, int> got;
  for (int i = 0; i < 40; ++i) ++got[std::string{take(*c).at(0).queue}];
  EXPECT_NEAR(got["high"], 30, 2);
  run(c->leave());
}

TEST_P(AttemptConformance, AnEmptyQueueLeavesItsShareToTheOthers) {
  put_many(30, "low");
  auto c = join({{.name = "high", .weight = 100}, {.name = "low", .weight = 1}});
  EXPECT_EQ(take(*c, 30).size(), 30U);
  run(c->leave());
}

TEST_P(AttemptConformance, StrictOrderServesTheHigherQueueFirst) {
  put_many(5, "low");
  put_many(5, "high");
  auto c = join({{.name = "low", .weight = 1}, {.name = "high", .weight = 2}}, true);
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) order.emplace_back(take(*c).at(0).queue);
  EXPECT_EQ(order, (std::vector<std::string>{"high", "high", "high", "high", "high", "low"}));
  put({.queue = "high", .kind = "k"});
  EXPECT_EQ(take(*c).at(0).queue, "high");
  run(c->leave());
}

TEST_P(AttemptConformance, RefusesQueuesThatMakeNoSense) {
  EXPECT_EQ(failure_of(store->join({.queues = {}})), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->join({.queues = {{.name = "a b"}}})), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->join({.queues = {{.name = "a", .weight = 0}}})), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->join({.queues = {{.name = "a", .weight = 1001}}})), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->join({.queues = {{.name = "a"}, {.name = "a"}}})), errc::invalid_argument);
}

TEST_P(AttemptConformance, ARetriedJobComesBackAfterItsBackOff) {
  const std::string id = put({.kind = "k", .max_retries = 2}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  for (std::uint32_t attempt = 0; attempt < 2; ++attempt) {
    const taken t = take(*c);
    EXPECT_EQ(t.at(0).failures, attempt);
    EXPECT_EQ(public_id(t.at(0)), id) << "retries are one life";
    EXPECT_EQ(
        settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = "error " + std::to_string(attempt), .delay = 10s}),
        settled::yes);
    const job_info waiting = info(id);
    EXPECT_EQ(waiting.state, job_state::retry);
    EXPECT_EQ(waiting.due, clock.wall() + 10s);
    EXPECT_EQ(waiting.failures, attempt + 1);
    clock.advance(9s);
    EXPECT_EQ(state(id), job_state::retry);
    clock.advance(1s);
    EXPECT_TRUE(eventually([&] { return state(id) == job_state::ready; }));
  }
  const taken last = take(*c);
  EXPECT_EQ(settle(*c, {.lease = last.at(0).lease, .how = verdict::retry, .text = "error 2", .delay = 10s}), settled::buried);
  const job_info dead = info(id);
  EXPECT_EQ(dead.state, job_state::dead);
  EXPECT_EQ(dead.failures, 3U);
  ASSERT_EQ(dead.errors.size(), 3U);
  EXPECT_EQ(dead.errors[0].error, "error 0");
  EXPECT_EQ(dead.errors[2].error, "error 2");
  EXPECT_EQ(dead.errors[2].worker, c->id());
  EXPECT_EQ(dead.errors[2].at, clock.wall());
  EXPECT_EQ(dead.ended_at, clock.wall());
  EXPECT_EQ(totals().failed, 3U);
  EXPECT_EQ(totals().dead, 1U);
}

TEST_P(AttemptConformance, ARetryWithoutBackOffIsReadyAtOnce) {
  put({.kind = "k"});
  auto c = join();
  taken t = take(*c);
  EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = "x"}), settled::yes);
  EXPECT_EQ(counts().ready, 1U);
  EXPECT_EQ(take(*c).at(0).failures, 1U);
  run(c->leave());
}

// Promise 4: nothing stored grows without limit.
TEST_P(AttemptConformance, TheErrorHistoryIsCapped) {
  const std::string id = put({.kind = "k", .max_retries = 100}).id;
  auto c = join();
  for (int i = 0; i < 15; ++i) {
    const taken t = take(*c);
    settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = std::string(10'000, static_cast<char>('a' + i))});
  }
  const job_info job = info(id);
  ASSERT_EQ(job.errors.size(), 10U);
  EXPECT_EQ(job.errors.back().error, std::string(4096, 'o'));
  run(c->leave());
}

TEST_P(AttemptConformance, ABuriedJobIsDeadWithItsReason) {
  const std::string id = put({.kind = "k", .max_retries = 25}).id;
  auto c = join();
  EXPECT_EQ(settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::bury, .text = "malformed order"}), settled::yes);
  const job_info dead = info(id);
  EXPECT_EQ(dead.state, job_state::dead);
  ASSERT_FALSE(dead.errors.empty());
  EXPECT_EQ(dead.errors.back().error, "malformed order");
  EXPECT_EQ(counts().dead, 1U);
  run(c->leave());
}

TEST_P(AttemptConformance, WhatIsHandedBackGoesToTheFrontUncounted) {
  const auto ids = put_many(6);
  auto c = join();
  const taken t = take(*c, 3);
  ASSERT_EQ(t.size(), 3U);
  for (const delivery& d : t.batch.jobs) EXPECT_EQ(settle(*c, {.lease = d.lease, .how = verdict::hand_back}), settled::yes);
  std::vector<std::string> order;
  for (auto& again : take_exactly(*c, 6)) {
    for (const delivery& d : again.jobs()) {
      order.push_back(public_id(d));
      EXPECT_EQ(d.failures, 0U);
      EXPECT_EQ(d.losses, 0U);
    }
  }
  EXPECT_EQ(order, ids);
  EXPECT_EQ(totals().failed, 0U);
  run(c->leave());
}

// Promise 12: what this release cannot run yet waits, and loses no attempt by it.
TEST_P(AttemptConformance, WhatIsHandedBackWithADelayIsParkedUncounted) {
  const std::string id = put({.kind = "k", .max_retries = 0}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  for (int i = 0; i < 5; ++i) {
    const taken t = take(*c);
    EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::hand_back, .delay = 1min}), settled::yes);
    EXPECT_EQ(state(id), job_state::retry);
    clock.advance(1min);
  }
  const taken t = take(*c);
  EXPECT_EQ(t.at(0).failures, 0U);
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
}

TEST_P(AttemptConformance, TheHandlerItselfMayCallAJobOff) {
  const std::string id = put({.kind = "k", .keep_result = 1h}).id;
  auto c = join();
  EXPECT_EQ(settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::cancel, .text = "no longer wanted"}), settled::yes);
  EXPECT_EQ(state(id), job_state::cancelled);
  const job_end end = end_of(id);
  EXPECT_EQ(end.state, job_state::cancelled);
  EXPECT_EQ(end.text, "no longer wanted");
  EXPECT_EQ(totals().cancelled, 1U);
  run(c->leave());
}

TEST_P(AttemptConformance, ADeadlineThatPassedDiscardsInsteadOfDelivering) {
  const std::string late = put({.kind = "k", .deadline = clock.wall() + 10s, .keep_result = 1h}).id;
  const std::string fine = put({.kind = "k", .deadline = clock.wall() + 10min}).id;
  clock.advance(11s);
  auto c = join();
  const taken t = take(*c, 5);
  ASSERT_EQ(t.size(), 1U);
  EXPECT_EQ(public_id(t.at(0)), fine);
  EXPECT_EQ(state(late), job_state::discarded);
  EXPECT_EQ(end_of(late).state, job_state::discarded);
  EXPECT_EQ(totals().discarded, 1U);
  EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::discard, .text = "too late"}), settled::yes);
  EXPECT_EQ(totals().discarded, 2U);
  run(c->leave());
}

// Promise 3, for each verdict.
TEST_P(AttemptConformance, AFormerOwnerCanDoNothing) {
  for (const verdict how :
       {verdict::complete, verdict::retry, verdict::bury, verdict::hand_back, verdict::discard, verdict::cancel}) {
    const std::string id = put({.kind = "k", .max_retries = 0, .keep_result = 1h}).id;
    auto former = join();
    const taken old = take(*former);
    abandon(*former);
    auto next = join();
    taken now;
    {
      const upkeep keeps{rt, *next};
      ASSERT_TRUE(after_takeover([&] { return counts().ready == 1; }));
      now = take(*next);
      const settlement late{.lease = old.at(0).lease, .how = how, .text = "late", .delay = 1h};
      settled out = settled::yes;
      EXPECT_EQ(failure_of(former->settle({&late, 1}, {&out, 1})), std::nullopt);
      EXPECT_EQ(out, settled::lost);
      EXPECT_EQ(state(id), job_state::active);
      EXPECT_EQ(info(id).worker, next->id());
      EXPECT_EQ(info(id).failures, 0U);
      EXPECT_FALSE(run(former->mark(old.at(0).lease)));
      // A token is good in its owner's hands alone.
      EXPECT_EQ(settle(*former, {.lease = now.at(0).lease, .how = how}), settled::lost);
      EXPECT_EQ(complete(*next, now.at(0), "done"), settled::yes);
    }
    EXPECT_EQ(end_of(id).text, "done");
    run(next->leave());
  }
}

// Promise 3.
TEST_P(AttemptConformance, ALeaseEndsOnce) {
  put({.kind = "k"});
  auto c = join();
  const taken t = take(*c);
  const settlement twice[] = {{.lease = t.at(0).lease}, {.lease = t.at(0).lease, .how = verdict::retry}};
  settled out[2] = {};
  run(c->settle(twice, out));
  EXPECT_EQ(out[0], settled::yes);
  EXPECT_EQ(out[1], settled::lost);
  EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::retry}), settled::lost);
  EXPECT_EQ(settle(*c, {.lease = {.where = ~0ULL, .number = ~0ULL}}), settled::lost);
  EXPECT_EQ(settle(*c, {.lease = {}}), settled::lost);
  EXPECT_EQ(totals().completed, 1U);
  run(c->leave());
}

// Promise 3.
TEST_P(AttemptConformance, ARetriedJobsOldTokenFitsNothing) {
  put({.kind = "k"});
  auto c = join();
  const taken first = take(*c);
  settle(*c, {.lease = first.at(0).lease, .how = verdict::retry});
  const taken second = take(*c);
  EXPECT_NE(first.at(0).lease, second.at(0).lease);
  EXPECT_EQ(complete(*c, first.at(0)), settled::lost);
  EXPECT_EQ(complete(*c, second.at(0)), settled::yes);
  run(c->leave());
}

// Promises 1 and 2.
TEST_P(AttemptConformance, AnAbandonedWorkersJobsAreTakenOver) {
  const auto ids = put_many(5);
  {
    auto dead = join();
    EXPECT_EQ(take_exactly(*dead, 5).size() > 0, true);
    EXPECT_EQ(counts().active, 5U);
    lose(std::move(dead));
  }
  EXPECT_EQ(counts().ready, 5U);
  EXPECT_EQ(totals().reclaimed, 5U);
  auto c = join();
  std::vector<std::string> again;
  for (auto& t : take_exactly(*c, 5)) {
    for (const delivery& d : t.jobs()) {
      again.push_back(public_id(d));
      EXPECT_EQ(d.losses, 1U);
      EXPECT_EQ(d.failures, 0U);
      EXPECT_EQ(complete(*c, d), settled::yes);
    }
  }
  std::ranges::sort(again);
  EXPECT_EQ(again, ids);
  run(c->leave());
}

TEST_P(AttemptConformance, ADestroyedConsumerIsADeadOne) {
  put({.kind = "k"});
  {
    auto dead = run(store->join({.queues = {{.name = "default"}}}));
    (void)take(*dead);
  }
  auto c = join();
  const upkeep keeps{rt, *c};
  EXPECT_TRUE(after_takeover([&] { return counts().ready == 1; }));
}

TEST_P(AttemptConformance, ALivingWorkersLeasesDoNotRunOut) {
  put({.kind = "k"});
  auto c = join();
  const taken t = take(*c);
  auto other = join();
  const upkeep keeps{rt, *other};
  const upkeep own{rt, *c};
  pass(120s);
  EXPECT_EQ(counts().active, 1U);
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
}

// Promise 4: two losses make a suspect; losses in company never bury.
TEST_P(AttemptConformance, ACrasherCostsFourWorkersAndItsNeighboursLive) {
  const std::string crasher = put({.kind = "crasher", .keep_result = 1h}).id;
  const auto neighbours = put_many(3);
  for (int worker = 1; worker <= 4; ++worker) {
    auto c = join();
    std::vector<taken> all = take_exactly(*c, 4);
    for (auto& t : all) {
      for (const delivery& d : t.jobs()) {
        EXPECT_EQ(d.suspect, worker > 2) << "after " << worker - 1 << " losses";
        if (d.kind != "crasher") {
          // A real worker hands back what it must not start beside a suspect.
          if (worker > 2) EXPECT_EQ(settle(*c, {.lease = d.lease, .how = verdict::hand_back}), settled::yes);
        } else if (worker > 2) {
          EXPECT_TRUE(run(c->mark(d.lease)));
        }
      }
    }
    EXPECT_EQ(state(crasher), job_state::active);
    lose(std::move(c));
  }
  EXPECT_EQ(state(crasher), job_state::dead);
  EXPECT_EQ(info(crasher).losses, 4U);
  ASSERT_FALSE(info(crasher).errors.empty());
  const job_end end = end_of(crasher);
  EXPECT_EQ(end.state, job_state::dead);
  EXPECT_NE(end.text.find("lost"), std::string::npos) << end.text;
  for (const std::string& id : neighbours) EXPECT_EQ(state(id), job_state::ready);
}

// Promise 4.
TEST_P(AttemptConformance, LossesWithoutTheMarkNeverBury) {
  const std::string id = put({.kind = "k"}).id;
  for (int worker = 0; worker < 7; ++worker) {
    auto c = join();
    EXPECT_EQ(take(*c).at(0).losses, static_cast<std::uint32_t>(worker));
    lose(std::move(c));
    EXPECT_EQ(state(id), job_state::ready);
  }
}

// Promise 4.
TEST_P(AttemptConformance, ACountedFailureClearsTheSuspicion) {
  put({.kind = "k"});
  for (int worker = 0; worker < 3; ++worker) {
    auto c = join();
    const taken t = take(*c);
    if (worker == 2) EXPECT_TRUE(run(c->mark(t.at(0).lease)));
    lose(std::move(c));
  }
  auto c = join();
  const taken suspect = take(*c);
  EXPECT_TRUE(suspect.at(0).suspect);
  EXPECT_TRUE(run(c->mark(suspect.at(0).lease)));
  settle(*c, {.lease = suspect.at(0).lease, .how = verdict::retry, .text = "it can fail by itself"});
  const taken cleared = take(*c);
  EXPECT_FALSE(cleared.at(0).suspect);
  EXPECT_EQ(cleared.at(0).losses, 0U);
  run(c->leave());
}

TEST_P(AttemptConformance, AHandedBackMarkDoesNotCountLater) {
  const std::string id = put({.kind = "k"}).id;
  for (int worker = 0; worker < 4; ++worker) {
    auto c = join();
    const taken t = take(*c);
    EXPECT_TRUE(run(c->mark(t.at(0).lease)));
    EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::hand_back}), settled::yes);
    (void)take(*c);
    lose(std::move(c));
  }
  EXPECT_EQ(state(id), job_state::ready);
}

// Promise 8.
TEST_P(AttemptConformance, CancelOfAnActiveJobIsFinalAndItsOwnerIsTold) {
  const std::string id = put({.kind = "k", .keep_result = 1h}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  const taken t = take(*c);
  auto news = rt.spawn(c->news());
  EXPECT_TRUE(stays_waiting(news));
  EXPECT_EQ(run(store->cancel(id)), job_state::active);
  EXPECT_EQ(state(id), job_state::cancelled);
  const consumer_news told = joined(std::move(news));
  EXPECT_EQ(told.lost, std::vector{t.at(0).lease});
  for (const verdict how : {verdict::complete, verdict::retry, verdict::bury, verdict::hand_back, verdict::cancel}) {
    EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = how}), settled::lost);
  }
  EXPECT_EQ(state(id), job_state::cancelled);
  EXPECT_EQ(end_of(id).state, job_state::cancelled);
  EXPECT_EQ(failure_of(store->cancel(id)), errc::wrong_state);
}

// Promise 8.
TEST_P(AttemptConformance, ACancelledJobIsNotDelivered) {
  const std::string ready = put({.kind = "k"}).id;
  const std::string later = put({.kind = "k", .delay = 1s}).id;
  const std::string retried = put({.kind = "k"}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  const taken first = take(*c);
  const taken second = take(*c);
  settle(*c, {.lease = first.at(0).lease, .how = verdict::hand_back});
  settle(*c, {.lease = second.at(0).lease, .how = verdict::retry, .text = "x", .delay = 1s});
  EXPECT_EQ(run(store->cancel(ready)), job_state::ready);
  EXPECT_EQ(run(store->cancel(later)), job_state::scheduled);
  EXPECT_EQ(run(store->cancel(retried)), job_state::retry);
  clock.advance(10s);
  const std::string last = put({.kind = "k"}).id;
  EXPECT_EQ(public_id(take(*c).at(0)), last);
  EXPECT_EQ(counts().cancelled, 3U);
  EXPECT_EQ(counts().ready, 0U);
}

TEST_P(AttemptConformance, LeaveHandsEverythingBackUncounted) {
  const auto ids = put_many(20);
  auto c = join();
  (void)take_exactly(*c, 10);
  run(c->leave());
  EXPECT_EQ(counts().ready, 20U);
  EXPECT_EQ(counts().active, 0U);
  EXPECT_TRUE(run(store->workers()).empty());
  auto next = join();
  std::vector<std::string> order;
  for (auto& t : take_exactly(*next, 20)) {
    for (const delivery& d : t.jobs()) {
      order.push_back(public_id(d));
      EXPECT_EQ(d.losses, 0U);
    }
  }
  EXPECT_EQ(order, ids) << "the front keeps their order";
  EXPECT_EQ(totals().reclaimed, 0U);
  run(next->leave());
}

TEST_P(AttemptConformance, WhatALeavingWorkerHandsBackWakesAnother) {
  put({.kind = "k"});
  auto c = join();
  (void)take(*c);
  auto other = join();
  taken t;
  auto fetching = rt.spawn(other->fetch(1, t.batch));
  EXPECT_TRUE(stays_waiting(fetching));
  run(c->leave());
  joined(std::move(fetching));
  EXPECT_EQ(t.size(), 1U);
  run(other->leave());
}

TEST_P(AttemptConformance, APausedQueueTakesInAndGivesNothingOut) {
  put_many(2);
  auto c = join({{.name = "default", .weight = 1}, {.name = "other", .weight = 1}});
  run(store->pause("default"));
  EXPECT_TRUE(counts().paused);
  EXPECT_TRUE(put({.kind = "k"}).created);
  taken t;
  auto fetching = rt.spawn(c->fetch(5, t.batch));
  EXPECT_TRUE(stays_waiting(fetching));
  put({.queue = "other", .kind = "k"});
  joined(std::move(fetching));
  EXPECT_EQ(t.size(), 1U) << "other queues go on";
  taken rest;
  auto again = rt.spawn(c->fetch(5, rest.batch));
  EXPECT_TRUE(stays_waiting(again));
  run(store->resume("default"));
  joined(std::move(again));
  EXPECT_GE(rest.size(), 1U) << "resuming wakes who waits";
  EXPECT_FALSE(counts().paused);
  EXPECT_EQ(failure_of(store->pause("nowhere")), errc::not_found);
  EXPECT_EQ(failure_of(store->resume("nowhere")), errc::not_found);
  run(c->leave());
}

TEST_P(AttemptConformance, AJobUnderWayEndsInAPausedQueue) {
  put({.kind = "k"});
  auto c = join();
  const taken t = take(*c);
  run(store->pause("default"));
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
  run(c->leave());
}

TEST_P(AttemptConformance, ProgressIsSeenWhileTheJobRuns) {
  const std::string id = put({.kind = "k"}).id;
  auto c = join();
  const taken t = take(*c);
  EXPECT_FALSE(info(id).progress);
  run(c->report(t.at(0).lease, 0.25, "a quarter"));
  EXPECT_TRUE(eventually([&] { return info(id).progress == 0.25; }));
  EXPECT_EQ(info(id).note, "a quarter");
  run(c->report({.where = 1, .number = 1}, 0.5, "somebody else's"));
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
  EXPECT_FALSE(find(id));
  run(c->leave());
}

TEST_P(AttemptConformance, WorkersAreListedWithWhatTheyHold) {
  put_many(3);
  auto a = join({{.name = "default", .weight = 2}, {.name = "other", .weight = 1}});
  auto b = join();
  EXPECT_NE(a->id(), b->id());
  (void)take_exactly(*a, 3);
  const auto workers = run(store->workers());
  ASSERT_EQ(workers.size(), 2U);
  const worker_info& w = workers[0].id == a->id() ? workers[0] : workers[1];
  EXPECT_EQ(w.id, a->id());
  EXPECT_EQ(w.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_FALSE(w.host.empty());
  EXPECT_EQ(w.concurrency, 8U);
  EXPECT_EQ(w.queues, (std::vector<std::pair<std::string, std::uint32_t>>{{"default", 2}, {"other", 1}}));
  EXPECT_EQ(w.started_at, clock.wall());
  EXPECT_EQ(w.leased, 3U);
  ASSERT_EQ(w.running.size(), 3U);
  EXPECT_EQ(w.running[0].kind, "k");
  EXPECT_EQ(w.running[0].queue, "default");
  run(a->leave());
  run(b->leave());
  EXPECT_TRUE(run(store->workers()).empty());
}

}  // namespace
}  // namespace ergon::conformance
