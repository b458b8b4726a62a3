// Looking at jobs and acting on them: find, list, wait, run, remove, queues.
#include <algorithm>
#include <set>

#include "conformance/scene.hpp"

namespace ergon::conformance {
namespace {

class InspectConformance : public Scene {};
ERGON_ON_EVERY_STORE(InspectConformance);

TEST_P(InspectConformance, FindsByPublicIdAndByOwnId) {
  const std::string plain = put({.kind = "plain"}).id;
  const std::string own = put({.queue = "images", .kind = "own", .id = "user@example.com"}).id;
  EXPECT_EQ(info(plain).kind, "plain");
  EXPECT_EQ(info(own).kind, "own") << "a public id needs no queue";
  EXPECT_EQ(info("user@example.com", "images").id, own);
  EXPECT_FALSE(find("user@example.com"));
  for (const std::string bad : {"", "nothing", "zzzzzzzzzzzzz", "0000000000000", "a@0000000000001", "\xff\xfe", "%00"})
    EXPECT_FALSE(find(bad)) << bad;
  EXPECT_FALSE(find(plain + "x"));
}

TEST_P(InspectConformance, AnOwnIdMeansTheYoungestLife) {
  auto c = join();
  const std::string first = put({.kind = "k", .payload = "1", .id = "a"}).id;
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::bury, .text = "x"});
  const std::string second = put({.kind = "k", .payload = "2", .id = "a"}).id;
  EXPECT_NE(first, second);
  EXPECT_EQ(info("a").payload, "2");
  EXPECT_EQ(info(first).payload, "1");
  EXPECT_EQ(info(first).state, job_state::dead);
  EXPECT_EQ(info(second).state, job_state::ready);
  run(c->leave());
}

TEST_P(InspectConformance, AnOwnIdThatLooksLikeASerialNumberIsStillItself) {
  const std::string plain = put({.kind = "plain"}).id;
  const std::string own = put({.kind = "own", .id = plain}).id;
  EXPECT_EQ(info(plain).kind, "own") << "the own id goes first";
  EXPECT_EQ(info(own).kind, "own");
}

TEST_P(InspectConformance, ListsInPagesWithFilters) {
  constexpr std::size_t total = 2500;
  std::vector<new_job> jobs;
  for (std::size_t i = 0; i < total; ++i) {
    jobs.push_back({.queue = i % 2 == 0 ? "even" : "odd",
                    .kind = i % 5 == 0 ? "fifth" : "k",
                    .delay = i % 10 == 0 ? std::optional<std::chrono::nanoseconds>{1h} : std::nullopt});
  }
  std::set<std::string> all;
  for (auto& e : put_all(jobs)) all.insert(std::move(e.id));
  const auto listed = [&](const job_filter& filter, std::size_t limit) {
    std::set<std::string> ids;
    std::string cursor;
    for (int pages = 0; pages < 10'000; ++pages) {
      const job_page page = run(store->list(filter, cursor, limit));
      EXPECT_LE(page.jobs.size(), limit);
      for (const job_info& job : page.jobs) {
        EXPECT_TRUE(ids.insert(job.id).second) << "listed twice: " << job.id;
        if (!filter.queue.empty()) EXPECT_EQ(job.queue, filter.queue);
        if (!filter.kind.empty()) EXPECT_EQ(job.kind, filter.kind);
        if (filter.state) EXPECT_EQ(job.state, *filter.state);
      }
      cursor = page.next;
      if (cursor.empty()) return ids;
    }
    ADD_FAILURE() << "the listing has no end";
    return ids;
  };
  EXPECT_EQ(listed({}, 100), all);
  EXPECT_EQ(listed({}, 1000), all);
  EXPECT_EQ(listed({.queue = "even"}, 333).size(), 1250U);
  EXPECT_EQ(listed({.kind = "fifth"}, 100).size(), 500U);
  EXPECT_EQ(listed({.state = job_state::scheduled}, 7).size(), 250U);
  EXPECT_EQ(listed({.queue = "odd", .state = job_state::scheduled}, 100).size(), 0U);
  EXPECT_EQ(listed({.queue = "even", .state = job_state::ready, .kind = "fifth"}, 100).size(), 0U);
  EXPECT_EQ(listed({.queue = "odd", .state = job_state::ready, .kind = "fifth"}, 100).size(), 250U);
  EXPECT_EQ(listed({.queue = "nowhere"}, 100).size(), 0U);
  EXPECT_EQ(failure_of(store->list({}, {}, 0)), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->list({}, {}, 1001)), errc::invalid_argument);
  EXPECT_EQ(failure_of(store->list({}, "no cursor", 10)), errc::invalid_argument);
}

