// Between ergon and code that uses Boost.Asio; opt-in, and the only header that includes it. Link Boost yourself.
//
// A task waits for an operation of Asio, on whatever context that runs, and goes on in its own runtime:
//
//   co_await timer.async_wait(ergon::use_ergon);
//   std::size_t n = co_await boost::asio::async_read(socket, buffer, ergon::use_ergon);
//
// What the operation's error code says is thrown as `boost::system::system_error`, as with Asio's own `use_awaitable`; `as_tuple(use_ergon)`
// gives it as a value. A cancel of the task is passed on as `cancellation_type::terminal`, on the executor of the object that the operation
// belongs to, which therefore must not run things in parallel (a strand, or a context that one thread runs). When the operation then
// ends with `operation_aborted` the task stops; if it ended well before the cancel came its result is kept, and the next wait stops. An
// operation that is no object's (a plain `post`) is waited for.
//
// The other way, code that uses Asio starts a task of ergon and is told its end with any completion token:
//
//   int n = co_await ergon::spawn_from_asio(executor, runtime, count(), boost::asio::use_awaitable);
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/outcome.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

struct use_ergon_t {};
/// The completion token: an asynchronous operation of Asio becomes a `task`, which starts it when it is awaited.
inline constexpr use_ergon_t use_ergon{};

namespace detail {

/// What is left of an operation's arguments when its error has been taken off.
template <class... Args>
struct asio_value {
  using type = std::tuple<Args...>;
};
template <>
struct asio_value<> {
  using type = void;
};
template <class T>
struct asio_value<T> {
  using type = T;
};
template <class... Rest>
struct asio_value<boost::system::error_code, Rest...> : asio_value<Rest...> {};
template <class... Rest>
struct asio_value<std::exception_ptr, Rest...> : asio_value<Rest...> {};
template <>
struct asio_value<boost::system::error_code> {
  using type = void;
};
template <>
struct asio_value<std::exception_ptr> {
  using type = void;
};

/// One operation of Asio that a task waits for; lies in the waiting frame, which outlives it.
template <class Value>
struct asio_state {
  outcome<Value> result;
  bool aborted = false;
  event ended;
  boost::asio::cancellation_signal cancel;
  event cancel_sent;

  template <class... Rest>
  void complete(boost::system::error_code failed, Rest&&... rest) {
    if (failed) {
      aborted = failed == boost::asio::error::operation_aborted;
      result.set_exception(std::make_exception_ptr(boost::system::system_error(failed)));
    } else {
      keep(std::forward<Rest>(rest)...);
    }
  }
  template <class... Rest>
  void complete(std::exception_ptr failed, Rest&&... rest) {
    if (failed != nullptr) {
      result.set_exception(std::move(failed));
    } else {
      keep(std::forward<Rest>(rest)...);
    }
  }
  template <class... Rest>
  void complete(Rest&&... rest) {
    keep(std::forward<Rest>(rest)...);
  }

 private:
  template <class... Rest>
  void keep(Rest&&... rest) {
    try {
      result.set_value(std::forward<Rest>(rest)...);
    } catch (...) {
      result.set_exception(std::current_exception());
    }
  }
};

template <class Value>
class asio_handler {
 public:
  using cancellation_slot_type = boost::asio::cancellation_slot;

  explicit asio_handler(asio_state<Value>& state) noexcept : state_(&state), slot_(state.cancel.slot()) {}
  asio_handler(asio_handler&& other) noexcept : state_(std::exchange(other.state_, nullptr)), slot_(other.slot_) {}
  asio_handler& operator=(asio_handler&&) = delete;
  ~asio_handler() {
    if (state_ != nullptr) {
      state_->result.set_exception(std::make_exception_ptr(
          error(errc::closed, "an operation of Asio was given up: its context was destroyed before it ended")));
      state_->ended.set();
    }
  }

  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot_; }

  template <class... Args>
  void operator()(Args&&... args) {
    asio_state<Value>* const state = std::exchange(state_, nullptr);
    state->complete(std::forward<Args>(args)...);
    state->ended.set();
  }

 private:
  asio_state<Value>* state_;
  cancellation_slot_type slot_;
};

