// The workers of one runtime: their queues, their sleep, their timers, and the tasks that they answer for.
//
// What is ready stands in one of three places of a worker. Children that its tasks spawn or fork go into its deque, which it takes from
// newest first (a deque that is full sheds its older half, which only comes first for thieves); everything else (wake-ups, timers, what
// comes from outside) into its queue, oldest first; and what must run on this very worker, the start of an operation on a socket that is
// at home there, into its inbox. Every eighth turn looks into the queue first, and at every tick of the clock, some milliseconds, a few
// of the oldest children are taken; so nothing ready grows old. At every tick, not every so many turns: a tree that is walked depth
// first keeps few frames, and each such step aside opens another branch of it. Who waited for a task that ends goes on in the next turn.
// Thieves take half of the queue, or the oldest child.
//
// Who may touch what:
// - A worker's queue and inbox have their own locks (run_queue.hpp); so have the timers (timer_store.hpp). The deque has none
//   (child_deque.hpp): where the protocol below relies on a lock of a queue, it relies on sequential consistency there.
// - `idle_lock_` guards the list of idle workers, which of them watches the timers, and until when it sleeps.
// - A worker goes idle in this order: it enters the idle list, looks at every queue, looks at the timers, sleeps on its word.
//   Whoever makes something ready queues it first and looks for idle workers afterwards. Both meet in the lock of the queue or
//   of the timers, so either the worker sees the item or the other sees the worker: no wake-up is lost.
// - Only one idle worker sleeps with a timeout, the one that went idle with the earliest time; it is the last to be woken for
//   work, and hands the watch over when it finds work. So while any worker is idle somebody watches the timers.
// - Threads that are no workers count themselves in `visitors_` while they push: the destructor waits for them, because what
//   they pushed may end the last task while they still look for an idle worker.
//
// A worker's own push wakes nobody while the queue holds only that item: the worker itself comes to it next, and a chain of tasks
// that wake each other stays on one thread. Two or more wake an idle worker, one for each push. So that a lone item does not
// wait behind a task that computes for long, such a push makes one idle worker the watcher: it looks every millisecond, takes what
// stands in the queue of a worker that has begun nothing new since the last look, and stops watching when a look finds all
// queues empty and no such push has happened. While nothing happens nobody watches, and nobody polls but
// a worker that was told to look out for what is due at a socket within microseconds.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/spin_lock.hpp>

#include "runtime/child_deque.hpp"
#include "runtime/futex.hpp"
#include "runtime/io_driver.hpp"
#include "runtime/run_queue.hpp"
#include "runtime/simulation.hpp"
#include "runtime/timer_store.hpp"
#include "runtime/turn.hpp"
#include "runtime/watchdog.hpp"

namespace ergon::detail {

class scheduler {
 public:
  scheduler(runtime& front, runtime_options options, std::unique_ptr<simulation> simulated = nullptr);
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;
  ~scheduler();

  [[nodiscard]] static scheduler& of(runtime& front) noexcept { return *front.scheduler_; }

  /// From any thread.
  void push(work& item) noexcept { push(ready_item{item}); }
  /// What gives way to what is ready already: nobody is woken for it, there is no more to do than before.
  void push_behind(work& item) noexcept;
  /// Branches of a fork: the first of them is what the calling worker takes first. Idle ones are woken for them.
  static void push_branches(promise_base* const* branches, std::size_t count) noexcept;
  /// The task that has waited for the one that ends on the calling worker: it comes next.
  static void push_next(operation& joined) noexcept;
  /// What the calling worker begins next, if it may do so without a return to its loop: who has waited for the task that ended, or its newest
  /// child. Else what does nothing.
  [[nodiscard]] static std::coroutine_handle<> go_on() noexcept;
  /// Takes a child back that stands newest in the calling worker's deque, so that the caller may begin it. False: it does not.
  [[nodiscard]] static bool take_back(task_root& child) noexcept;
  static void put_back(task_root& child) noexcept;
  /// Has `item` run on one worker and no other. From any thread.
  void push_to(std::size_t worker, work& item) noexcept;
  /// The worker that is home to what is made now: the calling one, else each in turn; and always in turn, if it is to be spread.
  [[nodiscard]] std::size_t choose_home(bool spread) noexcept;
  [[nodiscard]] bool is_worker(std::size_t index) const noexcept;
  /// The sockets of a worker; made on first use.
  [[nodiscard]] io_driver& driver(std::size_t worker);
  /// So long a worker does not go to sleep.
  void look_out(std::size_t worker, std::chrono::nanoseconds span) noexcept;
  /// The calling worker's, else the default runtime's.
  [[nodiscard]] static scheduler& here();
  /// Makes a root and starts it. Throws `std::bad_alloc`, `errc::closed` after shutdown, and then it is none.
  void start(task_root& root, std::string_view name);
  /// Of a root that some living task of this runtime waits for.
  void launch_owned(task_root& root) noexcept;
  /// A root's frames are gone; on a worker.
  static void ended(task_root& root) noexcept;

