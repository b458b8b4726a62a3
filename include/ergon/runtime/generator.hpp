// `generator<T>`: a coroutine that gives a value each time it is asked for one, and may wait for anything in between.
//
//   ergon::generator<std::string> lines(file& from) {
//     while (auto line = co_await from.read_line()) {
//       co_yield std::move(*line);
//     }
//   }
//
//   auto g = lines(from);
//   while (auto line = co_await g.next()) use(*line);
//
// The body runs inside `next()`, as a frame of the task that awaits it: on its thread and under its root. Between two calls it
// stands still at a `co_yield`. It starts with the first call, and a call neither allocates nor grows the stack.
//
// Its end. The generator owns the frame while the body stands still, the chain of the awaiting task while it runs. So a frame that
// is destroyed leaf first, because a cancel stopped the task, takes itself out of its generator, which has ended then. A generator
// that is destroyed before its end destroys the frame where it stands, with its variables. Destructors are all the clean-up there
// is: a body that must wait in order to tidy up is a task and a `channel`, not a generator.
//
// A generator belongs to one task at a time. A word says whether the body runs, so that two calls at once are refused, from
// whatever threads they come.
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/promise.hpp>

namespace ergon {

template <class T>
class generator;

namespace detail {

/// Back to the task that asked; the coroutine goes on with its next call.
class yield_awaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) const noexcept {
    return transfer(frame.promise().parent()->handle());
  }
  void await_resume() const noexcept {}
};

/// The same for a value that was made of what `co_yield` was given; it lies in the frame.
template <class T>
class made_value_awaiter : public yield_awaiter {
 public:
  template <class U>
    requires(!std::same_as<std::remove_cvref_t<U>, made_value_awaiter>)
  explicit made_value_awaiter(U&& from) : value_(std::forward<U>(from)) {}

  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return frame.promise().yield_value(std::move(value_)).await_suspend(frame);
  }

 private:
  T value_;
};

template <class T>
class generator_promise final : public promise_base {
 public:
  using value = std::remove_reference_t<T>;

  ~generator_promise() {
    if (owner_ != nullptr) {
      owner_->forget_frame();
    }
  }

  generator<T> get_return_object() noexcept;
  // It is never a root: at its end, too, who asked goes on.
  yield_awaiter final_suspend() const noexcept { return {}; }
  void return_void() noexcept {}

  // What is yielded stays where it is until the next call: the operand of `co_yield` lives as long.
  yield_awaiter yield_value(T&& given) noexcept {
    yielded_ = std::addressof(given);
    return {};
  }
  template <class U>
    requires(!std::is_reference_v<T> && !std::same_as<U, T> && std::convertible_to<U, T>)
  made_value_awaiter<T> yield_value(U&& given) {
    return made_value_awaiter<T>(std::forward<U>(given));
  }

  void set_owner(generator<T>* owner) noexcept { owner_ = owner; }
  [[nodiscard]] value& yielded() const noexcept { return *yielded_; }

 private:
  generator<T>* owner_ = nullptr;
  value* yielded_ = nullptr;
};

template <class T>
class [[nodiscard]] next_awaiter {
 public:
  explicit next_awaiter(generator<T>& from) noexcept : from_(&from) {}

  /// Throws `errc::invalid_argument` if the body runs already, or there is none.
  bool await_ready() const { return !from_->begin(); }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    auto const frame = from_->frame_;
    frame.promise().set_parent(parent.promise(), boundary_);
    root_ = frame.promise().root();
    return transfer(frame);
  }
  auto await_resume() { return from_->take(); }

  // For `as_result`: the stopped path ends here.
  void report_stop() noexcept { boundary_ = true; }
  [[nodiscard]] bool stopped() const noexcept { return root_ != nullptr && root_->take_unwound(); }

 private:
  generator<T>* from_;
  task_root* root_ = nullptr;
  bool boundary_ = false;
};

}  // namespace detail

/// `T` is a value, or an lvalue reference to what the body yields.
template <class T>
class [[nodiscard]] generator {
  static_assert(!std::is_void_v<T> && !std::is_rvalue_reference_v<T>, "a generator gives values, or lvalue references");