/// Sends the cancel, on the executor of the operation's object.
template <class Value>
class asio_cancel {
 public:
  explicit asio_cancel(asio_state<Value>& state) noexcept : state_(&state) {}
  asio_cancel(asio_cancel&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  asio_cancel& operator=(asio_cancel&&) = delete;
  ~asio_cancel() {
    if (state_ != nullptr) {
      state_->cancel_sent.set();
    }
  }
  void operator()() { state_->cancel.emit(boost::asio::cancellation_type::terminal); }

 private:
  asio_state<Value>* state_;
};

template <class Value, class Initiation, class... Args>
task<Value> await_asio(Initiation initiation, Args... args) {
  task_root& me = co_await this_root{};
  if (me.cancelled()) {
    co_await stop_here{};
  }
  auto const executor = boost::asio::get_associated_executor(initiation);
  asio_state<Value> state;
  std::move(initiation)(asio_handler<Value>{state}, std::move(args)...);
  bool cancelled = false;
  {
    event::wait_operation until_cancelled = state.ended.wait();
    until_cancelled.report_stop();
    co_await until_cancelled;
    cancelled = until_cancelled.stopped();
  }
  if (cancelled) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(executor)>, boost::asio::system_executor>) {
      try {
        boost::asio::post(executor, asio_cancel<Value>{state});
      } catch (...) {
        // Its destructor has said that nothing is sent.
      }
      event::wait_operation sent = state.cancel_sent.wait();
      sent.ignore_cancel();
      co_await sent;
    }
    event::wait_operation to_the_end = state.ended.wait();
    to_the_end.ignore_cancel();
    co_await to_the_end;
    if (state.aborted) {
      co_await stop_here{};
    }
  }
  co_return state.result.take();
}

/// Tells Asio the end of a task: once, also where the task never starts.
template <class T, class Handler, class Executor>
class asio_completion {
 public:
  asio_completion(Handler handler, const Executor& executor)
      : works_(boost::asio::make_work_guard(handler, executor)), handler_(std::move(handler)) {}
  asio_completion(asio_completion&& other) noexcept : works_(std::move(other.works_)), handler_(std::move(other.handler_)) {
    other.handler_.reset();
  }
  asio_completion& operator=(asio_completion&&) = delete;
  ~asio_completion() {
    if (handler_) {
      fail(std::make_exception_ptr(error(errc::cancelled, "the task was cancelled")));
    }
  }

  void fail(std::exception_ptr failure) {
    if constexpr (std::is_void_v<T>) {
      send(std::move(failure));
    } else {
      send(std::move(failure), T{});
    }
  }
  template <class... Value>
  void send(std::exception_ptr failure, Value... value) {
    boost::asio::post(works_.get_executor(),
                      [handler = std::move(*handler_), failure = std::move(failure), ... value = std::move(value)]() mutable {
                        if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected()) {
                          slot.clear();
                        }
                        std::move(handler)(std::move(failure), std::move(value)...);
                      });
    handler_.reset();
    works_.reset();
  }

 private:
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Executor>> works_;
  std::optional<Handler> handler_;
};

template <class T, class Completion>
task<void> tell_asio(std::shared_ptr<join_handle<T>> body, Completion told) {
  auto& state = join_access::state(*body);
  {
    join_operation end{state};
    end.ignore_cancel();
    co_await end;
  }
  std::exception_ptr failure;
  try {
    if constexpr (std::is_void_v<T>) {
      join_access::take(*body);
      told.send(nullptr);
    } else {
      told.send(nullptr, join_access::take(*body));
    }
    co_return;
  } catch (...) {
    failure = std::current_exception();
  }
  told.fail(std::move(failure));
}

template <class T>
struct asio_signature {
  using type = void(std::exception_ptr, T);
};
template <>
struct asio_signature<void> {
  using type = void(std::exception_ptr);
};

}  // namespace detail

/// Starts `body` on the runtime and completes `token` with its end: `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` for a
/// `task<void>`. The handler runs on its associated executor, `executor` unless it has one, which is kept busy until then. A cancel of the
/// Asio operation cancels the task, which then ends with `errc::cancelled`. `T` needs a default constructor. From any thread; throws as
/// `runtime::spawn` does. The runtime must outlive the task.
template <class Executor, class T, class CompletionToken>
auto spawn_from_asio(const Executor& executor, runtime& on, task<T> body, CompletionToken&& token) {
  return boost::asio::async_initiate<CompletionToken, typename detail::asio_signature<T>::type>(
      [executor](auto handler, runtime* where, task<T> started) {
        using handler_type = decltype(handler);
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto child = std::make_shared<join_handle<T>>(where->spawn(std::move(started)));
        if (slot.is_connected()) {
          slot.assign([child](boost::asio::cancellation_type) { child->cancel(); });
        }
        auto told = detail::asio_completion<T, handler_type, Executor>{std::move(handler), executor};
        static_cast<void>(where->spawn(detail::tell_asio<T>(std::move(child), std::move(told)), "spawn_from_asio"));
      },
      token, &on, std::move(body));
}

}  // namespace ergon

template <class... Args>
class boost::asio::async_result<ergon::use_ergon_t, void(Args...)> {
  using value = typename ergon::detail::asio_value<std::decay_t<Args>...>::type;

 public:
  using return_type = ergon::task<value>;

  template <class Initiation, class... InitArgs>
  static return_type initiate(Initiation initiation, ergon::use_ergon_t, InitArgs... args) {
    return ergon::detail::await_asio<value>(std::move(initiation), std::move(args)...);
  }
};
