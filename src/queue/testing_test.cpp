// Whole lives of jobs on a real store in memory, through the test kit: client, worker and kit together.
#include <ergon/queue/testing.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/describe/class.hpp>

#include <ergon/base/error.hpp>
#include <ergon/queue/queue.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct kit_add {
  int a = 0;
  int b = 0;
};
BOOST_DESCRIBE_STRUCT(kit_add, (), (a, b))

struct kit_other {
  std::string text;
  static constexpr std::string_view kind = "kit:other";
  static job_options defaults() { return {.queue = "others", .max_retries = 1, .headers = {{"a", "1"}, {"b", "2"}}}; }
};
BOOST_DESCRIBE_STRUCT(kit_other, (), (text))

template <class F>
errc reason_of(F f) {
  try {
    f();
  } catch (const error& e) {
    return e.reason();
  }
  return errc{};
}

TEST(TestKitTest, RunsAJobAndGivesItsResult) {
  test_kit kit;
  kit.handle([](const kit_add& job) -> task<int> { co_return job.a + job.b; });
  const auto id = kit.enqueue(kit_add{2, 3});
  EXPECT_EQ(kit.state(id), job_state::ready);
  kit.run_until_idle();
  EXPECT_EQ(kit.state(id), job_state::completed);
  EXPECT_EQ(kit.result<int>(id), 5);
}

TEST(TestKitTest, RunsPlainFunctionsAndWaitsForThem) {
  test_kit kit;
  kit.handle([](const kit_add& job) {
    std::this_thread::yield();
    return job.a + job.b;
  });
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(kit.enqueue(kit_add{i, 1}));
  kit.run_until_idle();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(kit.result<int>(ids[static_cast<std::size_t>(i)]), i + 1);
}

