// Signals as waits. `wait_signal` waits for one; a `signal_set` listens all its life, so that no signal between two waits meets the
// default action:
//
//   ergon::signal_set signals{SIGTERM, SIGINT};
//   co_await signals.wait();   // drain
//   co_await signals.wait();   // the second one: now
//
// While any set listens to a signal, its disposition is a handler of ergon's; when the last one goes, what was installed before is
// put back. The handler only counts and writes to a descriptor; a thread of its own, started with the first set, wakes the
// tasks. It sleeps in the kernel otherwise.
//
// Nothing of the runtime may be called from a signal handler, `spawn` and `set` included: this is the way. In a forked child
// ergon's handlers are installed and nobody listens: `exec`, which resets them, or reset them there.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include <ergon/base/export.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/wait_list.hpp>

namespace ergon {

namespace detail {
struct signal_subscription;
}

/// Thread-safe, except that destroying it must be the last use and nobody may wait then.
class ERGON_EXPORT signal_set {
 public:
  /// Throws `errc::invalid_argument` for a number that is no signal or one that cannot be caught (SIGKILL, SIGSTOP).
  signal_set(std::initializer_list<int> signals);
  signal_set(const signal_set&) = delete;
  signal_set& operator=(const signal_set&) = delete;
  ~signal_set();

  class ERGON_EXPORT wait_operation final : public detail::listed_operation {
   public:
    explicit wait_operation(detail::signal_subscription& on) noexcept : subscription_(&on) {}
    ~wait_operation() = default;
    int await_resume() const noexcept { return signal_; }

   private:
    friend struct detail::signal_subscription;
    bool arm() noexcept override;
    bool disarm() noexcept override;
    detail::signal_subscription* subscription_;
    int signal_ = 0;
  };

  /// The number of the next signal, of those that came since the set was made, oldest first; the same number is kept at most once
  /// while nobody waits, as the kernel does. Cancellable. One of several waiters gets it.
  [[nodiscard]] wait_operation wait() noexcept { return wait_operation{*subscription_}; }

 private:
  std::unique_ptr<detail::signal_subscription> subscription_;
};

/// Calls a function for signals, on the thread behind the handler: for what must work while every worker hangs, such as telling what the tasks
/// wait for:
///
///   ergon::signal_callback on_usr1{{SIGUSR1}, [&rt](int) { std::fputs(rt.describe_tasks().c_str(), stderr); }};
///
/// Signals that come while the function runs are kept, one of each number. The function may block, and then other signals wait; it must not
/// throw, nor make or destroy a `signal_callback` or a `signal_set`.
class ERGON_EXPORT signal_callback {
 public:
  /// Throws as `signal_set` does.
  signal_callback(std::initializer_list<int> signals, std::function<void(int)> call);
  signal_callback(const signal_callback&) = delete;
  signal_callback& operator=(const signal_callback&) = delete;
  /// Waits for a call under way.
  ~signal_callback();

 private:
  std::unique_ptr<detail::signal_subscription> subscription_;
};

/// Waits for the first of the signals and gives its number. Cancellable. Throws as `signal_set` does.
[[nodiscard]] ERGON_EXPORT task<int> wait_signal(std::initializer_list<int> signals);

}  // namespace ergon
