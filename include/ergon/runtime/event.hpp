// `event`: a flag that tasks wait for; set by hand, reset by hand. Any thread sets, resets and asks.
//
// Locking: one word is both the flag and a spin lock over the list of waiters. `set` publishes the flag by the store that unlocks,
// its last touch of the object, so that a task may destroy the event as soon as it has seen it set.
#pragma once

#include <atomic>

#include <ergon/base/export.hpp>
#include <ergon/runtime/wait_list.hpp>

namespace ergon {

class ERGON_EXPORT event {
 public:
  explicit event(bool is_set = false) noexcept : word_(is_set ? set_ : 0) {}
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  /// Nobody waits any more.
  ~event();

  /// Wakes every waiter, in the order in which they came. Idempotent.
  void set() noexcept;
  /// Lets later waits wait again.
  void reset() noexcept;
  [[nodiscard]] bool is_set() const noexcept { return (word_.load(std::memory_order_acquire) & set_) != 0; }

  class ERGON_EXPORT wait_operation final : public detail::listed_operation {
   public:
    explicit wait_operation(event& on) noexcept : event_(&on) {}
    void await_resume() const noexcept {}

   private:
    bool arm() noexcept override;
    bool disarm() noexcept override;
    event* event_;
  };
  /// `co_await e.wait()`: until it is set; at once if it is. Cancellable.
  [[nodiscard]] wait_operation wait() noexcept { return wait_operation{*this}; }

 private:
  static constexpr unsigned locked_ = 1;
  static constexpr unsigned set_ = 2;

  unsigned lock() noexcept;
  void unlock(unsigned flag) noexcept { word_.store(flag, std::memory_order_release); }

  std::atomic<unsigned> word_;
  detail::wait_list waiters_;
};

}  // namespace ergon
