// What a worker says about its jobs, to a broker that the test plays. Time is the test's; see testing_test.cpp for whole lives on a
// real store.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/describe/class.hpp>

#include <ergon/base/error.hpp>
#include <ergon/queue/queue.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/scripted_broker.hpp"
#include "queue/worker_core.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct worker_ping {
  int n = 0;
};
BOOST_DESCRIBE_STRUCT(worker_ping, (), (n))
struct worker_pong {
  int n = 0;
  static constexpr std::array<std::string_view, 1> kind_aliases = {"old_pong"};
};
BOOST_DESCRIBE_STRUCT(worker_pong, (), (n))

/// A handler that waits for an hour, and says when its frame is destroyed.
auto sleeper(bool& unwound) {
  return [&unwound](const worker_ping&) -> task<void> {
    struct guard {
      bool& flag;
      ~guard() { flag = true; }
    } const g{unwound};
    co_await sleep_for(1h);
  };
}

/// A worker on a scripted broker, a clock that stands still and a runtime of one thread.
class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() = default;
  ~WorkerTest() override { end(); }

  worker& make(worker_options options = {}) {
    if (options.concurrency == 0) options.concurrency = 4;
    if (!options.retry) options.retry = fixed_backoff(10s);
    options.logger = logger{log_, log_level::debug};
    worker_.emplace(store_, std::move(options));
    return *worker_;
  }
  void start() {
    serving_ = runtime_.spawn(worker_->serve(), "worker under test");
    settle();
  }
  /// Lets everything happen that needs no time.
  void settle(unsigned rounds = 200) {
    for (unsigned i = 0; i < rounds; ++i) {
      runtime_.block_on([]() -> task<void> { co_await yield(); }());
    }
  }
  /// On the runtime's own thread: what falls due then is ready in one turn.
  void pass(std::chrono::nanoseconds by) {
    runtime_.block_on([](manual_clock& clock, std::chrono::nanoseconds span) -> task<void> {
      clock.advance(span);
      co_return;
    }(clock_, by));
    settle();
  }
  void end() {
    if (!serving_) return;
    worker_->stop();
    worker_->stop();
    for (int i = 0; i < 1000 && !serving_.done(); ++i) pass(100ms);
    EXPECT_TRUE(serving_.done());
    serving_ = {};
  }
  /// Waits for what a thread of the pool does.
  template <class Condition>
  void wait_until(Condition holds) {
    for (int i = 0; i < 100'000 && !holds(); ++i) settle(1);
    EXPECT_TRUE(holds());
    settle();
  }
  scripted_broker::end end_of(std::uint64_t number) {
    const auto found = store_->end_of(number);
    EXPECT_TRUE(found.has_value()) << "job " << number << " was not settled";
    return found.value_or(scripted_broker::end{});
  }

  std::shared_ptr<memory_sink> log_ = std::make_shared<memory_sink>();
  manual_clock clock_;
  runtime runtime_{{.threads = 1, .name = "test", .clock = &clock_}};
  std::shared_ptr<scripted_broker> store_ = std::make_shared<scripted_broker>(runtime_, clock_);
  std::optional<worker> worker_;
  join_handle<void> serving_;
};

TEST_F(WorkerTest, CompletesAJobWhoseHandlerReturns) {
  int sum = 0;
  make().handle([&sum](const worker_ping& job) -> task<void> {
    sum += job.n;
    co_return;
  });
  const auto a = store_->deliver({.kind = "worker_ping", .payload = R"({"n":3})"});
  const auto b = store_->deliver({.kind = "worker_ping", .payload = R"({"n":4})"});
  start();
  EXPECT_EQ(sum, 7);
  EXPECT_EQ(end_of(a).how, verdict::complete);
  EXPECT_EQ(end_of(b).how, verdict::complete);
  EXPECT_EQ(end_of(b).text, "");
  EXPECT_EQ(worker_->health().completed, 2U);
}

TEST_F(WorkerTest, GivesTheResultOnlyWhereItIsKept) {
  make().handle([](const worker_ping& job) -> task<int> { co_return job.n * 2; });
  const auto kept = store_->deliver({.kind = "worker_ping", .payload = R"({"n":21})", .keeps_result = true});
  const auto dropped = store_->deliver({.kind = "worker_ping", .payload = R"({"n":21})"});
  start();
  EXPECT_EQ(end_of(kept).text, "42");
  EXPECT_EQ(end_of(dropped).text, "");
}

TEST_F(WorkerTest, BuriesAResultThatTheStoreCannotHold) {
  make().handle([](const worker_ping&) -> task<std::string> { co_return std::string(2000, 'x'); });
  const auto job = store_->deliver({.kind = "worker_ping", .keeps_result = true});
  start();
  EXPECT_EQ(end_of(job).how, verdict::bury);
  EXPECT_EQ(end_of(job).text, "the result has 2002 bytes; this store takes at most 1024");
}

TEST_F(WorkerTest, RetriesAfterAnExceptionWithItsTextAndThePolicysDelay) {
  std::vector<std::pair<std::uint32_t, std::string>> asked;
  make().handle([](const worker_ping&) -> task<void> { throw std::runtime_error("no disk"); },
                {.retry = [&asked](std::uint32_t failures, std::string_view text) -> std::chrono::nanoseconds {
                  asked.emplace_back(failures, text);
                  return 7s;
                }});
  const auto job = store_->deliver({.kind = "worker_ping", .failures = 2});
  start();
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "no disk");
  EXPECT_EQ(end_of(job).delay, 7s);
  EXPECT_EQ(asked, (std::vector<std::pair<std::uint32_t, std::string>>{{3, "no disk"}}));
}