TEST(TestKitTest, StartsAJobWhenItsTimeHasComeAndNotBefore) {
  test_kit kit;
  int ran = 0;
  kit.handle([&ran](const kit_add&) -> task<void> {
    ++ran;
    co_return;
  });
  const auto in = kit.enqueue(kit_add{}, {.process_in = 5min});
  const auto at = kit.enqueue(kit_add{}, {.process_at = kit.clock().wall() + 10min});
  kit.advance(299s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(kit.state(in), job_state::scheduled);
  kit.advance(1s);
  EXPECT_EQ(ran, 1);
  kit.advance(5min);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(kit.state(at), job_state::completed);
}

TEST(TestKitTest, TriesAFailedJobAgainAfterOneTwoFourSeconds) {
  test_kit kit;
  std::vector<std::uint32_t> attempts;
  kit.handle([&attempts](const kit_add&, job_context& ctx) -> task<void> {
    attempts.push_back(ctx.attempt());
    throw std::runtime_error("no");
    co_return;
  });
  const auto id = kit.enqueue(kit_add{}, {.max_retries = 3});
  kit.run_until_idle();
  EXPECT_EQ(attempts.size(), 1U);
  kit.advance(1s);
  EXPECT_EQ(attempts.size(), 2U);
  kit.advance(2s);
  EXPECT_EQ(attempts.size(), 3U);
  kit.advance(4s);
  EXPECT_EQ(attempts, (std::vector<std::uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(kit.state(id), job_state::dead);
  EXPECT_EQ(kit.job(id).errors.size(), 4U);
  EXPECT_EQ(kit.worker().health().buried, 1U);
  EXPECT_EQ(reason_of([&] { kit.result(id); }), errc::job_failed);
}

TEST(TestKitTest, GivesADeadJobAFullBudgetWhenItIsRunAgain) {
  test_kit kit;
  int ran = 0;
  kit.handle([&ran](const kit_add&) -> task<outcome> {
    if (++ran < 4) co_return retry_in(1s);
    co_return outcome{};
  });
  const auto id = kit.enqueue(kit_add{}, {.max_retries = 1});
  kit.advance(10s);
  EXPECT_EQ(kit.state(id), job_state::dead);
  const auto again = kit.run(kit.jobs().run(id));
  kit.advance(10s);
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(kit.state(again), job_state::completed);
}

TEST(TestKitTest, ShowsAHandlerThatWaitsForTheClockAsActive) {
  test_kit kit;
  kit.handle([](const kit_add&, job_context& ctx) -> task<int> {
    ctx.progress(0.25, "waiting");
    co_await sleep_for(1h);
    co_return 1;
  });
  const auto id = kit.enqueue(kit_add{}, {.timeout = 2h});
  kit.run_until_idle();
  EXPECT_EQ(kit.state(id), job_state::active);
  EXPECT_EQ(kit.job(id).note, "waiting");
  EXPECT_EQ(reason_of([&] { kit.result<int>(id); }), errc::wrong_state);
  kit.advance(1h);
  EXPECT_EQ(kit.result<int>(id), 1);
}

TEST(TestKitTest, Promise8StopsAHandlerWhoseJobIsCancelledAndNeverRetriesIt) {
  test_kit kit;
  bool unwound = false;
  kit.handle([&unwound](const kit_add&) -> task<void> {
    struct guard {
      bool& flag;
      ~guard() { flag = true; }
    } const g{unwound};
    co_await sleep_for(1h);
  });
  const auto id = kit.enqueue(kit_add{});
  kit.run_until_idle();
  EXPECT_EQ(kit.run(kit.jobs().cancel(id)), job_state::active);
  kit.run_until_idle();
  EXPECT_TRUE(unwound);
  kit.advance(2h);
  EXPECT_EQ(kit.state(id), job_state::cancelled);
  EXPECT_EQ(kit.worker().health().running, 0U);
}

TEST(TestKitTest, Promise12BuriesAKindThatNobodyHandledForADay) {
  test_kit kit;
  kit.handle([](const kit_add&) -> task<void> { co_return; });
  // Due after two days: the day counts from when a worker first saw it.
  const auto id = kit.run(kit.jobs().enqueue_raw("kit:unknown", "{}", {.process_in = 48h})).id;
  kit.advance(48h);
  EXPECT_EQ(kit.state(id), job_state::retry);
  kit.advance(23h);
  EXPECT_EQ(kit.state(id), job_state::retry);
  EXPECT_EQ(kit.job(id).failures, 0U);
  EXPECT_FALSE(kit.worker().health().healthy());
  kit.advance(2h);
  EXPECT_EQ(kit.state(id), job_state::dead);
  EXPECT_EQ(kit.job(id).errors.back().error, "no worker had a handler for the kind \"kit:unknown\" for 1d");
}

TEST(TestKitTest, TellsWhatIsNotThere) {
  test_kit kit;
  EXPECT_EQ(reason_of([&] { static_cast<void>(kit.job("nothing")); }), errc::not_found);
}

TEST(TestKitTest, HandsBackWhatRunsWhenItIsShutDown) {
  test_kit kit;
  kit.handle([](const kit_add&) -> task<void> { co_await sleep_for(1h); });
  const auto id = kit.enqueue(kit_add{});
  kit.run_until_idle();
  kit.shut_down();
  EXPECT_EQ(kit.state(id), job_state::ready);
  EXPECT_EQ(kit.job(id).failures, 0U);
}

TEST(ClientTest, TakesOptionsFromTheCallThenFromTheKind) {
  test_kit kit;
  const auto own = kit.job(kit.enqueue(kit_other{"x"}));
  EXPECT_EQ(own.kind, "kit:other");
  EXPECT_EQ(own.queue, "others");
  EXPECT_EQ(own.max_retries, 1U);
  const auto mixed = kit.job(kit.enqueue(kit_other{"x"}, {.queue = "mine", .headers = {{"b", "3"}, {"c", "4"}}}));
  EXPECT_EQ(mixed.queue, "mine");
  EXPECT_EQ(mixed.max_retries, 1U);
  EXPECT_EQ(mixed.headers, (std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "3"}, {"c", "4"}}));
}

TEST(ClientTest, StoresAJobOfALiveIdOnce) {
  test_kit kit;
  const auto first = kit.run(kit.jobs().enqueue(kit_add{1, 1}, {.id = "order-1"}));
  const auto again = kit.run(kit.jobs().enqueue(kit_add{2, 2}, {.id = "order-1"}));
  EXPECT_TRUE(first.created);
  EXPECT_FALSE(again.created);
  EXPECT_EQ(first.id, again.id);
}

TEST(ClientTest, IsUniqueByKindAndPayloadOrByAKey) {
  test_kit kit;
  client& jobs = kit.jobs();
  EXPECT_TRUE(kit.run(jobs.enqueue(kit_add{1, 1}, {.unique_for = 1h})).created);
  EXPECT_FALSE(kit.run(jobs.enqueue(kit_add{1, 1}, {.unique_for = 1h})).created);
  EXPECT_TRUE(kit.run(jobs.enqueue(kit_add{1, 2}, {.unique_for = 1h})).created);
  EXPECT_TRUE(kit.run(jobs.enqueue(kit_add{1, 1}, {.unique_key = "k"})).created);
  EXPECT_FALSE(kit.run(jobs.enqueue(kit_add{9, 9}, {.unique_key = "k"})).created);
  kit.clock().advance(2h);
  EXPECT_TRUE(kit.run(jobs.enqueue(kit_add{1, 1}, {.unique_for = 1h})).created);
  EXPECT_FALSE(kit.run(jobs.enqueue(kit_add{9, 9}, {.unique_key = "k"})).created) << "a key alone holds as long as the job lives";
}

TEST(ClientTest, RefusesOptionsThatContradictEachOther) {
  test_kit kit;
  client& jobs = kit.jobs();
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.process_in = 1s, .process_at = kit.clock().wall()})); }),
            errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.id = ""})); }), errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.unique_key = ""})); }), errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.unique_for = 0s})); }), errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.process_in = -1s})); }), errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue(kit_add{}, {.queue = "no spaces"})); }), errc::invalid_argument);
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue_raw("no kind!", "")); }), errc::invalid_argument);
}

