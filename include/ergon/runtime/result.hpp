// `as_result`: sees how a wait ended as a value. Where a plain `co_await` would take the stopped path, it gives
// `errc::cancelled` and the coroutine goes on; the next cancellable wait stops again, because the task stays cancelled.
#pragma once

#include <concepts>
#include <coroutine>
#include <expected>
#include <system_error>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

template <class A>
decltype(auto) get_awaiter(A&& awaitable) {
  if constexpr (requires { std::forward<A>(awaitable).operator co_await(); }) {
    return std::forward<A>(awaitable).operator co_await();
  } else {
    return std::forward<A>(awaitable);
  }
}

/// The ends of a wait that `as_result` turns into values; other exceptions travel on.
inline bool ends_a_wait(const error& e) noexcept {
  return e.reason() == errc::cancelled || e.reason() == errc::timed_out || e.reason() == errc::closed;
}

template <class T, class F>
std::expected<T, std::error_code> as_expected(F&& resume) {
  try {
    if constexpr (std::is_void_v<T>) {
      std::forward<F>(resume)();
      return {};
    } else {
      return std::forward<F>(resume)();
    }
  } catch (const error& e) {
    if (!ends_a_wait(e)) {
      throw;
    }
    return std::unexpected(e.code());
  }
}

/// `Awaiter` is a reference where the awaitable is its own awaiter and outlives the expression.
template <class Awaiter>
class result_awaiter {
 public:
  template <class A>
    requires(!std::same_as<std::remove_cvref_t<A>, result_awaiter>)
  explicit result_awaiter(A&& awaitable) : inner_(get_awaiter(std::forward<A>(awaitable))) {}

  bool await_ready() { return inner_.await_ready(); }
  template <class Promise>
  decltype(auto) await_suspend(std::coroutine_handle<Promise> frame) {
    if constexpr (requires { inner_.report_stop(); }) {
      inner_.report_stop();
    }
    return inner_.await_suspend(frame);
  }
  auto await_resume() {
    using value = decltype(inner_.await_resume());
    using result = std::expected<std::remove_cvref_t<value>, std::error_code>;
    if constexpr (requires { inner_.stopped(); }) {
      if (inner_.stopped()) {
        return result(std::unexpected(make_error_code(errc::cancelled)));
      }
    }
    if constexpr (requires { inner_.early_error(); }) {
      if (std::error_code const e = inner_.early_error()) {
        return result(std::unexpected(e));
      }
    }
    return as_expected<std::remove_cvref_t<value>>([this]() -> value { return inner_.await_resume(); });
  }

 private:
  Awaiter inner_;
};

/// A child frame where the stopped path ends; how its end is seen is the derived class's.
template <class T>
class boundary_frame {
 public:
  explicit boundary_frame(task<T> body) : child_(task_access::release(std::move(body))) {}
  boundary_frame(boundary_frame&& other) noexcept : child_(std::exchange(other.child_, nullptr)) {}
  ~boundary_frame() {
    if (child_ != nullptr) {
      child_.destroy();
    }
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    auto const child = std::exchange(child_, nullptr);
    running_ = child;
    child.promise().set_parent(parent.promise(), true);
    root_ = child.promise().root();
    return transfer(child);
  }

 protected:
  /// The stopped path was taken; then there is no result, else it is taken once.
  [[nodiscard]] bool unwound() noexcept { return root_->take_unwound(); }
  T take() {
    frame_end<T> const destroys{running_};
    return running_.promise().take_result();
  }

 private:
  std::coroutine_handle<task_promise<T>> child_;
  std::coroutine_handle<task_promise<T>> running_ = nullptr;
  task_root* root_ = nullptr;
};

template <class T>
class boundary_awaiter final : public boundary_frame<T> {
 public:
  using boundary_frame<T>::boundary_frame;
  std::expected<T, std::error_code> await_resume() {
    if (this->unwound()) {
      return std::unexpected(make_error_code(errc::cancelled));
    }
    return as_expected<T>([this]() -> T { return this->take(); });
  }
};

}  // namespace detail

/// Awaits a task and gives `std::expected<T, std::error_code>`: `errc::cancelled` where the task was stopped, and the errors
/// `cancelled`, `timed_out` and `closed` that it threw; everything else is thrown on.
template <class T>
  requires(!std::is_reference_v<T>)
detail::boundary_awaiter<T> as_result(task<T> body) {
  return detail::boundary_awaiter<T>{std::move(body)};
}

/// The same for a wait, in one expression: `co_await as_result(event.wait())`, `co_await as_result(handle)`.
template <class Awaitable>
  requires(!detail::is_task<std::remove_cvref_t<Awaitable>>)
auto as_result(Awaitable&& awaitable) {
  return detail::result_awaiter<decltype(detail::get_awaiter(std::forward<Awaitable>(awaitable)))>{
      std::forward<Awaitable>(awaitable)};
}

}  // namespace ergon
