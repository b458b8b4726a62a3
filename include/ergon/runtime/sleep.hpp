// Waiting for time: `sleep_for`, `sleep_until`, `yield`, `timeout`. Timers go by the runtime's clock (CLOCK_MONOTONIC unless a
// test moves it) and never fire early. Those that were set on one worker fire in order of time, then in the order in which they were
// set; a timer costs no memory beside the wait, and setting it and taking it back a constant time.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

/// A place in a runtime's timer store, whose lock guards it. When its time has come it is queued as a work item, once, unless it was
/// taken out before.
class ERGON_EXPORT timer : public operation {
 public:
  /// Which of a runtime's stores it stood in last.
  using operation::number;

 protected:
  explicit timer(std::int64_t when = 0) noexcept : due(when) {}
  ~timer() = default;
  /// It stands in a store. Of one that nobody else touches.
  [[nodiscard]] bool is_set() const noexcept { return previous != nullptr; }

  /// Nanoseconds of the runtime's clock, once it stands in a store.
  std::int64_t due;

 private:
  friend class timer_store;
  /// Null: it stands in no store.
  timer* previous = nullptr;
};

class ERGON_EXPORT sleep_operation final : public timer {
 public:
  explicit sleep_operation(steady_time when) noexcept : timer(when.time_since_epoch().count()) {}
  explicit sleep_operation(std::chrono::nanoseconds span) noexcept;
  void await_resume() const noexcept {}

 private:
  bool arm() noexcept override;
  bool disarm() noexcept override;
  void run() noexcept override;

  static constexpr mark is_span = mark::first;
  static constexpr mark was_armed = mark::second;
};

class ERGON_EXPORT yield_operation final : public operation {
 public:
  yield_operation() noexcept { stop_only_at_start(); }
  void await_resume() const noexcept {}

 private:
  bool arm() noexcept override;
  bool disarm() noexcept override { return false; }
};

/// For a timer that is part of some wait: has it run when `span` has passed, unless it is taken back.
ERGON_EXPORT void start_timer(timer& item, task_root& of, std::chrono::nanoseconds span) noexcept;
/// False: it has expired.
[[nodiscard]] ERGON_EXPORT bool take_back_timer(timer& item, task_root& of) noexcept;

/// `from + span` without overflow.
[[nodiscard]] ERGON_EXPORT steady_time time_after(steady_time from, std::chrono::nanoseconds span) noexcept;
/// What an operation that ran out of time says.
ERGON_EXPORT std::string timeout_text(std::chrono::nanoseconds span);

/// Cancels a task at a time, unless it is taken back before.
class ERGON_EXPORT deadline final : private timer {
 public:
  deadline(task_root& watched, std::chrono::nanoseconds span) noexcept;

  /// False: it has fired or is firing; then await `fired` before the object goes.
  [[nodiscard]] bool take_back() noexcept;
  completion fired;

 private:
  bool arm() noexcept override { return false; }
  bool disarm() noexcept override { return false; }
  void run() noexcept override;

  task_root* watched_;
};

}  // namespace detail

/// Waits for a span: at once, but not before the tasks that are ready, where it is not positive; spans beyond the clock's end
/// (about 292 years) wait for ever. Cancellable. Awaited once: where it is kept in a variable, a second `co_await` of it ends the program.
[[nodiscard]] inline detail::sleep_operation sleep_for(std::chrono::nanoseconds span) noexcept {
  return detail::sleep_operation{span};
}

/// Waits for a time of the runtime's clock. Cancellable.
[[nodiscard]] inline detail::sleep_operation sleep_until(steady_time due) noexcept { return detail::sleep_operation{due}; }

/// Lets what is ready on this worker run first. Stops if the task is cancelled when it begins.
[[nodiscard]] inline detail::yield_operation yield() noexcept { return {}; }

/// Runs `body` as a task of its own and cancels it when `span` has passed. Gives its value or exception; `errc::timed_out` if
/// it ended by that cancel. The body is always waited for, also when the waiting task is cancelled, which cancels the body and
/// then takes the stopped path.
template <class T>
task<T> timeout(std::chrono::nanoseconds span, task<T> body) {
  detail::task_root& me = co_await detail::this_root{};
  auto child = detail::spawn_owned(me, std::move(body));
  auto& state = detail::join_access::state(child);
  detail::deadline limit{state, span};
  {
    detail::join_operation join{state};
    join.report_stop();
    co_await join;
  }
  state.cancel();
  {
    detail::join_operation join{state};
    join.ignore_cancel();
    co_await join;
  }
  bool const in_time = limit.take_back();
  if (!in_time) {
    co_await limit.fired;
  }
  if (state.stopped()) {
    if (me.cancelled()) {
      co_await detail::stop_here{};
    }
    if (!in_time) {
      throw error(errc::timed_out, detail::timeout_text(span));
    }
  }
  co_return detail::join_access::take(child);
}

}  // namespace ergon
