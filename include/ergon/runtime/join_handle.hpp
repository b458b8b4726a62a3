// `join_handle<T>`: the other end of a spawned task. Awaiting it gives the task's value or exception; dropping it detaches the
// task, which the runtime still counts and ends at shutdown. A handle belongs to one thread at a time, except `cancel` and
// `done`, which any thread may call while no other moves or destroys it.
#pragma once

#include <atomic>
#include <cstdint>
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

/// The owner of a root's result: holds a reference, and drops the result when it goes if nobody took it.
template <class T>
class result_owner {
 public:
  result_owner() = default;
  /// Takes over the owner's reference of a root.
  explicit result_owner(task_promise<T>* root) noexcept : bits_(reinterpret_cast<std::uintptr_t>(root)) {}
  result_owner(result_owner&& other) noexcept : bits_(other.move_out()) {}
  result_owner& operator=(result_owner&& other) noexcept {
    result_owner const gone{std::move(*this)};
    bits_.store(other.move_out(), std::memory_order_relaxed);
    return *this;
  }
  ~result_owner() { static_cast<void>(let_go()); }
  /// Gives the result up. Before the launch the task itself keeps the root.
  task_promise<T>* let_go() noexcept {
    task_promise<T>* const root = get();
    if (root != nullptr) {
      bool const both = root->has_kept();
      if (!was_taken() && (both || root->disown())) {
        root->drop_result();
      }
      bits_.store(0, std::memory_order_relaxed);
      if (both) {
        root->release_both();
      } else {
        root->release();
      }
    }
    return root;
  }
  /// Once the root is done: its value, moved out, or what it threw. Throws `errc::cancelled` if it was stopped, `errc::invalid_argument` if
  /// the result was taken before.
  T take() {
    if (was_taken()) {
      throw error(errc::invalid_argument, "the result of a task can be taken once: this handle was awaited before");
    }
    bits_.store(bits() | taken, std::memory_order_relaxed);
    task_promise<T>& root = *get();
    if (root.stopped()) {
      throw error(errc::cancelled, "the task was cancelled");
    }
    struct drop {
      task_promise<T>& root;
      ~drop() { root.drop_result(); }
    } const at_once{root};
    return root.take_result();
  }
  [[nodiscard]] task_promise<T>* get() const noexcept { return reinterpret_cast<task_promise<T>*>(bits() & ~taken); }
  task_promise<T>* operator->() const noexcept { return get(); }
  task_promise<T>& operator*() const noexcept { return *get(); }
  explicit operator bool() const noexcept { return bits() != 0; }

 private:
  static constexpr std::uintptr_t taken = 1;
  [[nodiscard]] bool was_taken() const noexcept { return (bits() & taken) != 0; }
  [[nodiscard]] std::uintptr_t bits() const noexcept { return bits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uintptr_t move_out() noexcept {
    std::uintptr_t const had = bits();
    bits_.store(0, std::memory_order_relaxed);
    return had;
  }

  // The root, and whether its result was taken. Atomic for those who look at the handle meanwhile.
  std::atomic<std::uintptr_t> bits_{0};
};

class ERGON_EXPORT join_wait : public operation, private join_waiter {
 public:
  explicit join_wait(task_root& target) noexcept;

  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return begin_join(frame.promise());
  }

 protected:
  ~join_wait() = default;

 private:
  friend class task_root;

  std::coroutine_handle<> begin_join(promise_base& leaf) noexcept;
  [[nodiscard]] bool call_target(promise_base& leaf) noexcept;
  /// The waiting task and its target become known to others.
  task_root& publish() noexcept;
  bool try_now() noexcept override { return target_->done(); }
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
  explicit join_awaiter(result_owner<T>& target) noexcept : join_wait(*target), target_(&target) {}
  T await_resume() { return target_->take(); }
  /// What `as_result` reports without a throw.
  [[nodiscard]] std::error_code early_error() const noexcept {
    return (*target_)->stopped() ? make_error_code(errc::cancelled) : std::error_code{};
  }

 private:
  result_owner<T>* target_;
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] join_handle {
 public:
  join_handle() noexcept = default;
  join_handle(join_handle&&) noexcept = default;
  join_handle& operator=(join_handle&&) noexcept = default;
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

  /// Waits for the task; a cancel of the waiting task ends the wait and leaves the other task alone. (A task that nobody has begun runs here as if
  /// it was called: then the cancel waits until that task waits, ends, or asks whether it is cancelled.) Gives the value or throws
  /// what the task threw, `errc::cancelled` if it was cancelled, `errc::invalid_argument` for an empty or an awaited handle.
  /// One task at a time may wait.
  detail::join_awaiter<T> operator co_await() {
    if (!state_) {
      throw error(errc::invalid_argument, "an empty join handle cannot be awaited: it was moved from, or never had a task");
    }
    return detail::join_awaiter<T>{state_};
  }

 private:
  friend struct detail::join_access;
  explicit join_handle(detail::result_owner<T> state) noexcept : state_(std::move(state)) {}

  detail::result_owner<T> state_;
};

namespace detail {

struct join_access {
  template <class T>
  static join_handle<T> make(result_owner<T> state) noexcept {
    return join_handle<T>{std::move(state)};
  }
  template <class T>
  static task_promise<T>& state(join_handle<T>& handle) noexcept {
    return *handle.state_;
  }
  /// Once it is done; see `result_owner::take`.
  template <class T>
  static T take(join_handle<T>& handle) {
    return handle.state_.take();
  }
};

/// The owner of the result of what has been made a root.
template <class T>
result_owner<T> own_result(task<T>&& body) noexcept {
  return result_owner<T>{&task_access::release(std::move(body)).promise()};
}

/// Makes a root of `body`; the caller launches it. Throws `errc::invalid_argument` for an empty task, `std::bad_alloc`.
template <class T>
result_owner<T> make_root(scheduler& home, task<T> body, std::string_view name) {
  task_access::check(body);
  task_access::promise(body).become_root(home, name);
  return own_result<T>(std::move(body));
}

/// Makes a root and starts it on the runtime of the calling worker, else on the default runtime. Throws `std::bad_alloc`, `errc::closed`, and then
/// it is none.
ERGON_EXPORT void start_here(task_root& root, std::string_view name);

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