TEST_P(InspectConformance, APageStaysTrueWhileJobsComeAndGo) {
  auto ids = put_many(100);
  const job_page first = run(store->list({}, {}, 40));
  ASSERT_EQ(first.jobs.size(), 40U);
  std::set<std::string> seen;
  for (const job_info& job : first.jobs) {
    seen.insert(job.id);
    run(store->remove(job.id));
  }
  put_many(10);
  std::string cursor = first.next;
  while (!cursor.empty()) {
    const job_page page = run(store->list({}, cursor, 40));
    for (const job_info& job : page.jobs) EXPECT_TRUE(seen.insert(job.id).second);
    cursor = page.next;
  }
  for (const std::string& id : ids) EXPECT_TRUE(seen.contains(id)) << "a job that was there all the time is listed";
}

TEST_P(InspectConformance, ListsEveryState) {
  auto c = join();
  put({.kind = "dead", .max_retries = 0});
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x"});
  put({.kind = "completed", .retention = 1h});
  complete(*c, take(*c).at(0));
  run(store->cancel(put({.kind = "cancelled"}).id));
  put({.kind = "discarded"});
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::discard, .text = "x"});
  put({.kind = "retry"});
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x", .delay = 1h});
  put({.kind = "active"});
  (void)take(*c);
  put({.kind = "scheduled", .delay = 1h});
  put({.kind = "ready"});
  for (const job_state s : {job_state::ready, job_state::scheduled, job_state::retry, job_state::active, job_state::completed,
                            job_state::dead, job_state::cancelled, job_state::discarded}) {
    std::vector<std::string> kinds;
    std::string cursor;
    do {
      job_page page = run(store->list({.state = s}, cursor, 100));
      for (const job_info& job : page.jobs) kinds.push_back(job.kind);
      cursor = page.next;
    } while (!cursor.empty());
    EXPECT_EQ(kinds, std::vector<std::string>{std::string{to_string(s)}});
  }
  const queue_info q = counts();
  EXPECT_EQ(q.ready + q.scheduled + q.retry + q.active + q.completed + q.dead + q.cancelled + q.discarded, 8U);
  run(c->leave());
}

TEST_P(InspectConformance, WaitsForTheResult) {
  const std::string id = put({.kind = "k", .keep_result = 1h}).id;
  auto waiting = rt.spawn(store->wait(id));
  EXPECT_TRUE(stays_waiting(waiting));
  auto c = join();
  complete(*c, take(*c).at(0), "{\"ok\":true}");
  const job_end end = joined(std::move(waiting));
  EXPECT_EQ(end.state, job_state::completed);
  EXPECT_EQ(end.text, "{\"ok\":true}");
  EXPECT_EQ(end_of(id).text, "{\"ok\":true}") << "and again, after the end";
  EXPECT_EQ(info(id).result, "{\"ok\":true}");
  run(c->leave());
}

TEST_P(InspectConformance, ManyMayWaitAndOneMayGiveUp) {
  const std::string id = put({.kind = "k", .keep_result = 1h}).id;
  auto one = rt.spawn(store->wait(id));
  auto gives_up = rt.spawn(store->wait(id));
  auto three = rt.spawn(store->wait(id));
  EXPECT_TRUE(stays_waiting(gives_up));
  cancel(std::move(gives_up));
  auto c = join();
  complete(*c, take(*c).at(0), "r");
  EXPECT_EQ(joined(std::move(one)).text, "r");
  EXPECT_EQ(joined(std::move(three)).text, "r");
  run(c->leave());
}

TEST_P(InspectConformance, WaitsForAnErrorThroughRetries) {
  const std::string id = put({.kind = "k", .max_retries = 1, .keep_result = 1h}).id;
  auto waiting = rt.spawn(store->wait(id));
  auto c = join();
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "first"});
  EXPECT_TRUE(stays_waiting(waiting));
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "second"});
  const job_end end = joined(std::move(waiting));
  EXPECT_EQ(end.state, job_state::dead);
  EXPECT_EQ(end.text, "second");
  run(c->leave());
}

