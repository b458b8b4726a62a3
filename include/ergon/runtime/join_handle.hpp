// `join_handle<T>`: the other end of a spawned task. Awaiting it gives the task's value or exception; dropping it detaches the
// task, which the runtime still counts and ends at shutdown. A handle belongs to one thread at a time, except `cancel` and
// `done`, which any thread may call while no other moves or destroys it.
#pragma once

#include <system_error>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/root.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

struct join_access;

/// A root with room for the result. `result` belongs to the task until it is done, then to the joiner.
template <class T>
class root_state final : public task_root {
 public:
  root_state(scheduler& home, promise_base& outermost, std::string_view name) noexcept : task_root(home, outermost, name) {}

  /// After done. Throws `errc::cancelled` if it was stopped, `errc::invalid_argument` if the result was taken before.
  T take() {
    if (std::exchange(taken_, true)) {
      throw error(errc::invalid_argument, "the result of a task can be taken once: this handle was awaited before");
    }
    if (stopped()) {
      throw error(errc::cancelled, "the task was cancelled");
    }
    return result_.take();
  }

  std::exception_ptr failure() const noexcept override { return result_.exception(); }

 private:
  void take_result(promise_base& outermost) noexcept override {
    result_.take_over(static_cast<task_promise<T>&>(outermost).result());
  }

  outcome<T> result_;
  bool taken_ = false;
};

class ERGON_EXPORT join_wait : public operation, private join_waiter {
 public:
  explicit join_wait(task_root& target) noexcept;

 protected:
  ~join_wait() = default;

 private:
  bool arm() noexcept override;
  bool disarm() noexcept override;

  task_root* target_;
};

/// Waits for the end and leaves the result where it is.
class join_operation final : public join_wait {
 public:
  using join_wait::join_wait;
  void await_resume() const noexcept {}
};

template <class T>
class join_awaiter final : public join_wait {
 public:
  explicit join_awaiter(root_state<T>& target) noexcept : join_wait(target), target_(&target) {}
  T await_resume() { return target_->take(); }
  /// What `as_result` reports without a throw.
  [[nodiscard]] std::error_code early_error() const noexcept {
    return target_->stopped() ? make_error_code(errc::cancelled) : std::error_code{};
  }

 private:
  root_state<T>* target_;
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] join_handle {
 public:
  join_handle() noexcept = default;
  join_handle(join_handle&&) noexcept = default;
  join_handle& operator=(join_handle&& other) noexcept {
    state_ = detail::root_ref<detail::root_state<T>>(std::move(other.state_));
    return *this;
  }
  /// Detaches the task if it still runs.
  ~join_handle() = default;

  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  /// Asks the task to stop: its present wait ends, or its next one does. Idempotent; without effect on a task that is done or
  /// an empty handle.
  void cancel() noexcept {
    if (state_) {
      state_->cancel();
    }
  }
  /// True for an empty handle as well.
  [[nodiscard]] bool done() const noexcept { return !state_ || state_->done(); }

  /// Waits for the task; a cancel of the waiting task ends the wait and leaves the other task alone. Gives the value or throws
  /// what the task threw, `errc::cancelled` if it was cancelled, `errc::invalid_argument` for an empty or an awaited handle.
  /// One task at a time may wait.
  detail::join_awaiter<T> operator co_await() {
    if (!state_) {
      throw error(errc::invalid_argument, "an empty join handle cannot be awaited: it was moved from, or never had a task");
    }
    return detail::join_awaiter<T>{*state_};
  }

 private:
  friend struct detail::join_access;
  explicit join_handle(detail::root_ref<detail::root_state<T>> state) noexcept : state_(std::move(state)) {}

  detail::root_ref<detail::root_state<T>> state_;
};

namespace detail {

struct join_access {
  template <class T>
  static join_handle<T> make(root_ref<root_state<T>> state) noexcept {
    return join_handle<T>{std::move(state)};
  }
  template <class T>
  static root_state<T>& state(join_handle<T>& handle) noexcept {
    return *handle.state_;
  }
};

/// Makes a root of its own for `body`; the caller launches it.
template <class T>
root_ref<root_state<T>> make_root(scheduler& home, task<T> body, std::string_view name) {
  auto const frame = task_access::release(std::move(body));
  try {
    root_ref<root_state<T>> state{new root_state<T>(home, frame.promise(), name)};
    frame.promise().set_root(state.get());
    return state;
  } catch (...) {
    frame.destroy();
    throw;
  }
}

/// Starts a root that some frame of `owner` waits for on every way out: it is in no list, whoever waits passes a cancel on.
ERGON_EXPORT void launch_owned(task_root& child) noexcept;

template <class T>
join_handle<T> spawn_owned(task_root& owner, task<T> body, std::string_view name = {}) {
  auto state = make_root<T>(owner.home(), std::move(body), name.empty() ? owner.name() : name);
  launch_owned(*state);
  return join_access::make<T>(std::move(state));
}

}  // namespace detail
}  // namespace ergon
