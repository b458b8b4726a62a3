// Where cancellation meets `std::stop_token`. Inside, tasks are cancelled through their roots; plain functions and handlers are
// given a token, and a token from outside can cancel a task.
#pragma once

#include <coroutine>
#include <stop_token>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

// Who asks may never wait. So those who called it must be found from here on: a cancel of theirs may be what they pass on.
class token_awaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) {
    task_root& root = *frame.promise().root();
    root.publish_if_called();
    token_ = root.stop_token();
    return false;
  }
  std::stop_token await_resume() noexcept { return std::move(token_); }

 private:
  std::stop_token token_;
};

class cancelled_awaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    task_root& root = *frame.promise().root();
    root.publish_if_called();
    cancelled_ = root.cancelled();
    return false;
  }
  bool await_resume() const noexcept { return cancelled_; }

 private:
  bool cancelled_ = false;
};

/// Goes on at once, or stops.
class ERGON_EXPORT checkpoint_operation final : public operation {
 public:
  checkpoint_operation() noexcept { stop_only_at_start(); }
  ~checkpoint_operation() = default;
  void await_resume() const noexcept {}

 private:
  bool arm() noexcept override;
  bool disarm() noexcept override;
};

}  // namespace detail

namespace this_task {

/// `std::stop_token t = co_await this_task::stop_token();` is requested when the task is cancelled. Its state is made on first use.
[[nodiscard]] inline detail::token_awaiter stop_token() noexcept { return {}; }
/// `bool b = co_await this_task::is_cancelled();` for loops that do not wait.
[[nodiscard]] inline detail::cancelled_awaiter is_cancelled() noexcept { return {}; }
/// `co_await this_task::checkpoint();` takes the stopped path if the task is cancelled, else goes on at once.
[[nodiscard]] inline detail::checkpoint_operation checkpoint() noexcept { return {}; }

}  // namespace this_task

/// Runs `body` as a task of its own that is cancelled when stop is requested on `token`, or when the waiting task is cancelled.
/// Always waits for it. Gives its value or exception; `errc::cancelled` if the token stopped it.
template <class T>
task<T> with_stop(std::stop_token token, task<T> body) {
  detail::task_root& me = co_await detail::this_root{};
  auto child = detail::spawn_owned(me, std::move(body));
  auto& state = detail::join_access::state(child);
  {
    std::stop_callback const on_stop(std::move(token), [&state] { state.cancel(); });
    detail::join_operation until_cancelled{state};
    until_cancelled.report_stop();
    co_await until_cancelled;
    if (until_cancelled.stopped()) {
      state.cancel();
      detail::join_operation to_the_end{state};
      to_the_end.ignore_cancel();
      co_await to_the_end;
    }
  }
  if (state.stopped() && me.cancelled()) {
    co_await detail::stop_here{};
  }
  co_return detail::join_access::take(child);
}

/// Runs `body` as a task of its own that a cancel of the waiting task does not reach, for what must be finished or put in order.
/// The wait ends with the body; a cancel is remembered. A runtime's shutdown waits for it as well.
template <class T>
task<T> shielded(task<T> body) {
  detail::task_root& me = co_await detail::this_root{};
  auto child = detail::spawn_owned(me, std::move(body));
  auto& state = detail::join_access::state(child);
  detail::join_operation join{state};
  join.ignore_cancel();
  co_await join;
  co_return detail::join_access::take(child);
}

}  // namespace ergon
