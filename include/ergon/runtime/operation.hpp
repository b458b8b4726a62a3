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
#include <cstddef>
#include <cstdint>

#include <ergon/base/export.hpp>
#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/root.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {

class ERGON_EXPORT operation : public work {
 public:
  operation() = default;

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return begin(frame.promise());
  }

  /// A stopped wait resumes its frame, where `stopped()` tells, instead of taking the stopped path.
  void report_stop() noexcept { bits_ |= reports_stop; }
  /// A cancel does not end this wait: it is remembered, and the next cancellable wait stops.
  void ignore_cancel() noexcept { bits_ = (bits_ & ~on_cancel) | ignores; }
  /// In the frame that was resumed: did a cancel end the wait?
  [[nodiscard]] bool stopped() const noexcept { return (bits_ & was_stopped) != 0; }

 protected:
  ~operation() = default;

  /// What `await_suspend` does.
  std::coroutine_handle<> begin(detail::promise_base& leaf) noexcept;

  virtual bool arm() noexcept = 0;
  virtual bool disarm() noexcept = 0;
  /// Tried first, without the root's lock: true if there is nothing to wait for. For what is usually so.
  virtual bool try_now() noexcept { return false; }

  /// Ends the wait: the task goes into its runtime's FIFO.
  void wake() noexcept;
  /// `wake` in two steps, where several waits end at once and the first that runs may destroy what they waited on: first
  /// `release` each, then `queue` each.
  void release() noexcept;
  void queue() noexcept;

  /// For waits too short to be ended: they stop only if the task is cancelled when they begin.
  void stop_only_at_start() noexcept { bits_ = (bits_ & ~on_cancel) | checks; }

  /// In `disarm`, where the cancel ends the wait but something else has to pass first: what calls `wake` then ends it as stopped.
  void stop_when_woken() noexcept { bits_ |= was_stopped; }

  [[nodiscard]] detail::task_root& root() const noexcept;
  /// A cancel ends it, at its start and later.
  [[nodiscard]] bool waits_plainly() const noexcept { return (bits_ & on_cancel) == 0; }

  /// Goes on with the task, or stops it.
  void run() noexcept override;

  /// Two bits that the derived class may use as it likes, and a number below 1024.
  enum class mark : std::uint64_t { first = 16, second = 32 };
  void set(mark which) noexcept { bits_ |= static_cast<std::uint64_t>(which); }
  [[nodiscard]] bool has(mark which) const noexcept { return (bits_ & static_cast<std::uint64_t>(which)) != 0; }
  void set_number(std::uint64_t number) noexcept { bits_ = (bits_ & ~number_mask) | number << number_shift; }
  [[nodiscard]] std::size_t number() const noexcept { return (bits_ & number_mask) >> number_shift; }
  /// For what no frame waits in: an address that is kept in the frame's place.
  void set_place(void* at) noexcept {
    bits_ = (bits_ & ((1U << address_shift) - 1)) | reinterpret_cast<std::uintptr_t>(at) << address_shift;
  }
  [[nodiscard]] void* place() const noexcept { return reinterpret_cast<void*>(bits_ >> address_shift); }

 private:
  friend class detail::task_root;
  friend class detail::scheduler;

  std::coroutine_handle<> go_on(detail::promise_base& leaf) noexcept;
  [[nodiscard]] detail::promise_base& leaf() const noexcept;

  // The address of the leaf's promise in the upper 48 bits; user space has no more. A million sleeping tasks count every word.
  static_assert(sizeof(void*) == 8);
  static constexpr unsigned address_shift = 16;
  static constexpr std::uint64_t was_stopped = 1;
  static constexpr std::uint64_t reports_stop = 2;
  static constexpr std::uint64_t on_cancel = 4 + 8;
  static constexpr std::uint64_t checks = 4;
  static constexpr std::uint64_t ignores = 8;
  static constexpr unsigned number_shift = 6;
  static constexpr std::uint64_t number_mask = std::uint64_t{1023} << number_shift;

  std::uint64_t bits_ = 0;
};

namespace detail {

/// Takes the stopped path from here.
class ERGON_EXPORT stop_here final : public work {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    begin(frame.promise());
  }
  [[noreturn]] void await_resume() const noexcept { fatal("ergon: a stopped task was resumed"); }

 private:
  void begin(promise_base& leaf) noexcept;
  void run() noexcept override;
  promise_base* leaf_ = nullptr;
};

/// The root of the awaiting task, without suspending it.
class this_root {
 public:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    root_ = frame.promise().root();
    return false;
  }
  task_root& await_resume() const noexcept { return *root_; }

 private:
  task_root* root_ = nullptr;
};

}  // namespace detail
}  // namespace ergon
