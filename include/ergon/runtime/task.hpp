// `task<T>`: a lazy coroutine. It starts when it is awaited (on the awaiter's root and thread) or spawned, is awaited once, and
// gives its value or its exception to the awaiter. A task object belongs to one thread at a time.
//
// From the moment it is awaited its frame belongs to the chain: it is destroyed when its result has been taken, or leaf first
// when the chain is stopped by a cancel. Awaiting uses constant stack however many awaits complete at once.
//
// A coroutine's parameters are copied into its frame, references are not extended: a task that outlives the full expression
// must not take what it refers to by reference, and a lambda that is a coroutine must not capture.
#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/promise.hpp>

namespace ergon {

template <class T = void>
class task;

namespace detail {

[[noreturn]] ERGON_EXPORT void refuse_empty_task();

template <class T>
class task_promise final : public promise_base {
 public:
  task<T> get_return_object() noexcept;
  template <class U = T>
    requires std::convertible_to<U&&, T>
  void return_value(U&& value) {
    value_.set(std::forward<U>(value));
  }

  /// The value, moved out, or the exception, thrown. Of a frame that has ended.
  T take_result() {
    rethrow_failure();
    return value_.take();
  }
  /// Of a frame that has ended with a value.
  T take_value() { return value_.take(); }
  void drop_value() noexcept { value_.drop(); }
  /// Ends the value's or the exception's life. Of a frame that has ended, once.
  void drop_result() noexcept {
    if (!stopped() && !drop_failure()) {
      value_.drop();
    }
  }

 private:
  value_slot<T> value_;
};

template <>
class task_promise<void> final : public promise_base {
 public:
  task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take_result() { rethrow_failure(); }
  void drop_value() noexcept {}
  void drop_result() noexcept {
    if (!stopped()) {
      drop_failure();
    }
  }
};

struct task_access;

/// Drops the result of a frame that has ended, and the frame.
template <class T>
struct frame_end {
  std::coroutine_handle<task_promise<T>> frame;
  ~frame_end() {
    frame.promise().drop_result();
    frame.destroy();
  }
};

template <class T>
class task_awaiter {
 public:
  using promise = task_promise<T>;

  explicit task_awaiter(std::coroutine_handle<promise> child) noexcept : child_(child) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    child_.promise().set_parent(parent.promise(), false);
    return transfer(child_);
  }
  T await_resume() {
    frame_end<T> const destroys{child_};
    return child_.promise().take_result();
  }

 private:
  std::coroutine_handle<promise> child_;
};

}  // namespace detail

template <class T>
class [[nodiscard]] task {
 public:
  using promise_type = detail::task_promise<T>;
  using value_type = T;

  task() noexcept = default;
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      frame_ = std::exchange(other.frame_, nullptr);
    }
    return *this;
  }
  /// Destroys a task that was never started, with its parameters.
  ~task() { reset(); }

  /// False once it was awaited, spawned or moved from.
  explicit operator bool() const noexcept { return frame_ != nullptr; }

  /// Starts it and waits for its end. Throws `errc::invalid_argument` if it is empty, what the task threw otherwise.
  detail::task_awaiter<T> operator co_await() && { return detail::task_awaiter<T>{release()}; }

 private:
  friend struct detail::task_access;
  friend promise_type;

  explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
  void reset() noexcept {
    if (frame_ != nullptr) {
      std::exchange(frame_, nullptr).destroy();
    }
  }
  void check() const {
    if (frame_ == nullptr) [[unlikely]] {
      detail::refuse_empty_task();
    }
  }
  std::coroutine_handle<promise_type> release() {
    check();
    return std::exchange(frame_, nullptr);
  }

  std::coroutine_handle<promise_type> frame_ = nullptr;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
  static_assert(alignof(task_promise) <= 16);
  return task<T>{std::coroutine_handle<task_promise>::from_promise(*this)};
}
inline task<void> task_promise<void>::get_return_object() noexcept {
  return task<void>{std::coroutine_handle<task_promise>::from_promise(*this)};
}

struct task_access {
  template <class T>
  static std::coroutine_handle<task_promise<T>> release(task<T>&& from) {
    return from.release();
  }
  /// Of one that is not empty.
  template <class T>
  static task_promise<T>& promise(const task<T>& of) noexcept {
    return of.frame_.promise();
  }
  /// Throws `errc::invalid_argument` if it is empty.
  template <class T>
  static void check(const task<T>& body) {
    body.check();
  }
};

/// What stands for a task's value in a tuple or variant: `void` has none.
template <class T>
using value_of = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

}  // namespace detail
}  // namespace ergon