  /// The scheduler of a root, by what the root remembers.
  [[nodiscard]] static scheduler& by_number(std::uint16_t number) noexcept;
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

  void add_timer(timer& item, steady_time due) noexcept;
  bool remove_timer(timer& item) noexcept { return workers_[item.number()]->timers.remove(item); }

  [[nodiscard]] std::vector<task_info> tasks() const;

  [[nodiscard]] const simulation* simulated() const noexcept { return simulation_.get(); }
  /// Has a simulation go on until the root has ended. Throws `errc::deadlock`.
  void wait_in_simulation(task_root& root);

  std::size_t shutdown(steady_time deadline);
  /// Waits until every worker is idle and nothing is ready.
  void settle();

  [[nodiscard]] ergon::clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(workers_.size()); }
  [[nodiscard]] std::size_t live_tasks() const noexcept;
  [[nodiscard]] bool is_own_thread() const noexcept;
  [[nodiscard]] static runtime* current_runtime() noexcept;
  [[nodiscard]] static scheduler& default_scheduler();

  void set_blocking_executor(std::shared_ptr<blocking_executor> executor);
  [[nodiscard]] std::shared_ptr<blocking_executor> blocking() const;

 private:
  struct worker {
    worker(scheduler& in, std::size_t at) : owner(in), index(at), timers(in.clock_->steady(), at) {}
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;
    ~worker() { delete driver.load(std::memory_order_relaxed); }

    scheduler& owner;
    std::size_t index;
    run_queue queue;
    child_deque children;
    /// What the deque had no room for.
    run_queue older;
    // The worker's own: the clock's tick at its last look, and how many of the oldest are taken next.
    steady_time tick{};
    unsigned take_oldest = 0;
    // The worker's own: whose timers it looked at last, beside its own.
    std::size_t helps = 0;
    run_queue inbox;
    // Made once, under `driver_mutex_`.
    std::atomic<io_driver*> driver{nullptr};
    // It sleeps in its driver, or is about to.
    std::atomic<bool> sleeps_in_driver{false};
    // Set here by tasks that ran here; any worker may fire them.
    timer_store timers;
    // Until then it does not sleep: by the machine's clock; 0 for nothing.
    std::atomic<std::int64_t> looks_until{0};
    // 0 while asleep or about to be; then why it was woken: `for_work` or `to_watch`.
    std::atomic<std::uint32_t> word{0};
    // Only the worker writes them.
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> finished{0};
    // It was the one that watched for stuck items when it last woke. The worker's own.
    bool kept_watch = false;
    /// Written under `idle_lock_`; read by the worker itself at any time.
    std::atomic<bool> watches{false};
    // Items begun. Only the worker writes it, as the next two.
    std::atomic<std::uint32_t> turns{0};
    std::atomic<bool> busy{false};
    std::atomic<const turn*> at{nullptr};
    // The watcher's own: `turns` of this worker at the last look.
    std::uint32_t turns_seen = 0;
    std::thread thread;

    [[nodiscard]] bool has_something() noexcept { return children.size() != 0 || !queue.empty() || !older.empty(); }
  };

  [[nodiscard]] worker* own_worker() const noexcept;
  void work_until_stopped(worker& self) noexcept;
  void simulate(worker& self) noexcept;
  [[nodiscard]] bool may_simulate() const noexcept;
  void stand_still(worker& self) noexcept;
  void wake_all() noexcept;
  ready_item next(worker& self) noexcept;
  ready_item steal(worker& self) noexcept;
  [[nodiscard]] static bool looks_out(worker& self) noexcept;
  void park(worker& self) noexcept;
  /// Queues some of what is due on one worker, or on all. True: there is more to do.
  bool fire_due(worker& of) noexcept;
  bool fire_all_due() noexcept;
  /// When a timer is due next; exact, or as last published.
  [[nodiscard]] steady_time earliest() noexcept;
  [[nodiscard]] steady_time earliest_hint() const noexcept;