 public:
  using promise_type = detail::generator_promise<T>;
  /// What `next` gives: `std::optional<T>`, of a reference a pointer. Both are empty at the end.
  using next_type = std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, std::optional<T>>;

  generator() noexcept = default;
  /// Neither may be in a `next()`.
  generator(generator&& other) noexcept { take_over(other); }
  generator& operator=(generator&& other) noexcept {
    if (this != &other) {
      reset();
      take_over(other);
    }
    return *this;
  }
  /// Destroys the frame with its variables, if the body has not ended. Not during a `next()`.
  ~generator() { reset(); }

  /// `auto v = co_await g.next();` Lets the body run to its next `co_yield` and gives what it yields: a value is moved out, a
  /// pointer is good until the next call or the generator's end. Nothing once the body has ended, this time or before.
  ///
  /// Throws what the body throws, which ends it; `errc::invalid_argument` for a generator that is empty, and for one whose
  /// `next()` is awaited by somebody else at this moment, who is not disturbed. Cancellable where the body waits: that ends
  /// the generator, and `as_result(g.next())` sees it as `errc::cancelled`.
  [[nodiscard]] detail::next_awaiter<T> next() noexcept { return detail::next_awaiter<T>{*this}; }

 private:
  friend promise_type;
  friend detail::next_awaiter<T>;

  enum class state : std::uint8_t { empty, stands, runs, ended };

  explicit generator(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame), state_(state::stands) {
    frame_.promise().set_owner(this);
  }

  // False: it has ended. Otherwise the caller is the only one until it takes the result.
  bool begin() {
    state seen = state::stands;
    if (state_.compare_exchange_strong(seen, state::runs, std::memory_order_acquire)) {
      return true;
    }
    if (seen == state::ended) {
      return false;
    }
    throw error(errc::invalid_argument,
                seen == state::runs ? "a generator was asked for a value while its next() is awaited: one task at a time may ask"
                                    : "an empty generator was asked for a value: it was moved from, or never given a body");
  }

  next_type take() {
    if (frame_ == nullptr) {
      return {};
    }
    if (frame_.done()) {
      struct frame_end {
        std::coroutine_handle<promise_type> frame;
        ~frame_end() {
          frame.promise().drop_failure();
          frame.destroy();
        }
      } const destroys{frame_};
      frame_.promise().rethrow_failure();
      return {};
    }
    struct stands_again {
      generator& which;
      ~stands_again() { which.state_.store(state::stands, std::memory_order_release); }
    } const after{*this};
    if constexpr (std::is_reference_v<T>) {
      return std::addressof(frame_.promise().yielded());
    } else {
      return std::optional<T>{std::move(frame_.promise().yielded())};
    }
  }

  // The frame goes, whoever destroys it.
  void forget_frame() noexcept {
    frame_ = nullptr;
    state_.store(state::ended, std::memory_order_release);
  }

  void check_stands(const char* text) const noexcept {
    if (state_.load(std::memory_order_acquire) == state::runs) {
      detail::fatal(text);
    }
  }
  void reset() noexcept {
    check_stands("ergon: a generator was destroyed while its next() is awaited");
    if (frame_ != nullptr) {
      frame_.destroy();
    }
  }
  void take_over(generator& other) noexcept {
    other.check_stands("ergon: a generator was moved while its next() is awaited");
    frame_ = std::exchange(other.frame_, nullptr);
    state_.store(other.state_.exchange(state::empty, std::memory_order_relaxed), std::memory_order_relaxed);
    if (frame_ != nullptr) {
      frame_.promise().set_owner(this);
    }
  }

  std::coroutine_handle<promise_type> frame_ = nullptr;
  std::atomic<state> state_{state::empty};
};

namespace detail {

template <class T>
generator<T> generator_promise<T>::get_return_object() noexcept {
  static_assert(alignof(generator_promise) <= 16);
  return generator<T>{std::coroutine_handle<generator_promise>::from_promise(*this)};
}

}  // namespace detail
}  // namespace ergon
