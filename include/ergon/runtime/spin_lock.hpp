// A lock of one byte for sections of a few instructions: nothing that blocks, allocates or calls out happens under it. Unlocking
// is one store and the last touch, so the lock may lie in an object that its next holder destroys.
#pragma once

#include <atomic>

#include <ergon/base/export.hpp>

namespace ergon::detail {

/// Gives the processor away now and then; `round` counts the caller's attempts.
ERGON_EXPORT void spin_wait(unsigned round) noexcept;

/// The same, some microseconds at a time.
ERGON_EXPORT void spin_wait_long(unsigned round) noexcept;

template <void (*Wait)(unsigned) noexcept>
class basic_spin_lock {
 public:
  void lock() noexcept {
    for (unsigned round = 0; held_.exchange(true, std::memory_order_acquire); ++round) {
      Wait(round);
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

using spin_lock = basic_spin_lock<spin_wait>;
/// For what threads use again and again, such as a channel: who finds it held stays away long enough for the holder to do much with it, for each
/// change of hands costs as much as several uses. A channel between four senders and a receiver on two threads carries twice as much.
using patient_lock = basic_spin_lock<spin_wait_long>;

}  // namespace ergon::detail