TEST_F(WorkerTest, KeepsTheTextOfErgonsOwnErrors) {
  make().handle([](const worker_ping&) -> task<void> { throw error{errc::timed_out, "the far end was slow"}; });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(end_of(job).text, "the far end was slow");
}

TEST_F(WorkerTest, SurvivesAThrowOfSomethingThatIsNoException) {
  make().handle([](const worker_ping&) -> task<void> { throw 42; });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "something was thrown that is no std::exception");
}

TEST_F(WorkerTest, UsesTheDefaultPolicyWhereAPolicyThrows) {
  make().handle(
      [](const worker_ping&) -> task<void> { throw std::runtime_error("x"); },
      {.retry = [](std::uint32_t, std::string_view) -> std::chrono::nanoseconds { throw std::runtime_error("policy"); }});
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_LE(end_of(job).delay, 1s);
}

TEST_F(WorkerTest, LetsTheHandlersVerdictBeatTheRetryPolicy) {
  make().handle([](const worker_ping& job) -> task<outcome> {
    if (job.n == 1) co_return retry_in(90s, "busy");
    if (job.n == 2) co_return fail("no such file");
    if (job.n == 3) co_return cancelled("not wanted any more");
    co_return outcome{};
  });
  std::vector<std::uint64_t> jobs;
  for (int n = 1; n <= 4; ++n)
    jobs.push_back(store_->deliver({.kind = "worker_ping", .payload = R"({"n":)" + std::to_string(n) + "}"}));
  start();
  EXPECT_EQ(end_of(jobs[0]).how, verdict::retry);
  EXPECT_EQ(end_of(jobs[0]).delay, 90s);
  EXPECT_EQ(end_of(jobs[0]).text, "busy");
  EXPECT_EQ(end_of(jobs[1]).how, verdict::bury);
  EXPECT_EQ(end_of(jobs[1]).text, "no such file");
  EXPECT_EQ(end_of(jobs[2]).how, verdict::cancel);
  EXPECT_EQ(end_of(jobs[2]).text, "not wanted any more");
  EXPECT_EQ(end_of(jobs[3]).how, verdict::complete);
}

TEST_F(WorkerTest, TakesAThrownOutcomeAsAReturnedOne) {
  make().handle([](const worker_ping& job) -> task<int> {
    if (job.n == 1) throw retry_in(90s);
    if (job.n == 2) throw fail("never");
    co_return 5;
  });
  const auto again = store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})"});
  const auto dead = store_->deliver({.kind = "worker_ping", .payload = R"({"n":2})"});
  start();
  EXPECT_EQ(end_of(again).how, verdict::retry);
  EXPECT_EQ(end_of(again).delay, 90s);
  EXPECT_EQ(end_of(dead).how, verdict::bury);
}

TEST_F(WorkerTest, TakesAResultOrAnOutcomeFromOneHandler) {
  make().handle([](const worker_ping& job) -> task<outcome_of<std::string>> {
    if (job.n < 0) co_return fail("negative");
    co_return "fine";
  });
  const auto good = store_->deliver({.kind = "worker_ping", .keeps_result = true});
  const auto bad = store_->deliver({.kind = "worker_ping", .payload = R"({"n":-1})", .keeps_result = true});
  start();
  EXPECT_EQ(end_of(good).text, R"("fine")");
  EXPECT_EQ(end_of(bad).how, verdict::bury);
}

TEST_F(WorkerTest, Promise9BuriesAPayloadThatDoesNotFitWithThePath) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  const auto job = store_->deliver({.kind = "worker_ping", .payload = R"({"n":"three"})"});
  const auto unknown_field = store_->deliver({.kind = "worker_ping", .payload = R"({"m":1})"});
  start();
  EXPECT_EQ(end_of(job).how, verdict::bury);
  EXPECT_NE(end_of(job).text.find("worker_ping.n"), std::string::npos) << end_of(job).text;
  EXPECT_EQ(end_of(unknown_field).how, verdict::complete);
}

TEST_F(WorkerTest, RefusesUnknownFieldsWhereTheHandlerIsStrict) {
  make().handle([](const worker_ping&) -> task<void> { co_return; }, {.strict = true});
  const auto job = store_->deliver({.kind = "worker_ping", .payload = R"({"m":1})"});
  start();
  EXPECT_EQ(end_of(job).how, verdict::bury);
}

TEST_F(WorkerTest, Promise9BuriesARecordThatIsGarbage) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  const auto job = store_->deliver({.kind = "", .fit = record_fit::garbage});
  const auto fine = store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(end_of(job).how, verdict::bury);
  EXPECT_EQ(end_of(fine).how, verdict::complete);
}

TEST_F(WorkerTest, RunsPlainFunctionsOnThePoolAndOnTheRuntime) {
  std::atomic<runtime*> pool_thread{&runtime_};
  runtime* runtime_thread = nullptr;
  worker& w = make();
  w.handle([&pool_thread](const worker_ping& job) {
    pool_thread = runtime::current();
    return job.n + 1;
  });
  w.handle([&runtime_thread](const worker_pong&, job_context&) { runtime_thread = runtime::current(); },
           {.where = run_on::runtime});
  const auto a = store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})", .keeps_result = true});
  const auto b = store_->deliver({.kind = "worker_pong"});
  start();
  wait_until([&] { return store_->end_of(a).has_value(); });
  EXPECT_EQ(end_of(a).text, "2");
  EXPECT_EQ(end_of(b).how, verdict::complete);
  EXPECT_EQ(pool_thread.load(), nullptr);
  EXPECT_EQ(runtime_thread, &runtime_);
}