  void push(ready_item item) noexcept;
  void push(const work_chain& chain) noexcept;
  void push_own(worker& self, const work_chain& chain) noexcept;
  void push_child(worker& self, ready_item item) noexcept;
  void shed_older(worker& self) noexcept;
  void tell_of_child(worker& self) noexcept;
  static void push_branches_from_outside(promise_base* const* branches, std::size_t count) noexcept;
  void tell_of_branches(std::size_t count) noexcept;
  [[nodiscard]] ready_item take_own(worker& self, unsigned round) noexcept;
  void look_around(worker& self, unsigned look) noexcept;
  void sleep(worker& self, steady_time until) noexcept;
  void push_from_outside(const work_chain& chain) noexcept;
  worker* take_idle() noexcept;
  worker* choose_idle() noexcept;
  // Under `idle_lock_`; false: it is not there.
  worker* take_out_of_idle(std::vector<worker*>::iterator at) noexcept;
  bool take_out_of_idle(worker& which) noexcept;
  void leave_idle(worker& self) noexcept;
  static constexpr std::uint32_t for_work = 1;
  static constexpr std::uint32_t to_watch = 2;
  void rouse(worker& sleeper, std::uint32_t why = for_work) noexcept;
  void ask_for_watcher() noexcept;
  ready_item steal_stuck(worker& self) noexcept;
  void end_watch(worker& self) noexcept;
  ready_item take_from(worker& victim, worker& self) noexcept;
  ready_item take_half(run_queue& from, run_queue& to) noexcept;
  void wake_one() noexcept;
  [[nodiscard]] bool anything_queued() noexcept;

  void start_watchdog(const runtime_options& options);
  void launch_child(worker& self, task_root& root) noexcept;
  void launch_from_outside(task_root& root) noexcept;
  void start_from_outside(task_root& root, std::string_view name);
  [[nodiscard]] bool may_follow(const worker& self) const noexcept;
  /// Something is begun without a return to the loop.
  static void count_turn(worker& self) noexcept;
  void look_whether_empty() noexcept;
  void cancel_all() noexcept;
  [[nodiscard]] bool close_if_empty() noexcept;
  void stop_workers() noexcept;

  runtime& front_;
  std::unique_ptr<simulation> simulation_;
  ergon::clock* clock_;
  std::uint16_t number_ = 0;
  std::vector<std::unique_ptr<worker>> workers_;

  spin_lock idle_lock_;
  std::vector<worker*> idle_;
  worker* timekeeper_ = nullptr;
  bool someone_settles_ = false;
  bool someone_watches_ = false;
  // Written under the lock, read by pushes without it: a lone item was queued since the watcher began its look.
  std::atomic<bool> lone_push_{false};
  std::atomic<std::uint32_t> settled_{0};
  std::atomic<std::size_t> idle_count_{0};
  std::atomic<std::int64_t> watched_until_{0};

  alignas(64) std::atomic<std::size_t> turn_{0};
  std::atomic<std::size_t> visitors_{0};
  std::atomic<std::uint64_t> started_outside_{0};
  // Only if something outside resumed a task.
  std::atomic<std::uint64_t> finished_outside_{0};

  std::mutex shutdown_mutex_;
  // Set before the first task is cancelled: what is launched from then on is born cancelled.
  std::atomic<bool> closing_{false};
  // A shutdown that finds no task makes sure: threads outside wait for what comes of it.
  enum class doors : std::uint8_t { open, checked, closed };
  std::atomic<doors> doors_{doors::open};
  std::atomic<bool> stop_{false};
  // Counts the times when the last task may have ended while a shutdown waits.
  std::atomic<std::uint32_t> emptied_{0};

  std::mutex driver_mutex_;

  mutable std::mutex executor_mutex_;
  std::shared_ptr<blocking_executor> executor_;

  std::unique_ptr<watchdog> watchdog_;

  // Last: once it is gone no mover of a manual clock calls in.
  std::shared_ptr<void> clock_listener_;
};

// What every spawn, fork and join comes through, where its callers can see it.

inline scheduler::worker* scheduler::own_worker() const noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  return self != nullptr && &self->owner == this ? self : nullptr;
}

inline void scheduler::push_child(worker& self, ready_item item) noexcept {
  while (!self.children.push(item)) [[unlikely]] {
    shed_older(self);
  }
  if (idle_count_.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
    tell_of_child(self);
  }
}

