// `completion`: the plainest wait, for what ends elsewhere: a thread of a store, a callback of a C library, a batch that somebody
// commits. It lies in the awaiting frame:
//
//   ergon::completion done;
//   request.on_end = &done;     // some thread calls done.complete() once
//   start(request);
//   co_await done;
//
// The wait cannot be cancelled: whoever completes holds a pointer into the frame. A cancel is remembered, and the next
// cancellable wait stops. After `start` nothing may throw before the `co_await`.
//
// One word holds the state (0, waiting, complete), so there is no lock. What happened before `complete` is visible after the wait.
#pragma once

#include <atomic>
#include <coroutine>

#include <ergon/base/export.hpp>
#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {

class ERGON_EXPORT completion final : private work {
 public:
  completion() = default;

  /// Ends the wait, or lets one that begins later end at once. Exactly once, from any thread, before or after the `co_await`.
  /// The task goes into the FIFO of its runtime; nothing of it runs inside this call. The object may be gone when it returns.
  void complete() noexcept;

  [[nodiscard]] bool await_ready() const noexcept { return state_.load(std::memory_order_acquire) == complete_; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    return begin(frame.promise());
  }
  void await_resume() const noexcept {}

 private:
  static constexpr unsigned char pending_ = 0;
  static constexpr unsigned char waiting_ = 1;
  static constexpr unsigned char complete_ = 2;

  bool begin(detail::promise_base& leaf) noexcept;
  void run() noexcept override;

  detail::promise_base* leaf_ = nullptr;
  std::atomic<unsigned char> state_{pending_};
};

}  // namespace ergon
