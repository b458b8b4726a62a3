// The test kit. To find out that nothing more can happen it goes round the runtime's queue: with one thread, an item that is posted
// runs after all that was ready before it. Calls on blocking threads are counted.
#include <ergon/queue/testing.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/pool/pool.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/work.hpp>

#include "queue/worker_core.hpp"

namespace ergon {

namespace {

/// Rounds of the queue without anything having happened in the worker, after which the kit is at rest: as long a chain of wake-ups
/// inside handlers goes unseen.
constexpr unsigned quiet_rounds = 64;
constexpr unsigned most_rounds = 10'000;
constexpr std::int64_t most_steps = 256;

/// Runs calls on another executor and knows how many are under way.
class counting_executor final : public blocking_executor {
 public:
  explicit counting_executor(std::shared_ptr<blocking_executor> on) : on_(std::move(on)) {}

  bool execute(work& item) noexcept override {
    auto* const counted = new (std::nothrow) call(item, *this);
    if (counted == nullptr) return false;
    {
      const std::scoped_lock lock{mutex_};
      ++under_way_;
    }
    if (on_->execute(*counted)) return true;
    delete counted;
    const std::scoped_lock lock{mutex_};
    --under_way_;
    changed_.notify_all();
    return false;
  }

  /// Waits until none is under way; false after `patience`.
  bool rest(std::chrono::nanoseconds patience) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [this] { return under_way_ == 0; });
  }
  bool is_at_rest() {
    const std::scoped_lock lock{mutex_};
    return under_way_ == 0;
  }

 private:
  struct call final : work {
    call(work& what, counting_executor& in) : item(&what), of(&in) {}
    void run() noexcept override {
      item->run();
      counting_executor& in = *of;
      delete this;
      const std::scoped_lock lock{in.mutex_};
      --in.under_way_;
      in.changed_.notify_all();
    }
    work* item;
    counting_executor* of;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t under_way_ = 0;
  // Last: its threads end before what they use.
  std::shared_ptr<blocking_executor> on_;
};

/// Goes round the runtime's queue until the worker has been quiet for `quiet_rounds`, or for `most_rounds`. Owned by whoever holds it
/// and, while it is under way, by itself.
struct round_trip final : work {
  std::shared_ptr<round_trip> keeps;
  std::shared_ptr<detail::worker_core> core;
  ergon::runtime* on = nullptr;
  std::uint64_t steps = 0;
  unsigned quiet = 0;
  unsigned rounds = 0;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  static std::shared_ptr<round_trip> begin(ergon::runtime& on, std::shared_ptr<detail::worker_core> core) {
    auto trip = std::make_shared<round_trip>();
    trip->on = &on;
    trip->core = std::move(core);
    trip->steps = trip->core->steps();
    trip->keeps = trip;
    on.post(*trip);
    return trip;
  }
  void run() noexcept override {
    const std::uint64_t now = core->steps();
    quiet = now == steps && core->is_quiet() ? quiet + 1 : 0;
    steps = now;
    if (quiet < quiet_rounds && ++rounds < most_rounds) {
      on->post(*this);
      return;
    }
    const auto mine = std::move(keeps);
    const std::scoped_lock lock{mutex};
    done = true;
    changed.notify_all();
  }
  bool wait(std::chrono::nanoseconds patience) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, patience, [this] { return done; });
  }
};

std::string name_of_kit() {
  static std::atomic<unsigned> made{0};
  return fmt::format("memory:test-kit-{}", made.fetch_add(1) + 1);
}

}  // namespace

struct test_kit::state_of_kit {
  explicit state_of_kit(test_kit_options given)
      : patience(given.patience),
        on({.threads = 1, .name = "test kit", .clock = &time}),
        store(open_broker(name_of_kit(), {.runtime = &on, .clock = &time})),
        jobs(store),
        works(store, worker_options_of(std::move(given.worker))) {}

  worker_options worker_options_of(worker_options options) {
    if (options.concurrency == 0) options.concurrency = 8;
    if (!options.retry) options.retry = exponential_backoff({.jitter = false});
    if (!options.logger) options.logger = logger{log, log_level::debug};
    return options;
  }

