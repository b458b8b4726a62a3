// `blocking(f)`: runs a call that blocks (a file, a database, a computation) on a thread that may block, while the task waits.
// The runtime has no such threads: somebody installs an executor, which is what a `pool` is.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/outcome.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {

/// Threads that may block. All members may be called from any thread.
class ERGON_EXPORT blocking_executor {
 public:
  blocking_executor() = default;
  blocking_executor(const blocking_executor&) = delete;
  blocking_executor& operator=(const blocking_executor&) = delete;
  virtual ~blocking_executor();

  /// Takes the item and runs it once, later, on one of its threads. False: it was closed, and the item is still the caller's.
  [[nodiscard]] virtual bool execute(work& item) noexcept = 0;
};

namespace detail {

template <class F>
using blocking_result = typename std::conditional_t<std::is_invocable_v<F&, std::stop_token>,
                                                    std::invoke_result<F&, std::stop_token>, std::invoke_result<F&>>::type;

/// One call on an executor; lies in the awaiting frame.
template <class F>
class blocking_call : public work {
 public:
  using result_type = blocking_result<F>;

  blocking_call(F& f, std::stop_token token) : f_(f), token_(std::move(token)) {}
  ~blocking_call() = default;

  void run() noexcept override { call(); }

  completion done;
  outcome<result_type> result;

 protected:
  void call() noexcept {
    try {
      if constexpr (std::is_void_v<result_type>) {
        invoke();
        result.set_value();
      } else {
        result.set_value(invoke());
      }
    } catch (...) {
      result.set_exception(std::current_exception());
    }
    done.complete();
  }

 private:
  result_type invoke() {
    if constexpr (std::is_invocable_v<F&, std::stop_token>) {
      return std::invoke(f_, token_);
    } else {
      return std::invoke(f_);
    }
  }

  F& f_;
  std::stop_token token_;
};

/// The executor of the root's runtime. Throws `errc::invalid_argument` where none is installed.
ERGON_EXPORT std::shared_ptr<blocking_executor> executor_for(task_root& root);
[[noreturn]] ERGON_EXPORT void throw_executor_closed();

/// The task's token, for a call that takes one.
template <class F>
std::stop_token token_for(task_root& root) {
  if constexpr (std::is_invocable_v<F&, std::stop_token>) {
    return root.stop_token();
  } else {
    return {};
  }
}

template <class F>
task<blocking_result<F>> run_blocking(F f) {
  task_root& me = co_await this_root{};
  auto const executor = executor_for(me);
  blocking_call<F> call{f, token_for<F>(me)};
  if (!executor->execute(call)) {
    throw_executor_closed();
  }
  co_await call.done;
  if (me.cancelled()) {
    co_await stop_here{};
  }
  co_return call.result.take();
}

}  // namespace detail

/// Runs `f()`, or `f(std::stop_token)` where it takes one, on the runtime's executor; gives its result or throws what it throws.
/// A cancel requests the token's stop; the wait goes on until `f` returns, and then takes the stopped path. Throws
/// `errc::invalid_argument` where no executor is installed, `errc::closed` where it was closed.
template <class F>
  requires std::invocable<F&> || std::invocable<F&, std::stop_token>
task<detail::blocking_result<F>> blocking(F f) {
  return detail::run_blocking<F>(std::move(f));
}

}  // namespace ergon
