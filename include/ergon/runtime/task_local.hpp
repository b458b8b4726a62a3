// Values that belong to a task and to what it starts: a trace, a request, a tenant.
//
//   constinit const ergon::task_local<trace_id> current_trace;
//
//   co_await current_trace.with(id, handle(request));       // what runs below, and what it spawns, sees the value
//   if (const trace_id* id = current_trace.get()) { … }     // in any function that such a task calls
//
// A value is set for the length of one wait and never changes meanwhile. Tasks that are spawned while it is set, children of groups and
// branches of forks take it along and keep it alive; they may read it at the same time on several threads. A task that sets none and
// inherits none pays nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/root.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

/// One value, and those that were set around it. Counted: tasks share them.
class ERGON_EXPORT local_binding {
 public:
  explicit local_binding(const void* key) noexcept : key_(key) {}
  local_binding(const local_binding&) = delete;
  local_binding& operator=(const local_binding&) = delete;
  virtual ~local_binding();

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  static void release(local_binding* from) noexcept;
  /// Takes over a reference to `outer`.
  void set_outer(local_binding* outer) noexcept { outer_ = outer; }
  /// The innermost with that key, from `from` outwards.
  static const local_binding* find(const local_binding* from, const void* key) noexcept;

 private:
  const void* key_;
  local_binding* outer_ = nullptr;
  std::atomic<std::size_t> references_{1};
};

template <class T>
class bound_value final : public local_binding {
 public:
  bound_value(const void* key, T&& held) : local_binding(key), value(std::move(held)) {}
  T value;
};

/// Sets a value of a task while it lives.
class ERGON_EXPORT local_scope {
 public:
  local_scope(task_root& of, std::unique_ptr<local_binding> binding);
  local_scope(const local_scope&) = delete;
  local_scope& operator=(const local_scope&) = delete;
  ~local_scope();

 private:
  task_root* root_;
  local_binding* before_;
};

/// What the task that runs on this thread has; null outside of tasks.
[[nodiscard]] ERGON_EXPORT const local_binding* current_locals() noexcept;

}  // namespace detail

template <class T>
  requires std::is_nothrow_move_constructible_v<T>
class task_local {
 public:
  constexpr task_local() noexcept = default;
  /// Its address is its name: it must outlive every task that has a value of it.
  task_local(const task_local&) = delete;
  task_local& operator=(const task_local&) = delete;

  /// The value of the task that runs on this thread; null where none is set, and on threads that run no task (a pool's, in `blocking`).
  /// Valid while the innermost `with` around the caller lasts.
  [[nodiscard]] const T* get() const noexcept {
    const auto* const found = detail::local_binding::find(detail::current_locals(), this);
    return found != nullptr ? &static_cast<const detail::bound_value<T>*>(found)->value : nullptr;
  }

  /// Runs `body` with the value set. Gives what it gives. Throws `std::bad_alloc` as well.
  template <class R>
  [[nodiscard]] task<R> with(T value, task<R> body) const {
    detail::task_root& me = co_await detail::this_root{};
    detail::local_scope const scope{me, std::make_unique<detail::bound_value<T>>(this, std::move(value))};
    if constexpr (std::is_void_v<R>) {
      co_await std::move(body);
    } else {
      co_return co_await std::move(body);
    }
  }
};

}  // namespace ergon
