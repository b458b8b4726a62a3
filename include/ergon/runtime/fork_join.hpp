// `fork_join`: computes in parallel. The branches may run on as many workers at once; the waiting task goes on when all have ended.
//
//   task<long> fib(int n) {
//     if (n < 2) co_return n;
//     auto [a, b] = co_await ergon::fork_join(fib(n - 1), fib(n - 2));
//     co_return a + b;
//   }
//
// The first branch begins at once on the calling worker, the others when it has nothing newer to do or another worker takes them,
// oldest first. A branch costs no more than its frame and one or two atomic steps, so a tree of them may be as fine as a call of a function. It
// may wait for anything that a task may wait for, and a cancel of the task reaches every branch.
//
// Against `when_all`: a branch is part of its task, is not counted among the living ones, and listed only while it waits. A branch that
// throws does not stop the others.
#pragma once

#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

/// Lies in the frame that waits. The branches' frames are its own: they end before it does.
class ERGON_EXPORT fork_base {
 public:
  fork_base(const fork_base&) = delete;
  fork_base& operator=(const fork_base&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return count_ == 0; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return begin(frame.promise());
  }
  /// For `as_result`: branches that were stopped do not stop the waiting frame.
  void report_stop() noexcept { reports_stop_ = true; }
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

 protected:
  fork_base() = default;
  ~fork_base() = default;
  void set_branches(promise_base* const* first, std::size_t count) noexcept {
    branches_ = first;
    count_ = static_cast<std::uint32_t>(count);
  }

  template <class T>
  [[nodiscard]] task_promise<T>& promise(std::size_t index) const noexcept {
    return static_cast<task_promise<T>&>(*branches_[index]);
  }
  /// Ends the life of a branch: its result, its frame.
  template <class T>
  void destroy(std::size_t index) noexcept {
    task_promise<T>& branch = promise<T>(index);
    if (all_succeeded_) [[likely]] {
      branch.drop_value();
    } else if (waiter_ == nullptr) {
      branch.handle().destroy();
      return;
    } else {
      branch.drop_result();
    }
    branch.destroy_branch();
  }

  bool all_succeeded_ = false;

 private:
  friend class task_root;
  struct waiting_forks;

  std::coroutine_handle<> begin(promise_base& waiter) noexcept;
  /// Of a branch that has ended and counts: the next one, if it stands newest in this worker's deque, begins and counts for both.
  promise_base* pass_on(const task_root& ended) noexcept;
  /// True: that was the last branch, and nobody else knows of the fork any more.
  bool count_off(const task_root& branch) noexcept;
  /// A branch has ended; what goes on.
  std::coroutine_handle<> branch_ended(const task_root& branch) noexcept;
  /// A branch was stopped, its frame is still there; the next frame to stop, or null.
  static promise_base* branch_stopped(promise_base& at) noexcept;
  /// A branch of any fork is about to wait.
  static void publish(task_root& branch) noexcept;
  void make_known(task_root& branch) noexcept;
  static void cancel_branches(task_root& top) noexcept;
  static waiting_forks& shard_of(task_root& top) noexcept;

  promise_base* waiter_ = nullptr;
  promise_base* const* branches_ = nullptr;
  // In the list of those of which a branch has waited, and under its lock.
  fork_base* before_ = nullptr;
  fork_base* after_ = nullptr;
  std::atomic<std::uint32_t> left_{0};
  std::uint32_t count_ = 0;
  /// Branches that have ended and that the one that counts will count. Its own.
  std::uint32_t ended_ = 0;
  /// Branches below are cancelled.
  std::uint32_t cancelled_to_ = 0;
  bool listed_ = false;
  std::atomic<bool> stopped_{false};
  bool reports_stop_ = false;
};

template <class... T>
class fork_awaiter final : public fork_base {
 public:
  explicit fork_awaiter(std::coroutine_handle<task_promise<T>>... frames) noexcept : branches_{&frames.promise()...} {
    set_branches(branches_.data(), sizeof...(T));
  }
  ~fork_awaiter() {
    each([this]<class U>(std::type_identity<U>, std::size_t i) { this->template destroy<U>(i); });
  }
  std::tuple<value_of<T>...> await_resume() {
    each([this]<class U>(std::type_identity<U>, std::size_t i) { this->template promise<U>(i).rethrow_failure(); });
    all_succeeded_ = true;
    return [this]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<value_of<T>...>{this->template value<T>(I)...};
    }(std::index_sequence_for<T...>{});
  }

 private:
  template <class F>
  [[gnu::always_inline]] static void each(F visit) {
    std::size_t i = 0;
    (visit(std::type_identity<T>{}, i++), ...);
  }
  template <class U>
  value_of<U> value(std::size_t index) {
    if constexpr (std::is_void_v<U>) {
      return {};
    } else {
      return this->template promise<U>(index).take_value();
    }
  }

  std::array<promise_base*, sizeof...(T)> branches_;
};

template <class T>
class fork_all_awaiter final : public fork_base {
 public:
  explicit fork_all_awaiter(std::vector<promise_base*> frames) noexcept : branches_(std::move(frames)) {
    set_branches(branches_.data(), branches_.size());
  }
  ~fork_all_awaiter() {
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      this->template destroy<T>(i);
    }
  }
  auto await_resume() {
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      this->template promise<T>(i).rethrow_failure();
    }
    this->all_succeeded_ = true;
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(branches_.size());
      for (std::size_t i = 0; i < branches_.size(); ++i) {
        values.push_back(this->template promise<T>(i).take_result());
      }
      return values;
    }
  }

 private:
  std::vector<promise_base*> branches_;
};

}  // namespace detail

/// Gives the values in the order of the branches; a `task<void>` gives `std::monostate`. When all have ended it throws what the first of
/// those that failed threw. Throws `errc::invalid_argument` for an empty task, and then no branch begins.
template <class... T>
  requires(sizeof...(T) > 0 && (!std::is_reference_v<T> && ...))
[[nodiscard]] detail::fork_awaiter<T...> fork_join(task<T>... bodies) {
  (detail::task_access::check(bodies), ...);
  return detail::fork_awaiter<T...>{detail::task_access::release(std::move(bodies))...};
}

/// The same for any number of tasks of one type: gives a `std::vector<T>`, of `task<void>` nothing. Throws `std::bad_alloc` as well.
template <class T>
  requires(!std::is_reference_v<T>)
[[nodiscard]] detail::fork_all_awaiter<T> fork_join(std::vector<task<T>> bodies) {
  for (const task<T>& body : bodies) {
    detail::task_access::check(body);
  }
  std::vector<detail::promise_base*> frames(bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    frames[i] = &detail::task_access::release(std::move(bodies[i])).promise();
  }
  return detail::fork_all_awaiter<T>{std::move(frames)};
}

}  // namespace ergon
