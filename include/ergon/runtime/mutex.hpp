// `mutex`: one task at a time, first come, first served, held across waits if need be. A semaphore of one permit: see there for
// the locking. The guard may be given up on any thread.
#pragma once

#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/semaphore.hpp>

namespace ergon {

class mutex {
 public:
  using guard = semaphore::permit;

  /// `auto held = co_await m.lock();` Cancellable.
  [[nodiscard]] semaphore::acquire_operation lock() noexcept { return free_.acquire(); }
  /// An empty guard if somebody holds it.
  [[nodiscard]] guard try_lock() noexcept { return free_.try_acquire(); }

 private:
  semaphore free_{1};
};

}  // namespace ergon
