// Workers: run, steal, sleep, shut down. The protocol is in scheduler.hpp.
#include "runtime/scheduler.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include <ergon/base/cpus.hpp>
#include <ergon/base/error.hpp>

#include "runtime/futex.hpp"

namespace ergon::detail {

namespace {

constexpr std::size_t steal_limit = 64;
// So often between two items a worker looks at the timers; a power of two.
constexpr unsigned timer_interval = 32;

constexpr std::chrono::milliseconds watch_interval{1};

constexpr std::int64_t never = steady_time::max().time_since_epoch().count();

constinit thread_local void* this_worker = nullptr;

}  // namespace

scheduler::scheduler(runtime& front, runtime_options options)
    : front_(front), clock_(options.clock != nullptr ? options.clock : &ergon::clock::system()) {
  unsigned const threads = options.threads != 0 ? options.threads : granted_cpus();
  if (threads > 1024) {
    throw error(errc::invalid_argument,
                "runtime_options.threads is " + std::to_string(threads) + ", and must be at most 1024 (0: one per CPU)");
  }
  idle_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<worker>(*this, i));
  }
  watched_until_.store(never, std::memory_order_relaxed);
  if (clock_->is_manual()) {
    clock_listener_ = clock_->listen([this] { fire_due(); });
  }
  try {
    for (auto& w : workers_) {
      w->thread = std::thread([this, &self = *w] { work_until_stopped(self); });
      std::string const name = options.name.substr(0, 10) + '-' + std::to_string(w->index);
      ::pthread_setname_np(w->thread.native_handle(), name.c_str());
    }
  } catch (...) {
    stop_workers();
    throw;
  }
}

scheduler::~scheduler() {
  if (is_own_thread()) {
    fatal("ergon: a runtime was destroyed on one of its own threads");
  }
  shutdown(steady_time::max());
  clock_listener_.reset();
  for (unsigned round = 0; visitors_.load(std::memory_order_acquire) != 0; ++round) {
    spin_wait(round);
  }
}

scheduler::worker* scheduler::own_worker() const noexcept {
  auto* const self = static_cast<worker*>(this_worker);
  return self != nullptr && &self->owner == this ? self : nullptr;
}

bool scheduler::is_own_thread() const noexcept { return own_worker() != nullptr; }

runtime* scheduler::current_runtime() noexcept {
  auto* const self = static_cast<worker*>(this_worker);
  return self != nullptr ? &self->owner.front_ : nullptr;
}

void scheduler::push(work& item) noexcept {
  if (worker* const self = own_worker()) [[likely]] {
    std::size_t const queued = self->queue.push(item);
    if (idle_count_.load(std::memory_order_relaxed) != 0) {
      if (queued > 1) {
        wake_one();
      } else if (!lone_push_.load(std::memory_order_relaxed)) {
        ask_for_watcher();
      }
    }
    return;
  }
  push_from_outside(item);
}

void scheduler::push_from_outside(work& item) noexcept {
  visitors_.fetch_add(1, std::memory_order_relaxed);
  if (worker* const sleeper = take_idle()) {
    sleeper->queue.push(item);
    rouse(*sleeper);
  } else {
    workers_[turn_.fetch_add(1, std::memory_order_relaxed) % workers_.size()]->queue.push(item);
    wake_one();
  }
  visitors_.fetch_sub(1, std::memory_order_release);
}

