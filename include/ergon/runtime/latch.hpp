// `latch`: opens for good when it has been counted down to zero, and lets go every task that waits for that. Any thread counts down.
//
//   ergon::latch ready{workers.size()};
//   for (auto& w : workers) g.spawn(serve(w, ready));   // each: prepare(); ready.count_down();
//   co_await ready.wait();
//
// Locking: a spin lock over count and waiters. Who brings the count to zero takes all waiters out under it and touches nothing of
// the latch after unlocking; all waits have ended before the first waiter runs, so that it may destroy the latch.
#pragma once

#include <cstddef>

#include <ergon/base/export.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/wait_list.hpp>

namespace ergon {

class ERGON_EXPORT latch {
 public:
  /// Open from the start if `count` is zero.
  explicit latch(std::size_t count) noexcept : count_(count) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;
  /// Nobody waits any more.
  ~latch();

  /// From any thread. At zero it wakes every waiter, in the order in which they came. Throws `errc::invalid_argument`, and counts
  /// nothing, if `n` is more than what is left.
  void count_down(std::size_t n = 1);
  /// Is it open?
  [[nodiscard]] bool try_wait() const noexcept;

  class ERGON_EXPORT wait_operation final : public detail::listed_operation {
   public:
    wait_operation(latch& on, std::size_t arrivals) noexcept : latch_(&on), arrivals_(arrivals) {}
    void await_resume() const;

   private:
    bool arm() noexcept override;
    bool disarm() noexcept override;
    latch* latch_;
    std::size_t arrivals_;
    // What was left when it arrived, if that was too little.
    std::size_t left_ = 0;
    // Those whom this arrival lets go, if it is the last.
    detail::listed_operation* let_go_ = nullptr;
  };
  /// `co_await l.wait()`: until it is open; at once if it is. Cancellable.
  [[nodiscard]] wait_operation wait() noexcept { return wait_operation{*this, 0}; }
  /// `co_await l.arrive_and_wait()`: counts down by `n` and waits, in one step: no waiter can be let go, and destroy the latch, in
  /// between. Throws what `count_down` throws. Cancellable: a task that is cancelled before it has not arrived, one that is
  /// cancelled while it waits has.
  [[nodiscard]] wait_operation arrive_and_wait(std::size_t n = 1) noexcept { return wait_operation{*this, n}; }

 private:
  mutable detail::spin_lock lock_;
  std::size_t count_;
  detail::wait_list waiters_;
};

}  // namespace ergon