TEST_F(WorkerTest, RetriesWhatAPlainFunctionThrows) {
  make().handle([](const worker_ping&) { throw std::runtime_error("plain"); });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  wait_until([&] { return store_->end_of(job).has_value(); });
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "plain");
}

TEST_F(WorkerTest, TellsTheHandlerAboutItsAttempt) {
  std::string seen;
  make().handle([&seen](const worker_ping&, job_context& ctx) -> task<void> {
    seen = std::string{ctx.kind()} + " " + std::string{ctx.queue()} + " " + std::to_string(ctx.attempt()) + "/" +
           std::to_string(ctx.max_attempts()) + (ctx.last_attempt() ? " last" : "") + " " + ctx.worker_id() + " " +
           std::string{ctx.payload()};
    EXPECT_FALSE(ctx.id().empty());
    EXPECT_FALSE(ctx.stop_requested());
    EXPECT_FALSE(ctx.stop_token().stop_requested());
    ctx.logger().info("hello");
    co_return;
  });
  store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})", .failures = 3, .max_retries = 3});
  start();
  EXPECT_EQ(seen, R"(worker_ping default 4/4 last scripted-1 {"n":1})");
  const auto entries = log_->entries();
  const auto hello = std::ranges::find(entries, "hello", &memory_sink::entry::text);
  ASSERT_NE(hello, entries.end());
  EXPECT_EQ(hello->field("kind"), "worker_ping");
  EXPECT_EQ(hello->field("attempt"), "4");
  EXPECT_EQ(hello->field("worker"), "scripted-1");
}

TEST_F(WorkerTest, TakesAJobUnderAnAliasOfItsKind) {
  std::vector<std::string> seen;
  make().handle(
      [&seen](const worker_pong&, job_context& ctx) -> task<void> {
        seen.emplace_back(ctx.kind());
        co_return;
      },
      {.aliases = {"older_pong"}});
  store_->deliver({.kind = "old_pong"});
  store_->deliver({.kind = "older_pong"});
  store_->deliver({.kind = "worker_pong"});
  start();
  EXPECT_EQ(seen, (std::vector<std::string>{"old_pong", "older_pong", "worker_pong"}));
  EXPECT_EQ(worker_->health().kinds.at(0).completed, 3U);
}

TEST_F(WorkerTest, RefusesTwoHandlersForOneKind) {
  worker& w = make();
  w.handle([](const worker_ping&) {});
  try {
    w.handle([](const worker_ping&) {});
    FAIL() << "the second handler was taken";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::duplicate_kind);
  }
  try {
    w.handle([](const worker_pong&) {}, {.aliases = {"worker_ping"}});
    FAIL() << "an alias that is another's kind was taken";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::duplicate_kind);
  }
}

TEST_F(WorkerTest, RefusesAKindThatBelongsToAnotherType) {
  make().handle([](const worker_ping&) {});
  worker other{store_};
  try {
    other.handle([](const worker_pong&) {}, {.kind = "worker_ping"});
    FAIL() << "two types share a kind";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::duplicate_kind);
    EXPECT_NE(std::string_view{e.what()}.find("worker_ping"), std::string_view::npos);
  }
}

TEST_F(WorkerTest, RefusesOptionsOutOfRange) {
  const auto refused = [this](worker_options options) {
    try {
      const worker w{store_, std::move(options)};
      return false;
    } catch (const error& e) {
      return e.reason() == errc::invalid_argument;
    }
  };
  EXPECT_TRUE(refused({.queues = {}}));
  EXPECT_TRUE(refused({.queues = {{"no spaces", 1}}}));
  EXPECT_TRUE(refused({.concurrency = 100'001}));
  EXPECT_TRUE(refused({.shutdown_grace = -1s}));
  EXPECT_TRUE(refused({.stop_grace = std::chrono::hours{24 * 365 * 20}}));
}

TEST_F(WorkerTest, RunsAtMostAsManyHandlersAtOnceAsItsConcurrency) {
  int now = 0;
  int most = 0;
  make({.concurrency = 3}).handle([&](const worker_ping&) -> task<void> {
    most = std::max(most, ++now);
    co_await sleep_for(1s);
    --now;
  });
  for (int i = 0; i < 10; ++i) store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(now, 3);
  EXPECT_EQ(worker_->health().running, 3U);
  for (int i = 0; i < 4; ++i) pass(1s);
  EXPECT_EQ(most, 3);
  EXPECT_EQ(store_->ends().size(), 10U);
  for (const std::size_t asked : store_->fetches()) EXPECT_LE(asked, 3U);
}

TEST_F(WorkerTest, SettlesWhatEndedInOneTurnTogether) {
  make({.concurrency = 100}).handle([](const worker_ping&) -> task<void> { co_await sleep_for(1s); });
  for (int i = 0; i < 60; ++i) store_->deliver({.kind = "worker_ping"});
  start();
  pass(1s);
  EXPECT_EQ(store_->ends().size(), 60U);
  EXPECT_LE(store_->settle_sizes().size(), 3U);
}

TEST_F(WorkerTest, StopsAnAttemptAtItsTimeLimitAndCountsItAsAFailure) {
  bool unwound = false;
  make().handle(sleeper(unwound));
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30s});
  start();
  pass(29s);
  EXPECT_FALSE(store_->end_of(job).has_value());
  pass(1s);
  EXPECT_TRUE(unwound);
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "timed out after 30s");
  EXPECT_EQ(end_of(job).delay, 10s);
  EXPECT_EQ(worker_->health().running, 0U);
}