  std::chrono::nanoseconds patience;
  std::shared_ptr<memory_sink> log = std::make_shared<memory_sink>();
  manual_clock time;
  ergon::runtime on;
  std::shared_ptr<counting_executor> blocking;
  std::shared_ptr<ergon::broker> store;
  client jobs;
  ergon::worker works;
  join_handle<void> serving;
  bool started = false;
};

test_kit::test_kit(test_kit_options options) : state_(std::make_unique<state_of_kit>(std::move(options))) {
  // The worker saw to it that there is an executor.
  state_->blocking = std::make_shared<counting_executor>(state_->on.blocking());
  state_->on.set_blocking_executor(state_->blocking);
}

test_kit::~test_kit() {
  try {
    shut_down();
  } catch (...) {
    // The runtime's end stops what is left.
  }
}

test_kit& test_kit::use(middleware around) {
  worker().use(std::move(around));
  return *this;
}

void test_kit::start() {
  if (std::exchange(state_->started, true)) return;
  state_->serving = state_->on.spawn(state_->works.serve(), "test kit");
}

void test_kit::run_until_idle() {
  start();
  auto& machine = ergon::clock::system();
  const auto began = machine.steady();
  const auto late = [&](std::string_view what) {
    return error{errc::timed_out,
                 fmt::format("the test kit is not at rest after {}: {}", format_duration(state_->patience), what)};
  };
  for (;;) {
    const auto left = state_->patience - (machine.steady() - began);
    if (left.count() <= 0) throw late("jobs keep running");
    if (!state_->blocking->rest(left)) throw late("a blocking call does not return");
    const auto trip = round_trip::begin(state_->on, state_->works.core_);
    if (!trip->wait(left)) throw late("something blocks its thread");
    // A call that has returned meanwhile may have made more ready.
    if (trip->quiet >= quiet_rounds && state_->blocking->is_at_rest()) return;
    if (state_->serving.done()) return;
  }
}

void test_kit::advance(std::chrono::nanoseconds by) {
  check_duration("the time to advance by", by);
  run_until_idle();
  constexpr std::chrono::nanoseconds least = std::chrono::milliseconds{1};
  const std::int64_t steps = std::clamp<std::int64_t>(by / least, 1, most_steps);
  const auto step = by / steps;
  for (std::int64_t i = 0; i < steps; ++i) {
    state_->time.advance(i + 1 < steps ? step : by - step * (steps - 1));
    run_until_idle();
  }
}

job_info test_kit::job(const std::string& id) {
  std::optional<job_info> found = run(state_->jobs.find(id));
  if (!found) throw error{errc::not_found, fmt::format("there is no job {}: it never was, or was not kept", quoted(id))};
  return *std::move(found);
}

void test_kit::check_ended(const std::string& id) {
  const job_info info = job(id);
  if (!is_terminal(info.state)) {
    throw error{errc::wrong_state, fmt::format("job {} has not ended: it is {}", quoted(id), to_string(info.state))};
  }
}

job_options test_kit::kept() { return {.retention = std::chrono::days{1}, .keep_result = std::chrono::days{1}}; }

void test_kit::shut_down() {
  if (!state_->started || state_->serving.done()) return;
  state_->works.stop();
  state_->works.stop();
  // What the way out waits for is time.
  auto& machine = ergon::clock::system();
  const auto began = machine.steady();
  while (!state_->serving.done()) {
    const auto left = state_->patience - (machine.steady() - began);
    if (left.count() <= 0) throw error{errc::timed_out, "the worker of the test kit does not end"};
    state_->time.advance(std::chrono::milliseconds{50});
    round_trip::begin(state_->on, state_->works.core_)->wait(left);
  }
}

client& test_kit::jobs() noexcept { return state_->jobs; }
worker& test_kit::worker() noexcept { return state_->works; }
manual_clock& test_kit::clock() noexcept { return state_->time; }
runtime& test_kit::runtime() noexcept { return state_->on; }
memory_sink& test_kit::log() noexcept { return *state_->log; }

}  // namespace ergon
