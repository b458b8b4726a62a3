// Putting jobs in: ids, unique keys, batches, limits.
#include <algorithm>

#include "conformance/scene.hpp"

namespace ergon::conformance {
namespace {

class EnqueueConformance : public Scene {};
ERGON_ON_EVERY_STORE(EnqueueConformance);

TEST_P(EnqueueConformance, ADeliveryIsWhatWasPutIn) {
  const header headers[] = {{.name = "tenant", .value = "blue"}, {.name = "bytes", .value = std::string_view{"\0\xff", 2}}};
  const std::string payload{"\0 {\"path\":1} \xff", 15};
  const wall_time deadline = clock.wall() + 24h;
  const enqueued e = put({.queue = "images",
                          .kind = "resize/v2",
                          .payload = payload,
                          .id = "名前 42@%",
                          .max_retries = 7,
                          .timeout = 90s,
                          .deadline = deadline,
                          .unique_key = "a key",
                          .unique_for = 1h,
                          .retention = 2h,
                          .keep_result = 3h,
                          .headers = headers});
  EXPECT_TRUE(e.created);
  auto c = join({{.name = "images", .weight = 1}});
  const taken t = take(*c);
  const delivery& d = t.at(0);
  EXPECT_EQ(d.fit, record_fit::readable);
  EXPECT_FALSE(d.suspect);
  EXPECT_EQ(d.queue, "images");
  EXPECT_EQ(d.kind, "resize/v2");
  EXPECT_EQ(d.payload, payload);
  EXPECT_EQ(d.failures, 0U);
  EXPECT_EQ(d.losses, 0U);
  EXPECT_EQ(d.max_retries, 7U);
  EXPECT_EQ(d.timeout, 90s);
  EXPECT_EQ(d.deadline, deadline);
  EXPECT_EQ(d.enqueued_at, clock.wall());
  EXPECT_TRUE(d.keeps_result);
  EXPECT_EQ(d.custom_id, "名前 42@%");
  EXPECT_EQ(public_id(d), e.id);
  const auto told = headers_of(d);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], headers[0]);
  EXPECT_EQ(told[1], headers[1]);
  run(c->leave());
}

TEST_P(EnqueueConformance, PlainJobsComeOutInTheOrderInWhichTheyWentIn) {
  const auto ids = put_many(250);
  EXPECT_TRUE(std::ranges::is_sorted(ids)) << "public ids sort by age";
  auto c = join();
  std::size_t i = 0;
  for (auto& t : take_exactly(*c, 250)) {
    for (const delivery& d : t.jobs()) {
      EXPECT_EQ(d.payload, std::to_string(i));
      EXPECT_EQ(public_id(d), ids[i++]);
    }
  }
  run(c->leave());
}

TEST_P(EnqueueConformance, AnEmptyBatchIsNoError) { run(store->enqueue({}, {})); }

TEST_P(EnqueueConformance, ALiveIdIsNotPutInTwice) {
  const enqueued first = put({.kind = "k", .payload = "1", .id = "order-42"});
  const enqueued second = put({.kind = "k", .payload = "2", .id = "order-42"});
  EXPECT_TRUE(first.created);
  EXPECT_FALSE(second.created);
  EXPECT_EQ(second.id, first.id) << "the id is the holder's";
  EXPECT_EQ(counts().ready, 1U);
  EXPECT_EQ(info("order-42").payload, "1");
  EXPECT_TRUE(put({.queue = "other", .kind = "k", .id = "order-42"}).created) << "ids are unique within a queue";
}

TEST_P(EnqueueConformance, AnIdIsTakenInEveryLiveState) {
  const std::string id = put({.kind = "k", .id = "a", .delay = 1h}).id;
  const auto again = [&] { return put({.kind = "k", .id = "a"}); };
  EXPECT_FALSE(again().created) << "scheduled";
  EXPECT_EQ(run(store->run(id)), id);
  EXPECT_FALSE(again().created) << "ready";
  auto c = join();
  const taken t = take(*c);
  EXPECT_FALSE(again().created) << "active";
  EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = verdict::retry, .text = "no", .delay = 1h}), settled::yes);
  EXPECT_EQ(again().id, id) << "retry";
  EXPECT_FALSE(again().created);
  run(c->leave());
}