TEST_F(WorkerTest, GoesOnWithOtherJobsAfterItStoppedOne) {
  int done = 0;
  make({.concurrency = 1}).handle([&done](const worker_ping& job) -> task<void> {
    if (job.n == 0) co_await sleep_for(1h);
    co_await sleep_for(1s);
    ++done;
  });
  store_->deliver({.kind = "worker_ping", .timeout = 5s});
  start();
  pass(5s);
  store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})"});
  store_->deliver({.kind = "worker_ping", .payload = R"({"n":2})"});
  settle();
  pass(1s);
  pass(1s);
  EXPECT_EQ(done, 2);
}

TEST_F(WorkerTest, GivesUpAJobWhoseHandlerIgnoresItsTimeLimitAndShowsTheHandler) {
  event release;
  make({.concurrency = 1, .stop_grace = 5s}).handle([&release](const worker_ping&) -> task<void> {
    // Deaf: the cancel ends this wait, and it waits again elsewhere.
    co_await as_result(sleep_for(1h));
    completion done;
    auto* const pointer = &done;
    auto watch = spawn([](event& on, completion* what) -> task<void> {
      co_await on.wait();
      what->complete();
    }(release, pointer));
    co_await done;
  });
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30s});
  start();
  pass(30s);
  EXPECT_FALSE(store_->end_of(job).has_value());
  ASSERT_EQ(worker_->health().overdue.size(), 1U);
  EXPECT_FALSE(worker_->health().overdue[0].given_up);
  EXPECT_TRUE(worker_->health().healthy());
  pass(5s);
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "timed out after 30s, and its handler does not stop");
  auto health = worker_->health();
  ASSERT_EQ(health.overdue.size(), 1U);
  EXPECT_TRUE(health.overdue[0].given_up);
  EXPECT_EQ(health.overdue[0].since, 5s);
  EXPECT_EQ(health.running, 1U);
  EXPECT_FALSE(health.healthy());
  EXPECT_TRUE(health.live);

  // The place stays taken until the handler ends; what it says then is ignored.
  const auto next = store_->deliver({.kind = "worker_ping"});
  settle();
  EXPECT_FALSE(store_->end_of(next).has_value());
  EXPECT_EQ(worker_->health().running, 1U);
  release.set();
  settle();
  EXPECT_EQ(store_->ends().size(), 1U);
  EXPECT_EQ(worker_->health().overdue.size(), 0U);
  EXPECT_EQ(worker_->health().running, 1U);  // the next job
  pass(1h);
}

TEST_F(WorkerTest, StopsAPlainFunctionThroughItsToken) {
  make().handle([](const worker_ping&, job_context& ctx) {
    const std::stop_token stop = ctx.stop_token();
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30s});
  start();
  pass(30s);
  wait_until([&] { return store_->end_of(job).has_value(); });
  EXPECT_EQ(end_of(job).how, verdict::retry);
  EXPECT_EQ(end_of(job).text, "timed out after 30s");
}

TEST_F(WorkerTest, BelievesAPlainFunctionThatNeverAskedWhetherToStop) {
  std::atomic<bool> go{false};
  std::atomic<bool> in{false};
  make().handle([&](const worker_ping&) {
    in = true;
    while (!go) std::this_thread::yield();
    return 7;
  });
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30s, .keeps_result = true});
  start();
  wait_until([&] { return in.load(); });
  pass(30s);
  go = true;
  wait_until([&] { return store_->end_of(job).has_value(); });
  EXPECT_EQ(end_of(job).how, verdict::complete);
  EXPECT_EQ(end_of(job).text, "7");
}

TEST_F(WorkerTest, LetsAVerdictStandAfterTheTimeLimit) {
  make().handle([](const worker_ping&) -> task<outcome> {
    if (!co_await as_result(sleep_for(1h))) co_return fail("I know that it will never work");
    co_return outcome{};
  });
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30s});
  start();
  pass(30s);
  EXPECT_EQ(end_of(job).how, verdict::bury);
}

TEST_F(WorkerTest, DiscardsAJobWhoseDeadlinePassedBeforeItStarted) {
  bool ran = false;
  make().handle([&ran](const worker_ping&) -> task<void> {
    ran = true;
    co_return;
  });
  const auto job = store_->deliver({.kind = "worker_ping", .deadline = clock_.wall() - 1s});
  start();
  EXPECT_FALSE(ran);
  EXPECT_EQ(end_of(job).how, verdict::discard);
}

TEST_F(WorkerTest, BuriesAJobWhoseDeadlinePassesWhileItRuns) {
  make().handle([](const worker_ping&) -> task<void> { co_await sleep_for(1h); });
  const auto job = store_->deliver({.kind = "worker_ping", .timeout = 30min, .deadline = clock_.wall() + 10s});
  start();
  pass(10s);
  EXPECT_EQ(end_of(job).how, verdict::bury);
  EXPECT_EQ(end_of(job).text, "its deadline 2030-01-01T00:00:10Z passed while it ran");
}