TEST_P(InspectConformance, WaitEndsWithACancelAndWithARemoval) {
  const std::string cancelled = put({.kind = "k", .keep_result = 1h}).id;
  const std::string removed = put({.kind = "k", .keep_result = 1h}).id;
  auto one = rt.spawn(store->wait(cancelled));
  auto two = rt.spawn(store->wait(removed));
  EXPECT_TRUE(stays_waiting(two));
  run(store->cancel(cancelled));
  run(store->remove(removed));
  EXPECT_EQ(joined(std::move(one)).state, job_state::cancelled);
  // A removed job leaves nothing behind: who waits in another process can only learn that it is not there.
  try {
    EXPECT_EQ(joined(std::move(two)).state, job_state::discarded);
  } catch (const error& gone) {
    EXPECT_EQ(gone.reason(), errc::not_found) << gone.what();
  }
}

TEST_P(InspectConformance, WaitSaysWhyItCannot) {
  const std::string none = put({.kind = "k"}).id;
  EXPECT_EQ(failure_of(store->wait(none)), errc::no_result);
  EXPECT_EQ(failure_of(store->wait("never was")), errc::not_found);
  EXPECT_EQ(failure_of(store->wait("0000000000001")), errc::not_found);
  auto c = join();
  const upkeep keeps{rt, *c};
  complete(*c, take(*c).at(0));
  EXPECT_EQ(failure_of(store->wait(none)), errc::not_found) << "a plain completed job is forgotten";
  const std::string kept = put({.kind = "k", .retention = 3h, .keep_result = 1h}).id;
  complete(*c, take(*c).at(0), "r");
  clock.advance(59min);
  EXPECT_EQ(end_of(kept).text, "r");
  clock.advance(2min);
  EXPECT_EQ(failure_of(store->wait(kept)), errc::not_found) << "its result was kept long enough";
  EXPECT_EQ(state(kept), job_state::completed) << "and the job is still visible";
}

TEST_P(InspectConformance, RunMakesAParkedJobReadyNow) {
  const std::string scheduled = put({.kind = "k", .delay = 1h}).id;
  const std::string due = put({.kind = "k", .due = clock.wall() + 1h}).id;
  EXPECT_EQ(run(store->run(scheduled)), scheduled);
  EXPECT_EQ(run(store->run(due)), due);
  EXPECT_EQ(counts().ready, 2U);
  auto c = join();
  taken t = take(*c);
  settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = "x", .delay = 1h});
  EXPECT_EQ(run(store->run(scheduled)), scheduled);
  EXPECT_EQ(info(scheduled).state, job_state::ready);
  EXPECT_EQ(info(scheduled).failures, 0U) << "with a full budget";
  EXPECT_EQ(failure_of(store->run(scheduled)), errc::wrong_state);
  EXPECT_EQ(failure_of(store->run("nothing")), errc::not_found);
  run(c->leave());
}

TEST_P(InspectConformance, RunGivesADeadJobANewLifeWithAFullBudget) {
  const std::string first =
      put({.kind = "k", .payload = "p", .id = "a", .max_retries = 1, .unique_key = "u", .unique_for = 24h}).id;
  auto c = join();
  for (int i = 0; i < 2; ++i) settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x"});
  EXPECT_EQ(state(first), job_state::dead);
  const std::string second = run(store->run(first));
  EXPECT_NE(second, first);
  EXPECT_EQ(counts().dead, 0U);
  EXPECT_EQ(info("a").id, second);
  EXPECT_FALSE(put({.kind = "k", .id = "a"}).created);
  EXPECT_FALSE(put({.kind = "k", .unique_key = "u", .unique_for = 1h}).created) << "the new life holds the key again";
  taken t = take(*c);
  EXPECT_EQ(t.at(0).payload, "p");
  EXPECT_EQ(t.at(0).failures, 0U);
  EXPECT_EQ(public_id(t.at(0)), second);
  EXPECT_EQ(failure_of(store->run(second)), errc::wrong_state) << "active";
  EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = "x"}), settled::yes);
  EXPECT_EQ(settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::retry, .text = "x"}), settled::buried);
  run(c->leave());
}

