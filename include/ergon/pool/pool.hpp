// `pool`: threads that may block or compute for long. Threads start when they are needed, up to a maximum, and sleep in the kernel
// when there is nothing; none runs ahead of its work.
//
// Tasks await `run`; plain code takes a `std::future` from `submit`. What waits is started in the order in which it came, also
// what can be cancelled. Any thread may call any member, except that the pool must not be closed or destroyed on one of its own
// threads.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

struct pool_options {
  /// 1 to 4096; 0 means as many as the process is granted CPUs.
  unsigned max_threads = 0;
  /// How many calls may wait for a thread; 0 means any number. Past it `run` waits (in the order of arrival) and `submit` blocks.
  std::size_t max_queue = 0;
  /// What the threads are called in a debugger, with a number behind it.
  std::string name = "ergon-pool";
};

namespace detail {

class pool_threads;

/// Null where the queue is unbounded. A permit is held from before a call is queued until it is started.
ERGON_EXPORT semaphore* room_of(pool_threads& in) noexcept;
ERGON_EXPORT bool enqueue(pool_threads& in, work& item) noexcept;
/// On the pool's thread: a call that held a permit has left the queue.
ERGON_EXPORT void leave_queue(pool_threads& in) noexcept;
[[noreturn]] ERGON_EXPORT void throw_pool_closed();

/// A call in the frame of the task that awaits it.
template <class F>
class awaited_call final : public blocking_call<F> {
 public:
  awaited_call(pool_threads& in, F& f, std::stop_token token) : blocking_call<F>(f, std::move(token)), threads_(&in) {}

  void run() noexcept override {
    leave_queue(*threads_);
    this->call();
  }

 private:
  pool_threads* threads_;
};

/// A call that belongs to itself, for callers who hold a future instead of a frame.
template <class F>
class submitted_call final : public work {
 public:
  using result_type = std::invoke_result_t<F&>;

  submitted_call(pool_threads& in, F f) : threads_(&in), call_(std::move(f)) {}

  void run() noexcept override {
    std::unique_ptr<submitted_call> const mine(this);
    leave_queue(*threads_);
    call_();
  }
  std::future<result_type> future() { return call_.get_future(); }

 private:
  pool_threads* threads_;
  std::packaged_task<result_type()> call_;
};

template <class F>
task<blocking_result<F>> run_on_pool(std::shared_ptr<pool_threads> threads, F f) {
  task_root& me = co_await this_root{};
  semaphore::permit place;
  if (semaphore* const room = room_of(*threads)) {
    place = co_await room->acquire();
  }
  awaited_call<F> call{*threads, f, token_for<F>(me)};
  if (!enqueue(*threads, call)) {
    throw_pool_closed();
  }
  place.forget();
  co_await call.done;
  if (me.cancelled()) {
    co_await stop_here{};
  }
  co_return call.result.take();
}

}  // namespace detail

class ERGON_EXPORT pool final : public blocking_executor {
 public:
  /// Starts no thread yet. Throws `errc::invalid_argument` for options outside their range.
  explicit pool(pool_options options = {});
  /// `close`.
  ~pool() override;

  /// Runs `f(args…)` on a thread of the pool; copies or moves `f` and `args` first. If `f` takes a `std::stop_token` before the
  /// arguments it gets one that is requested when the awaiting task is cancelled. A task that is cancelled while
  /// it waits for room in the queue stops at once; once its call is queued the call is run and waited for, and then it stops.
  /// Throws what `f` throws, `errc::closed` after `close`.
  template <class F, class... Args>
  auto run(F f, Args... args) {
    if constexpr (std::is_invocable_v<F&, std::stop_token, Args...>) {
      return detail::run_on_pool(
          threads_, [f = std::move(f), held = std::tuple<Args...>(std::move(args)...)](std::stop_token token) mutable {
            return std::apply([&](Args&... a) { return std::invoke(f, std::move(token), std::move(a)...); }, held);
          });
    } else {
      return detail::run_on_pool(threads_, [f = std::move(f), held = std::tuple<Args...>(std::move(args)...)]() mutable {
        return std::apply([&](Args&... a) { return std::invoke(f, std::move(a)...); }, held);
      });
    }
  }

  /// The same for plain code; blocks while the queue is full. Throws `errc::closed` after `close`.
  template <class F>
  std::future<std::invoke_result_t<F&>> submit(F f) {
    auto call = std::make_unique<detail::submitted_call<F>>(*threads_, std::move(f));
    auto result = call->future();
    submit_item(*call);
    static_cast<void>(call.release());
    return result;
  }

  /// For `blocking`: never waits for room. False after `close`.
  [[nodiscard]] bool execute(work& item) noexcept override;

  /// Takes no more calls, runs those that wait, and joins the threads. Idempotent, and returns at once where no thread was needed.
  void close();

  [[nodiscard]] unsigned max_threads() const noexcept;
  /// Threads that exist, calls that wait, calls that run. Snapshots.
  [[nodiscard]] unsigned threads() const noexcept;
  [[nodiscard]] std::size_t waiting() const noexcept;
  [[nodiscard]] std::size_t running() const noexcept;

 private:
  void submit_item(work& item);

  std::shared_ptr<detail::pool_threads> threads_;
};

/// Makes a pool and installs it as the runtime's executor for `blocking`, unless it has one. Returns whether it did.
ERGON_EXPORT bool install_pool(runtime& on, pool_options options = {});

}  // namespace ergon