TEST_F(WorkerTest, KeepsToTheCalendarWhereItIsSetBack) {
  make().handle([](const worker_ping&) -> task<void> { co_await sleep_for(10h); });
  const auto job = store_->deliver({.kind = "worker_ping", .deadline = clock_.wall() + 10s});
  start();
  clock_.set_wall(clock_.wall() - 1h);
  pass(10s);
  EXPECT_FALSE(store_->end_of(job).has_value());
  pass(1h);
  EXPECT_EQ(end_of(job).how, verdict::bury);
}

TEST_F(WorkerTest, Promise3StopsTheHandlerOfALostLeaseAndSettlesNothing) {
  bool unwound = false;
  make().handle(sleeper(unwound));
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  store_->lose(job);
  settle();
  EXPECT_TRUE(unwound);
  EXPECT_TRUE(store_->ends().empty());
  EXPECT_EQ(worker_->health().lost, 1U);
  EXPECT_EQ(worker_->health().running, 0U);
  EXPECT_TRUE(log_->contains("a lease is lost"));
}

TEST_F(WorkerTest, Promise8IgnoresEvenAVerdictOfAJobThatWasCancelled) {
  make().handle([](const worker_ping&) -> task<outcome> {
    static_cast<void>(co_await as_result(sleep_for(1h)));
    co_return retry_in(1s);
  });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  store_->lose(job);
  settle();
  EXPECT_TRUE(store_->ends().empty());
  EXPECT_EQ(worker_->health().running, 0U);
}

TEST_F(WorkerTest, CountsASettlementThatCameTooLate) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  const auto job = store_->deliver({.kind = "worker_ping"});
  store_->answer(job, settled::lost);
  start();
  EXPECT_EQ(worker_->health().completed, 0U);
  EXPECT_EQ(worker_->health().lost, 1U);
}

TEST_F(WorkerTest, Promise12HandsBackAKindThatItDoesNotKnowWithAGrowingDelay) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  std::vector<std::chrono::nanoseconds> delays;
  const auto first = store_->deliver({.kind = "from_the_future"});
  start();
  EXPECT_EQ(end_of(first).how, verdict::hand_back);
  EXPECT_GE(end_of(first).delay, 500ms);
  EXPECT_LE(end_of(first).delay, 1s);
  const auto health = worker_->health();
  EXPECT_FALSE(health.healthy());
  ASSERT_EQ(health.reasons.size(), 1U);
  EXPECT_NE(health.reasons[0].find("from_the_future"), std::string::npos);
  EXPECT_TRUE(health.live);
  EXPECT_TRUE(health.ready);
  pass(4min);
  EXPECT_TRUE(worker_->health().healthy());
}

TEST_F(WorkerTest, Promise12HandsBackARecordOfANewerRelease) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  const auto job = store_->deliver({.kind = "worker_ping", .fit = record_fit::newer});
  start();
  EXPECT_EQ(end_of(job).how, verdict::hand_back);
  EXPECT_FALSE(worker_->health().healthy());
}

TEST_F(WorkerTest, Promise4RunsASuspectAloneAfterItWasMarked) {
  int now = 0;
  int beside_suspect = -1;
  make().handle([&](const worker_ping& job) -> task<void> {
    ++now;
    if (job.n == 99) {
      beside_suspect = now - 1;
      store_->tell("run suspect");
    }
    co_await sleep_for(2s);
    --now;
  });
  store_->deliver({.kind = "worker_ping"});
  const auto suspect = store_->deliver({.kind = "worker_ping", .payload = R"({"n":99})", .suspect = true});
  store_->deliver({.kind = "worker_ping"});
  start();
  const auto later = store_->deliver({.kind = "worker_ping"});
  settle();
  EXPECT_TRUE(store_->marked().empty());
  pass(2s);
  EXPECT_EQ(store_->marked(), std::vector<std::uint64_t>{suspect});
  EXPECT_EQ(beside_suspect, 0);
  EXPECT_EQ(now, 1);
  EXPECT_FALSE(store_->end_of(later).has_value());
  pass(2s);
  EXPECT_EQ(end_of(suspect).how, verdict::complete);
  EXPECT_EQ(now, 1) << "the next job starts only now";
  pass(2s);
  EXPECT_EQ(end_of(later).how, verdict::complete);
  const auto story = store_->story();
  const auto mark = std::ranges::find(story, "mark 2");
  const auto run = std::ranges::find(story, "run suspect");
  EXPECT_LT(mark, run);
  EXPECT_NE(run, story.end());
}

TEST_F(WorkerTest, Promise4KeepsOtherWorkersOfTheProcessStillWhileASuspectRuns) {
  make().handle([](const worker_ping&) -> task<void> { co_await sleep_for(2s); });
  const auto other_store = std::make_shared<scripted_broker>(runtime_, clock_);
  int others = 0;
  worker other{other_store, {.concurrency = 2, .logger = logger{log_, log_level::debug}}};
  other.handle([&others](const worker_pong&) -> task<void> {
    ++others;
    co_return;
  });
  auto other_serving = runtime_.spawn(other.serve());
  store_->deliver({.kind = "worker_ping", .suspect = true});
  start();
  EXPECT_EQ(store_->marked().size(), 1U);
  const auto held = other_store->deliver({.kind = "worker_pong"});
  settle();
  EXPECT_EQ(others, 0);
  pass(1s);
  // It does not keep what it may not start.
  ASSERT_TRUE(other_store->end_of(held).has_value());
  EXPECT_EQ(other_store->end_of(held)->how, verdict::hand_back);
  pass(1s);
  other_store->deliver({.kind = "worker_pong"});
  settle();
  EXPECT_EQ(others, 1);
  other.stop();
  settle();
  EXPECT_TRUE(other_serving.done());
}