TEST_P(InspectConformance, RunTakesCompletedAndCancelledJobsAndNoDiscardedOnes) {
  auto c = join();
  const std::string completed = put({.kind = "k", .retention = 1h}).id;
  complete(*c, take(*c).at(0));
  const std::string cancelled = put({.kind = "k"}).id;
  run(store->cancel(cancelled));
  const std::string discarded = put({.kind = "k"}).id;
  settle(*c, {.lease = take(*c).at(0).lease, .how = verdict::discard, .text = "x"});
  EXPECT_EQ(state(run(store->run(completed))), job_state::ready);
  EXPECT_EQ(state(run(store->run(cancelled))), job_state::ready);
  EXPECT_EQ(failure_of(store->run(discarded)), errc::wrong_state);
  EXPECT_EQ(counts().ready, 2U);
  run(c->leave());
}

TEST_P(InspectConformance, RunIsRefusedWhileAnotherLiveJobHoldsTheIdOrTheKey) {
  const std::string by_id = put({.kind = "k", .id = "a"}).id;
  const std::string by_key = put({.kind = "k", .unique_key = "u", .unique_for = 1h}).id;
  run(store->cancel(by_id));
  run(store->cancel(by_key));
  put({.kind = "k", .id = "a"});
  put({.kind = "k", .unique_key = "u", .unique_for = 1h});
  EXPECT_EQ(failure_of(store->run(by_id)), errc::wrong_state);
  EXPECT_EQ(failure_of(store->run(by_key)), errc::wrong_state);
  EXPECT_EQ(counts().cancelled, 2U);
}

TEST_P(InspectConformance, RunWakesAWaitingFetch) {
  const std::string id = put({.kind = "k", .delay = 1h}).id;
  auto c = join();
  taken t;
  auto fetching = rt.spawn(c->fetch(1, t.batch));
  EXPECT_TRUE(stays_waiting(fetching));
  run(store->run(id));
  joined(std::move(fetching));
  EXPECT_EQ(t.size(), 1U);
  run(c->leave());
}

TEST_P(InspectConformance, RemoveForgetsWhatIsNotActive) {
  auto c = join();
  const std::string active = put({.kind = "k"}).id;
  const taken t = take(*c);
  EXPECT_EQ(failure_of(store->remove(active)), errc::wrong_state);
  const std::string ready = put({.kind = "k"}).id;
  const std::string scheduled = put({.kind = "k", .delay = 1h}).id;
  const std::string dead = put({.queue = "other", .kind = "k"}).id;
  auto d = join({{.name = "other", .weight = 1}});
  settle(*d, {.lease = take(*d).at(0).lease, .how = verdict::bury, .text = "x"});
  for (const std::string& id : {ready, scheduled, dead}) {
    run(store->remove(id));
    EXPECT_FALSE(find(id));
    EXPECT_EQ(failure_of(store->remove(id)), errc::not_found);
  }
  EXPECT_EQ(counts().discarded, 0U);
  EXPECT_EQ(totals().discarded, 2U) << "a live job counts as discarded";
  EXPECT_EQ(totals("other").discarded, 0U);
  EXPECT_EQ(counts("other").dead, 0U);
  EXPECT_EQ(complete(*c, t.at(0)), settled::yes);
  run(c->leave());
  run(d->leave());
}

TEST_P(InspectConformance, OperationsSayWhenThereIsNoSuchJob) {
  EXPECT_EQ(failure_of(store->cancel("nothing")), errc::not_found);
  EXPECT_EQ(failure_of(store->remove("nothing")), errc::not_found);
  EXPECT_EQ(failure_of(store->run("nothing")), errc::not_found);
  const std::string id = put({.queue = "images", .kind = "k", .id = "a"}).id;
  EXPECT_EQ(failure_of(store->cancel("a")), errc::not_found) << "own ids are a queue's own";
  EXPECT_EQ(run(store->cancel("a", "images")), job_state::ready);
}

TEST_P(InspectConformance, JoiningMakesItsQueues) {
  auto c = join({{.name = "fresh", .weight = 1}});
  EXPECT_EQ(counts("fresh").name, "fresh");
  run(store->pause("fresh"));
  EXPECT_TRUE(counts("fresh").paused);
  run(c->leave());
}

}  // namespace
}  // namespace ergon::conformance