scheduler::worker* scheduler::take_idle() noexcept {
  if (idle_count_.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  std::lock_guard const guard(idle_lock_);
  return idle_.empty() ? nullptr : choose_idle();
}

// Under `idle_lock_`, with one there.
scheduler::worker* scheduler::choose_idle() noexcept {
  // The youngest has the warmest caches; the timekeeper comes last.
  auto chosen = idle_.end() - 1;
  if (*chosen == timekeeper_ && idle_.size() > 1) {
    --chosen;
  }
  worker* const taken = *chosen;
  idle_.erase(chosen);
  idle_count_.store(idle_.size(), std::memory_order_relaxed);
  return taken;
}

void scheduler::leave_idle(worker& self) noexcept {
  std::lock_guard const guard(idle_lock_);
  if (auto const at = std::find(idle_.begin(), idle_.end(), &self); at != idle_.end()) {
    idle_.erase(at);
    idle_count_.store(idle_.size(), std::memory_order_relaxed);
  }
  if (self.watches && self.word.load(std::memory_order_relaxed) == for_work) {
    self.watches = false;
    someone_watches_ = false;
    lone_push_.store(false, std::memory_order_relaxed);
  }
  if (timekeeper_ == &self) {
    timekeeper_ = nullptr;
    self.kept_time = true;
    watched_until_.store(never, std::memory_order_relaxed);
  }
}

void scheduler::rouse(worker& sleeper, std::uint32_t why) noexcept {
  sleeper.word.store(why, std::memory_order_release);
  futex_wake(sleeper.word, 1);
}

void scheduler::wake_one() noexcept {
  if (worker* const sleeper = take_idle()) {
    rouse(*sleeper);
  }
}

void scheduler::ask_for_watcher() noexcept {
  worker* watcher = nullptr;
  {
    std::lock_guard const guard(idle_lock_);
    lone_push_.store(true, std::memory_order_relaxed);
    if (someone_watches_ || idle_.empty()) {
      return;
    }
    watcher = choose_idle();
    watcher->watches = true;
    someone_watches_ = true;
  }
  rouse(*watcher, to_watch);
}

// One look of the watcher. The flag is cleared before the look at the queues, so a push that comes too late for the look, and took
// the queue's lock after it, finds the flag cleared and sets it again.
work* scheduler::steal_stuck(worker& self) noexcept {
  {
    std::lock_guard const guard(idle_lock_);
    lone_push_.store(false, std::memory_order_relaxed);
  }
  bool something = false;
  for (auto& other : workers_) {
    if (other->queue.empty()) {
      continue;
    }
    something = true;
    std::uint32_t const turns = other->turns.load(std::memory_order_relaxed);
    if (std::exchange(other->turns_seen, turns) != turns) {
      continue;
    }
    if (work* const item = take_from(*other, self)) {
      return item;
    }
  }
  if (!something) {
    std::lock_guard const guard(idle_lock_);
    if (!lone_push_.load(std::memory_order_relaxed)) {
      self.watches = false;
      someone_watches_ = false;
    }
  }
  return nullptr;
}

void scheduler::end_watch(worker& self) noexcept {
  if (self.watches) {
    std::lock_guard const guard(idle_lock_);
    self.watches = false;
    someone_watches_ = false;
    lone_push_.store(false, std::memory_order_relaxed);
  }
}

bool scheduler::anything_queued() noexcept {
  return std::any_of(workers_.begin(), workers_.end(), [](auto& w) { return !w->queue.empty(); });
}

void scheduler::work_until_stopped(worker& self) noexcept {
  this_worker = &self;
  for (unsigned round = 0;; ++round) {
    if (round % timer_interval == 0) {
      fire_due();
    }
    work* item = self.queue.pop();
    if (item == nullptr) {
      item = next(self);
      if (item == nullptr) {
        return;
      }
    }
    self.turns.store(self.turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    item->run(*item);
  }
}

// The worker's own queue was empty. Null: the runtime stops and nothing is left.
work* scheduler::next(worker& self) noexcept {
  for (;;) {
    fire_due();
    work* item = self.queue.pop();
    if (item == nullptr) {
      item = self.watches ? steal_stuck(self) : steal(self);
    }
    if (item != nullptr) {
      end_watch(self);
      if (std::exchange(self.kept_time, false) && timers_.earliest_hint() != steady_time::max()) {
        // What it found may take long: an idle worker takes the watch over.
        wake_one();
      }
      return item;
    }
    if (stop_.load(std::memory_order_acquire)) {
      return nullptr;
    }
    park(self);
  }
}

// Takes half of the victim's queue: the first item is the result, the rest goes into the own queue.
work* scheduler::take_from(worker& victim, worker& self) noexcept {
  work_chain taken = victim.queue.steal(steal_limit);
  if (taken.size == 0) {
    return nullptr;
  }
  work* const first = taken.first;
  if (taken.size > 1) {
    taken.first = first->next;
    --taken.size;
    if (self.queue.push(taken) > 1 && idle_count_.load(std::memory_order_relaxed) != 0) {
      wake_one();
    }
  }
  return first;
}

work* scheduler::steal(worker& self) noexcept {
  for (std::size_t i = 1; i < workers_.size(); ++i) {
    if (work* const item = take_from(*workers_[(self.index + i) % workers_.size()], self)) {
      return item;
    }
  }
  return nullptr;
}

void scheduler::park(worker& self) noexcept {
  self.word.store(0, std::memory_order_relaxed);
  // While it is in the idle list others may make it the watcher.
  bool const watching = self.watches;
  bool all_idle = false;
  {
    std::lock_guard const guard(idle_lock_);
    idle_.push_back(&self);
    idle_count_.store(idle_.size(), std::memory_order_relaxed);
    all_idle = idle_.size() == workers_.size();
  }
  steady_time until = steady_time::max();
  // What stands in a queue is not the watcher's until it is stuck.
  bool stay_awake = (!watching && anything_queued()) || stop_.load(std::memory_order_acquire);
  if (!stay_awake) {
    steady_time const due = timers_.earliest();
    if (due != steady_time::max()) {
      if (clock_->is_manual()) {
        stay_awake = due <= clock_->steady();
      } else {
        std::lock_guard const guard(idle_lock_);
        if (due.time_since_epoch().count() < watched_until_.load(std::memory_order_relaxed)) {
          timekeeper_ = &self;
          watched_until_.store(due.time_since_epoch().count(), std::memory_order_relaxed);
          until = due;
        }
      }
    }
  }
  if (!stay_awake) {
    if (all_idle) {
      std::unique_lock guard(idle_lock_);
      if (someone_settles_) {
        someone_settles_ = false;
        guard.unlock();
        settled_.fetch_add(1, std::memory_order_release);
        futex_wake(settled_, 1'000'000);
      }
    }
    if (watching) {
      until = std::min(until, time_after(ergon::clock::system().steady(), watch_interval));
    }
    futex_wait(self.word, 0, until);
  }
  leave_idle(self);
}

bool scheduler::fire_due() noexcept {
  steady_time const earliest = timers_.earliest_hint();
  if (earliest == steady_time::max()) {
    return false;
  }
  steady_time const now = clock_->steady();
  return earliest <= now && timers_.fire_due(now) != 0;
}

void scheduler::add_timer(timer& item, steady_time due) noexcept {
  if (timers_.insert(item, due) && idle_count_.load(std::memory_order_relaxed) != 0 &&
      due.time_since_epoch().count() < watched_until_.load(std::memory_order_relaxed) && !clock_->is_manual()) {
    // Somebody idle must watch for it: this worker may be busy when it is due.
    worker* chosen = nullptr;
    {
      std::lock_guard const guard(idle_lock_);
      if (!idle_.empty()) {
        auto const at = timekeeper_ != nullptr ? std::find(idle_.begin(), idle_.end(), timekeeper_) : idle_.end() - 1;
        if (at != idle_.end()) {
          chosen = *at;
          idle_.erase(at);
          idle_count_.store(idle_.size(), std::memory_order_relaxed);
        }
      }
    }
    if (chosen != nullptr) {
      rouse(*chosen);
    }
  }
}

void scheduler::count_started() noexcept {
  if (worker* const self = own_worker()) {
    self->started.store(self->started.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    started_outside_.fetch_add(1, std::memory_order_relaxed);
  }
}

void scheduler::launch(task_root& root) {
  worker* const self = own_worker();
  root_list& list = self != nullptr ? self->tasks : tasks_from_outside_;
  bool late = false;
  if (self == nullptr) {
    // From outside the runtime may end as soon as the task has.
    visitors_.fetch_add(1, std::memory_order_relaxed);
  }
  {
    std::lock_guard const guard(list.lock);
    if (!closed_) {
      root.list_ = &list;
      root.retain();
      list.insert(root);
      late = closing_.load(std::memory_order_relaxed);
    }
  }
  bool const refused = root.list_ == nullptr;
  if (!refused) {
    count_started();
    if (late) {
      root.cancel();
    }
    push(root);
  }
  if (self == nullptr) {
    visitors_.fetch_sub(1, std::memory_order_release);
  }
  if (refused) {
    root.outermost_->handle().destroy();
    throw error(errc::closed, "a task cannot be spawned on a runtime after its shutdown");
  }
}

void scheduler::launch_owned(task_root& root) noexcept {
  root.retain();
  count_started();
  push(root);
}

void scheduler::ended(task_root& root) noexcept {
  if (worker* const self = own_worker()) {
    self->finished.store(self->finished.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    finished_outside_.fetch_add(1, std::memory_order_relaxed);
  }
  if (root_list* const list = root.list_) {
    bool tell = false;
    {
      std::lock_guard const guard(list->lock);
      list->remove(root);
      tell = closing_.load(std::memory_order_relaxed) && list->empty();
    }
    if (tell) {
      list_emptied_.fetch_add(1, std::memory_order_release);
      futex_wake(list_emptied_, 1);
    }
  }
}

std::size_t scheduler::live_tasks() const noexcept {
  std::uint64_t finished = finished_outside_.load(std::memory_order_relaxed);
  for (auto const& w : workers_) {
    finished += w->finished.load(std::memory_order_relaxed);
  }
  std::uint64_t started = started_outside_.load(std::memory_order_relaxed);
  for (auto const& w : workers_) {
    started += w->started.load(std::memory_order_relaxed);
  }
  return static_cast<std::size_t>(started > finished ? started - finished : 0);
}

bool scheduler::close_if_empty() noexcept {
  std::vector<root_list*> lists{&tasks_from_outside_};
  for (auto& w : workers_) {
    lists.push_back(&w->tasks);
  }
  for (root_list* list : lists) {
    list->lock.lock();
  }
  closed_ = std::all_of(lists.begin(), lists.end(), [](root_list* list) { return list->empty(); });
  bool const all_ended = closed_;
  for (root_list* list : lists) {
    list->lock.unlock();
  }
  return all_ended;
}

void scheduler::stop_workers() noexcept {
  stop_.store(true, std::memory_order_release);
  while (worker* const sleeper = take_idle()) {
    rouse(*sleeper);
  }
  // A worker that enters the idle list from here on sees `stop_`: both pass through `idle_lock_`.
  {
    std::lock_guard const guard(idle_lock_);
  }
  while (worker* const sleeper = take_idle()) {
    rouse(*sleeper);
  }
  for (auto& w : workers_) {
    if (w->thread.joinable()) {
      w->thread.join();
    }
  }
}

std::size_t scheduler::shutdown(steady_time deadline) {
  if (is_own_thread()) {
    throw error(errc::invalid_argument, "a runtime cannot be shut down from one of its own threads, which it waits for");
  }
  std::lock_guard const guard(shutdown_mutex_);
  if (closed_) {
    return 0;
  }
  closing_.store(true, std::memory_order_relaxed);
  tasks_from_outside_.cancel_all();
  for (auto& w : workers_) {
    w->tasks.cancel_all();
  }
  for (;;) {
    std::uint32_t const seen = list_emptied_.load(std::memory_order_acquire);
    if (close_if_empty()) {
      break;
    }
    if (deadline != steady_time::max() && ergon::clock::system().steady() >= deadline) {
      return std::max<std::size_t>(live_tasks(), 1);
    }
    futex_wait(list_emptied_, seen, deadline);
  }
  stop_workers();
  return 0;
}

void scheduler::settle() {
  if (is_own_thread()) {
    throw error(errc::invalid_argument, "runtime::settle was called on a thread of the same runtime, which is not idle then");
  }
  for (;;) {
    std::uint32_t const seen = settled_.load(std::memory_order_acquire);
    {
      std::lock_guard const guard(idle_lock_);
      if (idle_.size() == workers_.size()) {
        bool const due = timers_.earliest_hint() <= clock_->steady();
        if (!anything_queued() && !due) {
          return;
        }
      }
      someone_settles_ = true;
    }
    futex_wait(settled_, seen, steady_time::max());
  }
}

void scheduler::set_blocking_executor(std::shared_ptr<blocking_executor> executor) {
  std::lock_guard const guard(executor_mutex_);
  executor_.swap(executor);
}

std::shared_ptr<blocking_executor> scheduler::blocking() const {
  std::lock_guard const guard(executor_mutex_);
  return executor_;
}

}  // namespace ergon::detail
