// What the calling thread is at: each worker's loop and whatever resumes a task keep it.
#pragma once

#include <atomic>
#include <cstdint>

#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/root.hpp>

namespace ergon {
class operation;
}

namespace ergon::detail {

constexpr unsigned waits_per_turn = 128;
/// So often, in rounds, a worker looks into its queue before its children; what follows without a return to the loop stops there if something
/// stands in it, and at `look_interval` in any case.
constexpr unsigned queue_interval = 8;
/// So often it looks at the timers and the sockets.
constexpr unsigned look_interval = 32;
static_assert(look_interval % queue_interval == 0);

struct turn {
  /// The worker that the thread is (scheduler.cpp), or null.
  void* worker = nullptr;
  /// The task that runs here, or null. Of a branch of a fork: the branch.
  task_root* running = nullptr;
  // For who watches: the number of its name, and the function that was resumed last.
  std::atomic<std::uint16_t> name{0};
  std::atomic<const void*> function{nullptr};
  /// What a worker runs after this turn, before all else: the wait for the task that has ended.
  operation* next = nullptr;
  /// Counts what was begun. Where one thing follows from another without a return to the loop, it counts as well.
  unsigned round = 0;
  /// How many more waits that end at once go on at once; then the task goes behind what else is ready.
  unsigned waits_left = 0;

  /// `leaf` is resumed, as a part of `task`.
  void enter(promise_base& leaf, task_root& task) noexcept {
    running = &task;
    name.store(task.name_number(), std::memory_order_release);
    function.store(leaf.resume_function(), std::memory_order_relaxed);
  }
  /// The same as a turn of its own, without a return to the worker's loop.
  void begin(promise_base& leaf, task_root& task) noexcept {
    enter(leaf, task);
    waits_left = waits_per_turn;
  }
};

extern constinit thread_local turn this_turn;

}  // namespace ergon::detail