TEST_F(WorkerTest, HoldsNoMoreThanItRunsWhereHandlersAreSlowerThanAFetch) {
  make({.concurrency = 2}).handle([](const worker_ping&) -> task<void> { co_await sleep_for(1s); });
  for (int i = 0; i < 20; ++i) store_->deliver({.kind = "worker_ping"});
  start();
  for (int i = 0; i < 5; ++i) pass(1s);
  EXPECT_EQ(worker_->health().running, 2U);
  EXPECT_EQ(worker_->health().waiting, 0U);
  for (const std::size_t asked : store_->fetches()) EXPECT_LE(asked, 2U);
}

TEST_F(WorkerTest, FetchesAheadWhileHandlersAreFastAndHandsBackWhatHasNotStartedForASecond) {
  make({.concurrency = 1}).handle([](const worker_ping& job) -> task<void> {
    if (job.n == 1) co_await sleep_for(1h);
  });
  // A fetch takes a millisecond, a handler nothing.
  store_->on_call([this](std::string_view what, auto) {
    if (what == "fetch") clock_.advance(1ms);
  });
  for (int i = 0; i < 10; ++i) store_->deliver({.kind = "worker_ping"});
  start();
  EXPECT_EQ(store_->ends().size(), 10U);
  EXPECT_GT(store_->fetches().back(), 1U);
  const auto slow = store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})"});
  std::vector<std::uint64_t> behind;
  for (int i = 0; i < 5; ++i) behind.push_back(store_->deliver({.kind = "worker_ping"}));
  settle();
  EXPECT_EQ(worker_->health().running, 1U);
  EXPECT_EQ(worker_->health().waiting, 5U);
  pass(990ms);
  EXPECT_EQ(store_->ends().size(), 10U);
  pass(10ms);
  for (const auto job : behind) {
    EXPECT_EQ(end_of(job).how, verdict::hand_back);
    EXPECT_EQ(end_of(job).delay, 0s);
  }
  EXPECT_EQ(worker_->health().waiting, 0U);
  EXPECT_FALSE(store_->end_of(slow).has_value());
  const std::size_t fetches = store_->fetches().size();
  store_->deliver({.kind = "worker_ping"});
  settle();
  EXPECT_EQ(store_->fetches().size(), fetches) << "nothing is taken while the one place is taken";
}

TEST_F(WorkerTest, RunsUntilASignalAndEndsAtOnceAtTheSecond) {
  std::atomic<bool> running{false};
  make({.shutdown_grace = 1h}).handle([&running](const worker_ping&) -> task<void> {
    running = true;
    co_await sleep_for(2h);
  });
  const auto job = store_->deliver({.kind = "worker_ping"});
  std::thread blocked{[this] { worker_->run(); }};
  wait_until([&] { return running.load(); });
  EXPECT_TRUE(worker_->health().ready);
  ::kill(::getpid(), SIGTERM);
  wait_until([&] { return !worker_->health().ready; });
  EXPECT_FALSE(store_->end_of(job).has_value());
  ::kill(::getpid(), SIGINT);
  wait_until([&] { return store_->end_of(job).has_value(); });
  EXPECT_EQ(end_of(job).how, verdict::hand_back);
  blocked.join();
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, RunLeavesSignalsAloneWhereItIsGivenAToken) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  std::jthread blocked{[this](std::stop_token stop) { worker_->run(stop); }};
  wait_until([&] { return worker_->health().ready; });
  struct sigaction action{};
  ASSERT_EQ(::sigaction(SIGINT, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
  blocked.request_stop();
  blocked.join();
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, BacksOffWithoutBurningTheCpuWhileTheStoreIsAwayAndSaysSo) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  store_->on_call([](std::string_view what, auto) {
    if (what == "fetch") throw error{errc::unavailable, "the disk went away"};
  });
  start();
  EXPECT_EQ(store_->fetches().size(), 1U);
  auto health = worker_->health();
  EXPECT_FALSE(health.ready);
  EXPECT_TRUE(health.live);
  ASSERT_EQ(health.reasons.size(), 1U);
  EXPECT_EQ(health.reasons[0], "no jobs can be taken from scripted:: the disk went away");
  EXPECT_TRUE(log_->contains("no jobs can be taken from the store; trying again"));
  pass(60s);
  const std::size_t tries = store_->fetches().size();
  EXPECT_LT(tries, 5U) << "a manual clock jumps: one try per wake-up";
  store_->on_call({});
  const auto job = store_->deliver({.kind = "worker_ping"});
  pass(20s);
  EXPECT_EQ(end_of(job).how, verdict::complete);
  EXPECT_TRUE(worker_->health().healthy());
  EXPECT_TRUE(worker_->health().ready);
}

TEST_F(WorkerTest, KeepsSettlementsUntilTheStoreTakesThem) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  store_->on_call([](std::string_view what, auto) {
    if (what == "settle") throw error{errc::busy, "somebody holds the lock"};
  });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  pass(1s);
  EXPECT_TRUE(store_->ends().empty());
  EXPECT_EQ(worker_->health().settling, 1U);
  EXPECT_FALSE(worker_->health().healthy());
  const std::size_t fetches = store_->fetches().size();
  store_->deliver({.kind = "worker_ping"});
  store_->deliver({.kind = "worker_ping"});
  pass(5s);
  EXPECT_LE(store_->fetches().size(), fetches + 1) << "no more is taken than was asked for before";
  store_->on_call({});
  pass(10s);
  EXPECT_EQ(end_of(job).how, verdict::complete);
  EXPECT_EQ(store_->ends().size(), 3U);
  EXPECT_TRUE(worker_->health().healthy());
}