TEST(ClientTest, PutsABatchInWholeOrNotAtAll) {
  test_kit kit;
  client& jobs = kit.jobs();
  const std::vector<kit_add> some{{1, 1}, {2, 2}, {3, 3}};
  EXPECT_EQ(kit.run(jobs.enqueue_all(some, {.queue = "batch"})).size(), 3U);
  EXPECT_TRUE(kit.run(jobs.enqueue_all(std::vector<kit_add>{})).empty());

  job_batch mixed;
  mixed.add(kit_add{1, 1}, {.queue = "mixed", .id = "one"}).add(kit_other{"x"}, {.queue = "mixed", .headers = {{"h", "v"}}});
  mixed.add_raw("raw:kind", "bytes", {.queue = "mixed", .unique_for = 1h});
  mixed.add(kit_add{5, 5}, {.queue = "mixed", .id = "one"});
  EXPECT_EQ(mixed.size(), 4U);
  const auto answers = kit.run(jobs.enqueue_all(std::move(mixed)));
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_FALSE(answers[3].created);
  EXPECT_EQ(answers[3].id, answers[0].id);
  EXPECT_EQ(kit.job(answers[1].id).headers.back().second, "v");
  EXPECT_EQ(kit.job(answers[2].id).payload, "bytes");

  job_batch bad;
  bad.add(kit_add{}, {.queue = "bad"}).add(kit_add{}, {.queue = "no spaces"});
  EXPECT_EQ(reason_of([&] { kit.run(jobs.enqueue_all(std::move(bad))); }), errc::invalid_argument);
  for (const auto& queue : kit.run(jobs.queues())) EXPECT_NE(queue.name, "bad");
}

TEST(ClientTest, FillsABatchAgain) {
  test_kit kit;
  job_batch batch;
  std::vector<enqueued> answers;
  for (int round = 0; round < 3; ++round) {
    batch.clear();
    EXPECT_TRUE(batch.empty());
    for (int i = 0; i < 10; ++i) batch.add(kit_add{round, i});
    kit.run(kit.jobs().enqueue_all(batch, answers));
    EXPECT_EQ(answers.size(), 10U);
  }
  EXPECT_EQ(kit.run(kit.jobs().queues()).at(0).ready, 30U);
}

TEST(ClientTest, CallsAndGetsTheResultBack) {
  test_kit kit;
  kit.handle([](const kit_add& job) -> task<int> {
    if (job.a < 0) throw fail("negative");
    co_return job.a + job.b;
  });
  auto calling = kit.runtime().spawn(kit.jobs().call<int>(kit_add{20, 22}));
  auto failing = kit.runtime().spawn(kit.jobs().call<int>(kit_add{-1, 0}));
  auto patient = kit.runtime().spawn(kit.jobs().call(kit_add{1, 1}, {.process_in = 1h}, {.timeout = 1min}));
  kit.run_until_idle();
  const auto result = [&kit](auto& handle) { return kit.run([](auto of) -> task<int> { co_return co_await *of; }(&handle)); };
  EXPECT_EQ(result(calling), 42);
  try {
    result(failing);
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::job_failed);
    EXPECT_NE(std::string_view{e.what()}.find("negative"), std::string_view::npos) << e.what();
  }
  kit.advance(1min);
  EXPECT_EQ(reason_of([&] { kit.run([](auto of) -> task<void> { co_await *of; }(&patient)); }), errc::timed_out);
}

TEST(ClientTest, SaysWhyThereIsNothingToWaitFor) {
  test_kit kit;
  const auto job = kit.run(kit.jobs().enqueue(kit_add{}));
  EXPECT_EQ(reason_of([&] { kit.run(kit.jobs().wait<int>(job.id)); }), errc::no_result);
  EXPECT_EQ(reason_of([&] { kit.run(kit.jobs().wait<int>("nothing")); }), errc::not_found);
}

TEST(ClientTest, RefusesAResultOfAnotherType) {
  test_kit kit;
  kit.handle([](const kit_add&) -> task<std::string> { co_return "text"; });
  const auto id = kit.enqueue(kit_add{});
  kit.run_until_idle();
  EXPECT_EQ(reason_of([&] { kit.result<int>(id); }), errc::bad_payload);
}

TEST(ClientTest, PausesAndResumesAQueue) {
  test_kit kit;
  kit.handle([](const kit_add&) -> task<void> { co_return; });
  const auto id = kit.enqueue(kit_add{});
  kit.run(kit.jobs().pause("default"));
  kit.run_until_idle();
  EXPECT_EQ(kit.state(id), job_state::ready);
  kit.run(kit.jobs().resume("default"));
  kit.run_until_idle();
  EXPECT_EQ(kit.state(id), job_state::completed);
  EXPECT_EQ(kit.run(kit.jobs().workers()).size(), 1U);
}

TEST(ClientTest, RefusesANullBroker) {
  EXPECT_EQ(reason_of([] { client{std::shared_ptr<broker>{}}; }), errc::invalid_argument);
  EXPECT_EQ(reason_of([] { worker{std::shared_ptr<broker>{}}; }), errc::invalid_argument);
}

}  // namespace
}  // namespace ergon