inline void scheduler::push_branches(promise_base* const* branches, std::size_t count) noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  if (self == nullptr) [[unlikely]] {
    // Resumed by something outside: a task runs on no worker but its own runtime's.
    push_branches_from_outside(branches, count);
    return;
  }
  std::size_t placed = 0;
  for (std::size_t left = count; left > 0; --left) {
    ready_item const item{*branches[left - 1]};
    while (!self->children.place(item, placed)) [[unlikely]] {
      self->children.publish(std::exchange(placed, 0));
      self->owner.shed_older(*self);
    }
    ++placed;
  }
  self->children.publish(placed);
  if (self->owner.idle_count_.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
    self->owner.tell_of_branches(count);
  }
}

inline scheduler& scheduler::here() {
  auto* const self = static_cast<worker*>(this_turn.worker);
  return self != nullptr ? self->owner : default_scheduler();
}

inline void scheduler::start(task_root& root, std::string_view name) {
  if (worker* const self = own_worker()) [[likely]] {
    root.become_root(*this, name);
    launch_child(*self, root);
  } else {
    start_from_outside(root, name);
  }
}

inline void scheduler::launch_owned(task_root& root) noexcept {
  if (worker* const self = own_worker()) [[likely]] {
    launch_child(*self, root);
  } else {
    launch_from_outside(root);
  }
}

inline void scheduler::launch_child(worker& self, task_root& root) noexcept {
  self.started.store(self.started.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (closing_.load(std::memory_order_seq_cst)) [[unlikely]] {
    root.cancel();
  }
  push_child(self, ready_item{root});
}

inline void scheduler::ended(task_root& root) noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  if (self != nullptr && self->owner.number_ == root.home_) [[likely]] {
    self->finished.store(self->finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (self->owner.closing_.load(std::memory_order_relaxed)) [[unlikely]] {
      self->owner.look_whether_empty();
    }
  } else {
    scheduler& home = root.home();
    home.finished_outside_.fetch_add(1, std::memory_order_release);
    home.look_whether_empty();
  }
}

inline void scheduler::push_next(operation& joined) noexcept {
  task_root& waiter = joined.root();
  auto* const self = static_cast<worker*>(this_turn.worker);
  if (self == nullptr || self->owner.number_ != waiter.home_) {
    waiter.home().push(joined);
  } else if (this_turn.next == nullptr) {
    this_turn.next = &joined;
  } else {
    self->owner.push_child(*self, ready_item{joined});
  }
}

inline std::coroutine_handle<> task_root::begin_here() noexcept {
  auto& promise = static_cast<promise_base&>(*this);
  second_.store(0, std::memory_order_relaxed);
  this_turn.begin(promise, *this);
  return promise.handle();
}

/// May something be begun without a return to the loop?
inline bool scheduler::may_follow(const worker& self) const noexcept {
  unsigned const round = this_turn.round + 1;
  return round % queue_interval != 0 ||
         (round % look_interval != 0 && self.queue.looks_empty() && self.inbox.looks_empty() && self.take_oldest == 0);
}

inline void scheduler::count_turn(worker& self) noexcept {
  ++this_turn.round;
  self.turns.store(self.turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

inline std::coroutine_handle<> scheduler::go_on() noexcept {
  turn& here = this_turn;
  auto* const self = static_cast<worker*>(here.worker);
  if (self == nullptr || !self->owner.may_follow(*self)) {
    return std::noop_coroutine();
  }
  if (here.next != nullptr) {
    if (here.next->stopped()) [[unlikely]] {
      return std::noop_coroutine();
    }
    count_turn(*self);
    promise_base& waiter = std::exchange(here.next, nullptr)->leaf();
    here.begin(waiter, *waiter.root());
    return transfer(waiter.handle());
  }
  ready_item const item = self->children.pop();
  if (!item) {
    return std::noop_coroutine();
  }
  if (!item.is_root() || item.root().cancelled()) [[unlikely]] {
    self->owner.push_child(*self, item);
    return std::noop_coroutine();
  }
  count_turn(*self);
  return transfer(item.root().begin_here());
}

inline bool scheduler::take_back(task_root& child) noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  ready_item const item{child};
  if (self == nullptr || !self->children.has_on_top(item) || !self->owner.may_follow(*self) || self->children.pop() != item) {
    return false;
  }
  count_turn(*self);
  return true;
}

}  // namespace ergon::detail
