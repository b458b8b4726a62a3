// Promise 4 says that a job which loses its workers takes no innocent one with it: so a suspect runs with nothing else in its
// process. The gate knows the workers of the process; who passes closes all others and waits until nothing runs.
#pragma once

#include <mutex>
#include <vector>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::detail {

class worker_core;

/// Thread-safe. A worker's lock may be taken under the gate's, never the other way round.
class process_gate {
 public:
  [[nodiscard]] static process_gate& instance() noexcept;

  void join(worker_core& member);
  void leave(worker_core& member) noexcept;

  /// Returns once `who` alone may start jobs and nothing runs in any member. Cancellable.
  task<void> enter(worker_core& who);
  /// Without effect unless `who` has entered, or is about to.
  void exit(worker_core& who) noexcept;
  /// A member runs nothing any more.
  void changed() noexcept;

 private:
  bool try_take(worker_core& who);
  [[nodiscard]] bool all_rest();
  /// Under the lock.
  void wake_waiters() noexcept;

  std::mutex lock_;
  std::vector<worker_core*> members_;
  worker_core* owner_ = nullptr;
  std::vector<event*> waiting_;
};

}  // namespace ergon::detail
