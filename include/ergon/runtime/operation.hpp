// How a task waits for something and can be stopped while it does. Every cancellable wait of the runtime is an `operation` that
// lies in the waiting frame: no registration, no allocation. To write one, derive, say how the wait is entered and left, and call
// `wake` when what it waits for has happened:
//
//   struct tick : ergon::operation {
//     bool arm() noexcept override;     // put it where its event finds it; false: it has happened already
//     bool disarm() noexcept override;  // take it out again; false: its event is on the way and will call `wake`
//     void await_resume() noexcept {}
//   };
//
// A task that is cancelled already stops here even if what it waits for has happened, so a loop over waits that are always ready
// ends too.
//
// Threads. `arm` and `disarm` run under the root's lock and may take the lock of what is waited for. `wake` may come from any
// thread, once for each `arm` that returned true unless `disarm` returned true, and with no such lock held. After `wake`, or
// after `arm` has let its event see the operation, the object may be gone at any moment.
#pragma once

#include <coroutine>

#include <ergon/base/export.hpp>
#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/root.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {

class ERGON_EXPORT operation : public work {
 public:
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return begin(frame.promise());
  }

  /// A stopped wait resumes its frame, where `stopped()` tells, instead of taking the stopped path.
  void report_stop() noexcept { report_stop_ = true; }
  /// A cancel does not end this wait: it is remembered, and the next cancellable wait stops.
  void ignore_cancel() noexcept { cancel_ = on_cancel::ignore; }
  /// In the frame that was resumed: did a cancel end the wait?
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 protected:
  ~operation() = default;

  virtual bool arm() noexcept = 0;
  virtual bool disarm() noexcept = 0;

  /// Ends the wait: the task goes into its runtime's FIFO.
  void wake() noexcept;
  /// `wake` in two steps, where several waits end at once and the first that runs may destroy what they waited on: first
  /// `release` each, then `queue` each.
  void release() noexcept;
  void queue() noexcept;

  /// For waits too short to be ended: they stop only if the task is cancelled when they begin.
  void stop_only_at_start() noexcept { cancel_ = on_cancel::check; }

  [[nodiscard]] detail::task_root& root() const noexcept { return *leaf_->root(); }

 private:
  friend class detail::task_root;

  std::coroutine_handle<> begin(detail::promise_base& leaf) noexcept;
  static void go_on(work& self) noexcept;

  detail::promise_base* leaf_ = nullptr;
  enum class on_cancel : unsigned char { end, check, ignore } cancel_ = on_cancel::end;
  bool report_stop_ = false;
  bool stopped_ = false;
};

namespace detail {

/// Takes the stopped path from here.
class ERGON_EXPORT stop_here : public work {
 public:
  stop_here() = default;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    begin(frame.promise());
  }
  [[noreturn]] void await_resume() const noexcept { fatal("ergon: a stopped task was resumed"); }

 private:
  void begin(promise_base& leaf) noexcept;
  promise_base* leaf_ = nullptr;
};

/// The root of the awaiting task, without suspending it.
class this_root {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    root_ = static_cast<promise_base&>(frame.promise()).root();
    return false;
  }
  task_root& await_resume() const noexcept { return *root_; }

 private:
  task_root* root_ = nullptr;
};

}  // namespace detail
}  // namespace ergon
