// What the calling thread is at: each worker's loop and whatever resumes a task keep it.
#pragma once

#include <atomic>
#include <cstdint>

namespace ergon {
class work;
}

namespace ergon::detail {

class task_root;

struct turn {
  /// The worker that the thread is (scheduler.cpp), or null.
  void* worker = nullptr;
  /// The task that runs here, or null. Of a branch of a fork: the branch.
  task_root* running = nullptr;
  // For who watches: the number of its name, and the function that was resumed last.
  std::atomic<std::uint16_t> name{0};
  std::atomic<const void*> function{nullptr};
  /// What a worker runs after this turn, before all else: the task that has waited for the one that ended.
  work* next = nullptr;
  /// How many more waits that end at once go on at once; then the task goes behind what else is ready.
  unsigned waits_left = 0;
};

constexpr unsigned waits_per_turn = 128;

extern constinit thread_local turn this_turn;

}  // namespace ergon::detail