TEST_F(WorkerTest, Promise11SettlesTheRestWhereTheStoreIsTooFullForOne) {
  make().handle([](const worker_ping& job) -> task<std::string> {
    co_await sleep_for(1s);
    co_return job.n == 1 ? "a long result" : "";
  });
  store_->on_call([](std::string_view what, std::span<const settlement> settled) {
    if (what != "settle") return;
    for (const settlement& one : settled) {
      if (one.text.size() > 5) throw error{errc::store_full, "the disk is full"};
    }
  });
  const auto big = store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})", .keeps_result = true});
  const auto a = store_->deliver({.kind = "worker_ping"});
  const auto b = store_->deliver({.kind = "worker_ping"});
  start();
  pass(1s);
  EXPECT_EQ(end_of(a).how, verdict::complete);
  EXPECT_EQ(end_of(b).how, verdict::complete);
  EXPECT_FALSE(store_->end_of(big).has_value());
  store_->on_call({});
  pass(10s);
  EXPECT_EQ(end_of(big).text, R"("a long result")");
}

TEST_F(WorkerTest, BuriesAJobWhoseSettlementTheStoreWillNeverTake) {
  make().handle([](const worker_ping&) -> task<std::string> { co_return "odd"; });
  store_->on_call([](std::string_view what, std::span<const settlement> settled) {
    if (what == "settle" && settled[0].how == verdict::complete) throw error{errc::invalid_argument, "an odd result"};
  });
  const auto job = store_->deliver({.kind = "worker_ping", .keeps_result = true});
  start();
  EXPECT_TRUE(log_->contains("the store refuses how a job ended; it is buried instead"));
  pass(1s);
  EXPECT_EQ(end_of(job).how, verdict::bury);
  EXPECT_EQ(end_of(job).text, "the store refused how it ended: an odd result");
}

TEST_F(WorkerTest, SendsTheLatestProgressNowAndThen) {
  make().handle([](const worker_ping&, job_context& ctx) -> task<void> {
    for (int i = 1; i <= 10; ++i) {
      ctx.progress(i / 10.0, "step " + std::to_string(i));
      co_await sleep_for(100ms);
    }
    ctx.progress(7.0);
    co_await sleep_for(1s);
  });
  store_->deliver({.kind = "worker_ping"});
  start();
  for (int i = 0; i < 10; ++i) pass(100ms);
  pass(500ms);
  const auto reports = store_->reports();
  ASSERT_GE(reports.size(), 2U);
  EXPECT_LE(reports.size(), 4U);
  EXPECT_EQ(reports[0].note, "step 1");
  EXPECT_DOUBLE_EQ(reports.back().done, 1.0);
}

TEST_F(WorkerTest, RunsMiddlewareAroundTheHandlerInOrder) {
  std::string order;
  worker& w = make();
  w.use([&order](job_context& ctx, next_handler next) -> task<outcome> {
    order += "a(" + std::string{ctx.kind()};
    outcome end = co_await next();
    order += end.succeeded() ? ")" : "!";
    co_return end;
  });
  w.use([&order](job_context&, next_handler next) -> task<outcome> {
    order += "b(";
    outcome end = co_await next();
    order += ")";
    co_return end;
  });
  w.handle([&order](const worker_ping& job) -> task<int> {
    order += "h";
    co_return job.n;
  });
  const auto job = store_->deliver({.kind = "worker_ping", .payload = R"({"n":5})", .keeps_result = true});
  start();
  EXPECT_EQ(order, "a(worker_pingb(h))");
  EXPECT_EQ(end_of(job).text, "5");
}

TEST_F(WorkerTest, LetsMiddlewareSeeWhatWasThrownReplaceTheOutcomeAndLeaveTheHandlerOut) {
  worker& w = make();
  bool ran = false;
  w.use([](job_context& ctx, next_handler next) -> task<outcome> {
    if (ctx.payload() == R"({"n":2})") co_return cancelled("left out");
    std::string thrown;
    try {
      co_return co_await next();
    } catch (const std::exception& e) {
      thrown = e.what();
    }
    co_return fail("seen: " + thrown);
  });
  w.handle([&ran](const worker_ping& job) -> task<void> {
    if (job.n == 2) ran = true;
    throw std::runtime_error("boom");
    co_return;
  });
  const auto thrown = store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})"});
  const auto left_out = store_->deliver({.kind = "worker_ping", .payload = R"({"n":2})"});
  start();
  EXPECT_EQ(end_of(thrown).text, "seen: boom");
  EXPECT_EQ(end_of(thrown).how, verdict::bury);
  EXPECT_EQ(end_of(left_out).how, verdict::cancel);
  EXPECT_FALSE(ran);
}