// Each terminal state, reached by a delivered job.
TEST_P(EnqueueConformance, ATerminalStateNeverBlocksANewRunOfTheSameIdAndReleasesTheKey) {
  auto c = join();
  const auto start = [&] {
    const enqueued e = put({.kind = "k", .id = "a", .max_retries = 0, .unique_key = "u", .unique_for = 24h, .retention = 1h});
    EXPECT_TRUE(e.created);
    EXPECT_FALSE(put({.kind = "k", .unique_key = "u", .unique_for = 24h}).created);
    return e.id;
  };
  std::vector<std::string> lives;
  for (const verdict how : {verdict::complete, verdict::retry, verdict::bury, verdict::discard, verdict::cancel}) {
    lives.push_back(start());
    const taken t = take(*c);
    EXPECT_EQ(settle(*c, {.lease = t.at(0).lease, .how = how, .text = "x"}),
              how == verdict::retry ? settled::buried : settled::yes);
  }
  lives.push_back(start());
  EXPECT_EQ(run(store->cancel(lives.back())), job_state::ready);
  lives.push_back(start());
  run(store->remove(lives.back()));
  lives.push_back(start());
  std::ranges::sort(lives);
  EXPECT_EQ(std::ranges::unique(lives).size(), 0U) << "every life has an id of its own";
  run(c->leave());
}

TEST_P(EnqueueConformance, ADeadlineReleasesIdAndKey) {
  put({.kind = "k", .id = "a", .deadline = clock.wall() + 1s, .unique_key = "u", .unique_for = 24h});
  put({.kind = "k"});
  clock.advance(2s);
  auto c = join();
  (void)take(*c);
  EXPECT_TRUE(put({.kind = "k", .id = "a", .unique_key = "u", .unique_for = 24h}).created);
  run(c->leave());
}

TEST_P(EnqueueConformance, AUniqueKeyLetsOneLiveJobIn) {
  const enqueued first = put({.kind = "k", .unique_key = "u", .unique_for = 1h});
  const enqueued second = put({.kind = "other", .unique_key = "u", .unique_for = 1h});
  EXPECT_FALSE(second.created);
  EXPECT_EQ(second.id, first.id);
  EXPECT_TRUE(put({.queue = "other", .kind = "k", .unique_key = "u", .unique_for = 1h}).created) << "keys are a queue's own";
  EXPECT_TRUE(put({.kind = "k", .unique_key = "v", .unique_for = 1h}).created);
}

TEST_P(EnqueueConformance, AUniqueLockEndsWithItsTime) {
  const enqueued first = put({.kind = "k", .unique_key = "u", .unique_for = 1h});
  clock.advance(1h - 1s);
  EXPECT_FALSE(put({.kind = "k", .unique_key = "u", .unique_for = 1h}).created);
  clock.advance(2s);
  const enqueued second = put({.kind = "k", .unique_key = "u", .unique_for = 1h});
  EXPECT_TRUE(second.created);
  // The former holder's end must not release what is the second's by now.
  EXPECT_EQ(run(store->cancel(first.id)), job_state::ready);
  const enqueued third = put({.kind = "k", .unique_key = "u", .unique_for = 1h});
  EXPECT_FALSE(third.created);
  EXPECT_EQ(third.id, second.id);
}

TEST_P(EnqueueConformance, AUniqueLockDoesNotGoByTheCalendar) {
  put({.kind = "k", .unique_key = "u", .unique_for = 30min});
  clock.set_wall(clock.wall() + 1h);
  EXPECT_FALSE(put({.kind = "k", .unique_key = "u", .unique_for = 30min}).created);
  clock.set_wall(clock.wall() - 2h);
  clock.suspend(31min);
  EXPECT_TRUE(put({.kind = "k", .unique_key = "u", .unique_for = 30min}).created) << "suspended time counts";
}

TEST_P(EnqueueConformance, DuplicatesWithinABatchAreSeen) {
  const new_job jobs[] = {{.kind = "k", .payload = "0", .id = "a"},
                          {.kind = "k", .payload = "1", .unique_key = "u", .unique_for = 1h},
                          {.kind = "k", .payload = "2", .id = "a"},
                          {.kind = "k", .payload = "3", .unique_key = "u", .unique_for = 1h},
                          {.kind = "k", .payload = "4", .id = "b", .unique_key = "u", .unique_for = 1h},
                          {.queue = "other", .kind = "k", .payload = "5", .id = "a"}};
  const auto out = put_all(jobs);
  EXPECT_TRUE(out[0].created);
  EXPECT_TRUE(out[1].created);
  EXPECT_FALSE(out[2].created);
  EXPECT_EQ(out[2].id, out[0].id);
  EXPECT_FALSE(out[3].created);
  EXPECT_EQ(out[3].id, out[1].id);
  EXPECT_FALSE(out[4].created);
  EXPECT_EQ(out[4].id, out[1].id);
  EXPECT_TRUE(out[5].created);
  EXPECT_EQ(counts().ready, 2U);
  EXPECT_TRUE(put({.kind = "k", .id = "b"}).created) << "a job that was not put in takes no id";
}

