// Time: delays, due times, steps of the calendar, suspends, what is kept for how long.
#include "conformance/scene.hpp"

namespace ergon::conformance {
namespace {

class TimeConformance : public Scene {};
ERGON_ON_EVERY_STORE(TimeConformance);

TEST_P(TimeConformance, ADelayedJobIsReadyWhenItsTimeHasCome) {
  const std::string id = put({.kind = "k", .delay = 5min}).id;
  EXPECT_EQ(state(id), job_state::scheduled);
  EXPECT_EQ(info(id).due, clock.wall() + 5min);
  EXPECT_EQ(counts().scheduled, 1U);
  auto c = join();
  const upkeep keeps{rt, *c};
  clock.advance(5min - 1s);
  (void)run(store->queues());
  EXPECT_EQ(state(id), job_state::scheduled);
  clock.advance(1s);
  EXPECT_EQ(public_id(take(*c).at(0)), id) << "a waiting fetch is woken by the promotion";
}

TEST_P(TimeConformance, ADueTimeInThePastIsNow) {
  const std::string id = put({.kind = "k", .due = clock.wall() - 1h}).id;
  EXPECT_EQ(state(id), job_state::ready);
  EXPECT_EQ(state(put({.kind = "k", .delay = 0ns}).id), job_state::ready);
}

TEST_P(TimeConformance, AllThatIsDueIsPromotedInOrder) {
  constexpr std::size_t total = 2500;
  std::vector<new_job> jobs;
  std::vector<std::string> payloads;
  for (std::size_t i = 0; i < total; ++i) payloads.push_back(std::to_string(i));
  for (std::size_t i = 0; i < total; ++i)
    jobs.push_back({.kind = "k", .payload = payloads[i], .delay = 1min + std::chrono::seconds{i % 5}});
  put_all(jobs);
  auto c = join();
  const upkeep keeps{rt, *c};
  clock.advance(1min + 2s);
  EXPECT_TRUE(eventually([&] { return counts().ready == 1500; })) << counts().ready;
  clock.advance(1h);
  EXPECT_TRUE(eventually([&] { return counts().ready == total; }));
  std::size_t last = 0;
  for (auto& t : take_exactly(*c, total)) {
    for (const delivery& d : t.jobs()) {
      const std::size_t second = std::stoul(std::string{d.payload}) % 5;
      EXPECT_GE(second, last);
      last = second;
    }
  }
}

TEST_P(TimeConformance, AnEarlierJobWakesAMaintainerThatSleepsForALaterOne) {
  put({.kind = "k", .payload = "late", .delay = 1h});
  auto c = join();
  const upkeep keeps{rt, *c};
  (void)run(store->queues());
  put({.kind = "k", .payload = "soon", .delay = 1s});
  clock.advance(1s);
  EXPECT_EQ(take(*c).at(0).payload, "soon");
}

// Only what was put in for a time of the calendar goes by the calendar. A store on a server of its own goes by that server's calendar alone,
// which nobody of the process can set.
TEST_P(TimeConformance, AStepForwardOfTheCalendarMovesDueTimesAndNothingElse) {
  if (is("redis")) GTEST_SKIP() << "the calendar is the server's";
  const std::string at = put({.kind = "k", .due = clock.wall() + 30min}).id;
  const std::string in = put({.kind = "k", .delay = 30min}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  const std::string failed = put({.kind = "k", .payload = "failed"}).id;
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x", .delay = 30min});
  clock.set_wall(clock.wall() + 1h);
  EXPECT_TRUE(eventually([&] { return state(at) == job_state::ready; }));
  EXPECT_EQ(state(in), job_state::scheduled);
  EXPECT_EQ(state(failed), job_state::retry);
  clock.advance(30min);
  EXPECT_TRUE(eventually([&] { return state(in) == job_state::ready && state(failed) == job_state::ready; }));
}

TEST_P(TimeConformance, AStepBackOfTheCalendarMovesDueTimesAndNothingElse) {
  if (is("redis")) GTEST_SKIP() << "the calendar is the server's";
  const std::string at = put({.kind = "k", .due = clock.wall() + 30min}).id;
  const std::string in = put({.kind = "k", .delay = 30min}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  clock.set_wall(clock.wall() - 1h);
  clock.advance(30min);
  EXPECT_TRUE(eventually([&] { return state(in) == job_state::ready; }));
  EXPECT_EQ(state(at), job_state::scheduled);
  clock.advance(1h - 1s);
  (void)run(store->queues());
  EXPECT_EQ(state(at), job_state::scheduled);
  clock.advance(1s);
  EXPECT_TRUE(eventually([&] { return state(at) == job_state::ready; }));
}

TEST_P(TimeConformance, LeasesDoNotGoByTheCalendar) {
  put({.kind = "k"});
  auto c = join();
  auto other = join();
  const upkeep own{rt, *c};
  const upkeep keeps{rt, *other};
  const taken t = take(*c);
  for (const auto step : {1h, -2h, 1h}) {
    clock.set_wall(clock.wall() + step);
    for (int i = 0; i < 20; ++i) (void)run(store->queues());
    EXPECT_EQ(counts().active, 1U);
  }
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
}

TEST_P(TimeConformance, SuspendedTimeCountsForDelays) {
  const std::string in = put({.kind = "k", .delay = 30min}).id;
  const std::string at = put({.kind = "k", .due = clock.wall() + 30min}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  clock.suspend(30min);
  EXPECT_TRUE(eventually([&] { return state(in) == job_state::ready && state(at) == job_state::ready; }));
}

TEST_P(TimeConformance, ACompletedJobIsVisibleForItsRetention) {
  const std::string id = put({.kind = "k", .retention = 1h}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  complete(*c, take(*c).at(0), "the result");
  EXPECT_EQ(state(id), job_state::completed);
  EXPECT_EQ(counts().completed, 1U);
  EXPECT_EQ(info(id).ended_at, clock.wall());
  clock.advance(59min);
  (void)run(store->queues());
  EXPECT_EQ(state(id), job_state::completed);
  clock.set_wall(clock.wall() + 2h);
  (void)run(store->queues());
  EXPECT_EQ(state(id), job_state::completed) << "the calendar does not matter";
  clock.advance(2min);
  EXPECT_TRUE(eventually([&] { return !find(id); }));
  EXPECT_TRUE(eventually([&] { return counts().completed == 0; }));
}

// Promise 4: what is kept goes in the end.
TEST_P(TimeConformance, DeadAndCancelledJobsAreForgottenInTheEnd) {
  const std::string dead = put({.kind = "k", .max_retries = 0}).id;
  auto c = join();
  const upkeep keeps{rt, *c};
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x"});
  const std::string cancelled = put({.kind = "k"}).id;
  run(store->cancel(cancelled));
  clock.advance(25h);
  EXPECT_TRUE(eventually([&] { return !find(cancelled); }));
  EXPECT_EQ(state(dead), job_state::dead);
  clock.advance(std::chrono::days{90});
  EXPECT_TRUE(eventually([&] { return !find(dead); }));
  // A store may hide what has expired before its upkeep takes it out.
  EXPECT_TRUE(eventually([&] { return counts().dead == 0 && counts().cancelled == 0; }));
}

TEST_P(TimeConformance, StatisticsAreByTheHour) {
  put_many(3);
  auto c = join();
  for (auto& t : take_exactly(*c, 2)) {
    for (const delivery& d : t.jobs()) complete(*c, d);
  }
  clock.advance(3h);
  put_many(1);
  const auto hours = run(store->stats("default", 24));
  ASSERT_EQ(hours.size(), 2U) << "hours in which nothing happened are left out";
  EXPECT_EQ(hours[0].hour, std::chrono::floor<std::chrono::hours>(clock.wall() - 3h));
  EXPECT_EQ(hours[0].enqueued, 3U);
  EXPECT_EQ(hours[0].completed, 2U);
  EXPECT_EQ(hours[1].enqueued, 1U);
  EXPECT_EQ(run(store->stats("default", 2)).size(), 1U);
  EXPECT_TRUE(run(store->stats("nowhere", 24)).empty());
  EXPECT_EQ(failure_of(store->stats("default", 0)), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->stats("default", 2161)), errc::invalid_argument);
  run(c->leave());
}

TEST_P(TimeConformance, LatencyIsTheAgeOfTheOldestReadyJob) {
  EXPECT_FALSE(counts().latency);
  put_many(1);
  clock.advance(90s);
  put_many(1);
  EXPECT_EQ(counts().latency, 90s);
  auto c = join();
  (void)take_exactly(*c, 2);
  EXPECT_FALSE(counts().latency);
  run(c->leave());
}

}  // namespace
}  // namespace ergon::conformance