TEST_F(WorkerTest, FinishesRunningHandlersWithinTheGraceTime) {
  make({.shutdown_grace = 25s}).handle([](const worker_ping&) -> task<void> { co_await sleep_for(20s); });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  worker_->stop();
  settle();
  EXPECT_FALSE(worker_->health().ready);
  const auto late = store_->deliver({.kind = "worker_ping"});
  pass(20s);
  pass(1s);
  EXPECT_TRUE(serving_.done());
  EXPECT_EQ(end_of(job).how, verdict::complete);
  EXPECT_FALSE(store_->end_of(late).has_value()) << "nothing is taken any more";
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, HandsBackUncountedWhatOutlivesTheGraceTime) {
  bool unwound = false;
  make({.shutdown_grace = 25s}).handle(sleeper(unwound));
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  worker_->stop();
  settle();
  pass(24s);
  EXPECT_FALSE(serving_.done());
  EXPECT_FALSE(unwound);
  pass(1s);
  pass(1s);
  EXPECT_TRUE(serving_.done());
  EXPECT_TRUE(unwound);
  EXPECT_EQ(end_of(job).how, verdict::hand_back);
  EXPECT_EQ(end_of(job).delay, 0s);
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, EndsAtOnceAtTheSecondRequest) {
  make({.shutdown_grace = 25s}).handle([](const worker_ping&) -> task<void> { co_await sleep_for(1h); });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  worker_->stop();
  settle();
  pass(1s);
  EXPECT_FALSE(serving_.done());
  worker_->stop();
  settle();
  EXPECT_EQ(end_of(job).how, verdict::hand_back);
  pass(200ms);
  EXPECT_TRUE(serving_.done());
}

TEST_F(WorkerTest, EndsWhenItsStopTokenSaysSo) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  std::stop_source stop;
  auto serving = runtime_.spawn(worker_->serve(stop.get_token()));
  settle();
  EXPECT_FALSE(serving.done());
  stop.request_stop();
  settle();
  EXPECT_TRUE(serving.done());
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, LeavesInOrderWhenTheTaskThatServesIsCancelled) {
  make().handle([](const worker_ping&) -> task<void> { co_await sleep_for(1h); });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  serving_.cancel();
  settle();
  pass(200ms);
  EXPECT_TRUE(serving_.done());
  EXPECT_EQ(end_of(job).how, verdict::hand_back);
  EXPECT_EQ(store_->story().back(), "leave");
}

TEST_F(WorkerTest, SettlesAtShutdownWhatTheStoreRefusedForAWhile) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  store_->on_call([](std::string_view what, auto) {
    if (what == "settle") throw error{errc::busy, "locked"};
  });
  const auto job = store_->deliver({.kind = "worker_ping"});
  start();
  worker_->stop();
  settle();
  EXPECT_FALSE(serving_.done());
  store_->on_call({});
  pass(1s);
  pass(1s);
  EXPECT_TRUE(serving_.done());
  EXPECT_EQ(end_of(job).how, verdict::complete);
}

TEST_F(WorkerTest, JoinsAStoreThatComesBack) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  store_->on_call([](std::string_view what, auto) {
    if (what == "join") throw error{errc::unavailable, "not there"};
  });
  start();
  EXPECT_EQ(worker_->health().reasons.at(0), "scripted: cannot be joined: not there");
  store_->on_call({});
  const auto job = store_->deliver({.kind = "worker_ping"});
  pass(1s);
  EXPECT_EQ(end_of(job).how, verdict::complete);
}

TEST_F(WorkerTest, ThrowsWhatAStoreThatCannotBeUsedSays) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  store_->on_call([](std::string_view what, auto) {
    if (what == "join") throw error{errc::store_corrupt, "damaged"};
  });
  try {
    runtime_.block_on(worker_->serve());
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::store_corrupt);
  }
}

TEST_F(WorkerTest, AbandonsItsLeasesWhereItIsDestroyedWhileItRuns) {
  make().handle([](const worker_ping&) -> task<void> { co_await sleep_for(1h); });
  store_->deliver({.kind = "worker_ping"});
  start();
  worker_.reset();
  EXPECT_EQ(store_->story().back(), "abandon");
  for (int i = 0; i < 100 && !serving_.done(); ++i) pass(100ms);
  serving_ = {};
}

TEST_F(WorkerTest, CountsWhatItDidByKind) {
  worker& w = make();
  w.handle([](const worker_ping& job) -> task<void> {
    co_await sleep_for(std::chrono::seconds{job.n});
    if (job.n == 3) throw std::runtime_error("three");
  });
  w.handle([](const worker_pong&) -> task<outcome> { co_return cancelled("no"); });
  store_->deliver({.kind = "worker_ping", .payload = R"({"n":1})"});
  store_->deliver({.kind = "worker_ping", .payload = R"({"n":3})"});
  store_->deliver({.kind = "worker_pong"});
  start();
  pass(1s);
  pass(2s);
  const auto health = worker_->health();
  ASSERT_EQ(health.kinds.size(), 2U);
  EXPECT_EQ(health.kinds[0].kind, "worker_ping");
  EXPECT_EQ(health.kinds[0].completed, 1U);
  EXPECT_EQ(health.kinds[0].failed, 1U);
  EXPECT_EQ(health.kinds[0].total, 4s);
  EXPECT_EQ(health.kinds[0].longest, 3s);
  EXPECT_EQ(health.kinds[1].cancelled, 1U);
  EXPECT_EQ(health.completed, 1U);
  EXPECT_EQ(health.failed, 1U);
  EXPECT_EQ(health.cancelled, 1U);
}

TEST_F(WorkerTest, TakesNoHandlersWhileItRuns) {
  make().handle([](const worker_ping&) -> task<void> { co_return; });
  start();
  EXPECT_THROW(worker_->handle([](const worker_pong&) {}), error);
  EXPECT_THROW(runtime_.block_on(worker_->serve()), error);
}

}  // namespace
}  // namespace ergon