// Promise 9.
TEST_P(EnqueueConformance, ABatchWithABadJobStoresNothingAndNamesIt) {
  const new_job jobs[] = {{.kind = "k", .id = "a", .unique_key = "u", .unique_for = 1h}, {.kind = "k"}, {.kind = "bad kind"}};
  std::vector<enqueued> out(3);
  EXPECT_EQ(failure_of(store->enqueue(jobs, out)), errc::invalid_argument);
  EXPECT_NE(last_error.find("2"), std::string::npos) << last_error;
  EXPECT_EQ(counts().ready, 0U);
  EXPECT_TRUE(put({.kind = "k", .id = "a", .unique_key = "u", .unique_for = 1h}).created);
}

// Promise 9.
TEST_P(EnqueueConformance, RefusesOddBytesAndAbsurdSpans) {
  EXPECT_EQ(refusal({.queue = "", .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.queue = "a b", .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.queue = std::string_view{"a\0b", 3}, .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.queue = "q\xff", .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.queue = "'; drop table job; --", .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.queue = std::string(129, 'q'), .kind = "k"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = ""}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .id = "a\nb"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .id = std::string(257, 'i')}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .delay = -1ns}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .delay = std::chrono::years{11}}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .delay = 1s, .due = clock.wall()}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .timeout = -1ms}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .retention = std::chrono::milliseconds::max()}), errc::invalid_argument);
  EXPECT_EQ(counts().ready, 0U);
}

TEST_P(EnqueueConformance, NamesMayHoldAllTheBytesThatTheyMay) {
  const std::string queue = "Az09-_.:/" + std::string(119, 'q');
  put({.queue = queue, .kind = "a/b:c.d-e_f"});
  auto c = join({{.name = queue, .weight = 1}});
  EXPECT_EQ(take(*c).at(0).queue, queue);
  run(c->leave());
}

TEST_P(EnqueueConformance, CarriesPayloadsOfTenMegabytes) {
  std::string large(10'000'000, 'x');
  for (std::size_t i = 0; i < large.size(); i += 997) large[i] = static_cast<char>(i);
  put({.kind = "k", .payload = large});
  put({.kind = "k", .payload = large});
  put({.kind = "k", .payload = "small"});
  auto c = join();
  const taken first = take(*c, 10);
  EXPECT_LT(first.size(), 3U) << "a fetch stops at about a megabyte";
  EXPECT_EQ(first.at(0).payload, large);
  for (const auto& t : take_exactly(*c, 3 - first.size())) EXPECT_NE(t.size(), 0U);
  run(c->leave());
}

// Promise 9.
TEST_P(EnqueueConformance, RefusesAPayloadPastTheLimit) {
  open("max_payload=1000");
  EXPECT_EQ(store->max_payload(), 1000U);
  EXPECT_EQ(refusal({.kind = "k", .payload = std::string(1001, 'x')}), errc::too_large);
  EXPECT_EQ(refusal({.kind = "k", .payload = std::string(1000, 'x')}), std::nullopt);
  const std::string value(1000, 'v');
  const header h{.name = "h", .value = value};
  EXPECT_EQ(refusal({.kind = "k", .headers = {&h, 1}}), errc::too_large);
  EXPECT_EQ(counts().ready, 1U);
}

TEST_P(EnqueueConformance, ADeliveredPayloadOutlivesLaterFetches) {
  put_many(200);
  auto c = join();
  taken first = take(*c, 100);
  taken second = take(*c, 100);
  EXPECT_EQ(first.at(0).payload, "0");
  EXPECT_EQ(second.at(0).payload, std::to_string(first.size()));
  run(c->leave());
}

TEST_P(EnqueueConformance, AnotherHandleToTheStoreSeesItsJobs) {
  const std::string id = put({.kind = "k"}).id;
  auto other = another_handle();
  EXPECT_TRUE(run(other->find(id)));
  EXPECT_EQ(run(other->cancel(id)), job_state::ready);
  EXPECT_EQ(state(id), job_state::cancelled);
}

TEST_P(EnqueueConformance, TheUrlShowsWhereItIs) { EXPECT_TRUE(store->url().starts_with(GetParam().name)); }

// Promise 11: past the limit enqueues are refused, and what is in the store can be ended.
TEST_P(EnqueueConformance, AFullStoreDrains) {
  open_with_little_room();
  const std::string payload(10'000, 'x');
  std::size_t stored = 0;
  std::optional<errc> end;
  while (!(end = refusal({.kind = "k", .payload = payload, .keep_result = 1h})) && stored < 10'000) ++stored;
  EXPECT_EQ(end, errc::store_full);
  ASSERT_GT(stored, 5U);
  EXPECT_EQ(counts().ready, stored) << "nothing of a refused enqueue is stored";
  auto c = join();
  for (std::size_t done = 0; done < stored;) {
    taken t = take(*c, 10);
    for (const delivery& d : t.jobs()) {
      EXPECT_EQ(complete(*c, d, "ok"), settled::yes);
      ++done;
    }
  }
  EXPECT_EQ(counts().completed, stored);
  run(c->leave());
}

}  // namespace
}  // namespace ergon::conformance
