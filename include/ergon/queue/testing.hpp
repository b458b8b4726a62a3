// Tests of handlers: a store, a worker and a clock of their own, and nothing that sleeps.
//
//   ergon::test_kit kit;
//   kit.handle(on_resize);
//   auto id = kit.enqueue(resize{"a.png"}, {.process_in = 5min});
//   kit.advance(5min);
//   EXPECT_EQ(kit.result<std::string>(id), "a.png.small");
//
// One test, one kit; one thread. Handlers run on the kit's runtime, whose one thread makes their order repeatable.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>
#include <ergon/base/log.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/queue/client.hpp>
#include <ergon/queue/worker.hpp>
#include <ergon/runtime/runtime.hpp>

namespace ergon {

struct test_kit_options {
  /// The worker's. Unless set, it has a concurrency of 8, and failed jobs are tried again after 1 s, 2 s, 4 s, … without jitter.
  worker_options worker = {};
  /// How long `run_until_idle` may take by the machine's clock before it throws `errc::timed_out`.
  std::chrono::nanoseconds patience = std::chrono::seconds{30};
};

class ERGON_EXPORT test_kit {
 public:
  explicit test_kit(test_kit_options options = {});
  test_kit(const test_kit&) = delete;
  test_kit& operator=(const test_kit&) = delete;
  ~test_kit();

  /// As `worker::handle` and `worker::use`; before the first job is run.
  template <class F>
  test_kit& handle(F&& f, handler_options options = {}) {
    worker().handle(std::forward<F>(f), std::move(options));
    return *this;
  }
  test_kit& use(middleware around);

  /// Puts a job in and gives its id; nothing runs yet. Completed jobs and their results are kept for a day of the kit's clock
  /// unless the options say otherwise.
  template <class Payload>
  std::string enqueue(const Payload& payload, job_options options = {}) {
    return run(jobs().enqueue(payload, merged(std::move(options), kept()))).id;
  }

  /// Runs all that can run without time passing: until no job is ready and every handler has ended or waits for the clock, or for
  /// something that only the test can do.
  void run_until_idle();
  /// Lets time pass in up to 256 equal steps of at least a millisecond, and runs what each makes ready.
  void advance(std::chrono::nanoseconds by);

  /// Throws `errc::not_found` where the job is not, or no longer, there.
  [[nodiscard]] job_info job(const std::string& id);
  [[nodiscard]] job_state state(const std::string& id) { return job(id).state; }
  /// The result of a completed job. Throws as `client::wait`, and `errc::wrong_state` where it has not ended.
  template <class Result = void>
  Result result(const std::string& id) {
    check_ended(id);
    return run(jobs().template wait<Result>(id));
  }
  /// Runs any task on the kit's runtime while the test waits; no time passes.
  template <class T>
  T run(task<T> body) {
    return runtime().block_on(std::move(body));
  }
  /// Ends the worker in order, as SIGTERM would. Handlers that wait for the clock are given no grace time.
  void shut_down();

  [[nodiscard]] client& jobs() noexcept;
  [[nodiscard]] ergon::worker& worker() noexcept;
  [[nodiscard]] manual_clock& clock() noexcept;
  [[nodiscard]] ergon::runtime& runtime() noexcept;
  /// What the worker logged.
  [[nodiscard]] memory_sink& log() noexcept;

 private:
  struct state_of_kit;

  void start();
  void check_ended(const std::string& id);
  static job_options kept();

  std::unique_ptr<state_of_kit> state_;
};

}  // namespace ergon
