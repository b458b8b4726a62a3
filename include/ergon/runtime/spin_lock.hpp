// A lock of one byte for sections of a few instructions: nothing that blocks, allocates or calls out happens under it. Unlocking
// is one store and the last touch, so the lock may lie in an object that its next holder destroys.
#pragma once

#include <atomic>

#include <ergon/base/export.hpp>

namespace ergon::detail {

/// Gives the processor away now and then; `round` counts the caller's attempts.
ERGON_EXPORT void spin_wait(unsigned round) noexcept;

class spin_lock {
 public:
  void lock() noexcept {
    for (unsigned round = 0; held_.exchange(true, std::memory_order_acquire); ++round) {
      spin_wait(round);
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace ergon::detail
