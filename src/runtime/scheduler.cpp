// Workers: run, steal, sleep, shut down. The protocol is in scheduler.hpp.
#include "runtime/scheduler.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include <ergon/base/cpus.hpp>
#include <ergon/base/error.hpp>

#include "runtime/frame_memory.hpp"
#include "runtime/futex.hpp"
#include "runtime/turn.hpp"

namespace ergon::detail {

constinit thread_local turn this_turn;

namespace {

constexpr std::size_t steal_limit = 64;
constexpr unsigned oldest_per_tick = 8;

constexpr std::chrono::milliseconds watch_interval{1};

constexpr std::int64_t never = steady_time::max().time_since_epoch().count();

// A shutdown cancels again so often: a task that was being launched may have missed the first time.
constexpr std::chrono::milliseconds cancel_interval{20};

// Every runtime that there is, by number. A root has no room for a pointer to its own.
constexpr std::size_t most_runtimes = 4096;
constinit std::array<std::atomic<scheduler*>, most_runtimes> runtimes{};

std::uint16_t enter(scheduler& made) {
  for (std::size_t i = 0; i < most_runtimes; ++i) {
    scheduler* none = nullptr;
    if (runtimes[i].load(std::memory_order_relaxed) == nullptr &&
        runtimes[i].compare_exchange_strong(none, &made, std::memory_order_acq_rel)) {
      return static_cast<std::uint16_t>(i);
    }
  }
  throw error(errc::invalid_argument, "there are 4096 runtimes in this process, and no room for one more");
}

std::string demangled(const char* name) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text{abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free};
  return status == 0 ? text.get() : name;
}

// `ergon::detail::sleep_operation` is nobody's business but `sleep_operation`.
std::string type_text(const std::type_info& type) {
  std::string text = demangled(type.name());
  for (std::string_view const prefix : {"ergon::", "detail::"}) {
    if (text.starts_with(prefix)) {
      text.erase(0, prefix.size());
    }
  }
  return text;
}

std::string function_text(const void* address) {
  if (address == nullptr) {
    return {};
  }
  Dl_info at{};
  if (::dladdr(address, &at) == 0 || at.dli_fname == nullptr) {
    return {};
  }
  if (at.dli_sname != nullptr && at.dli_saddr == address) {
    return demangled(at.dli_sname);
  }
  std::string_view file = at.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);
  auto const offset = static_cast<std::uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(at.dli_fbase));
  char text[32];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
  return std::string{file} + text;
}

}  // namespace

scheduler& scheduler::by_number(std::uint16_t number) noexcept { return *runtimes[number].load(std::memory_order_relaxed); }

scheduler::scheduler(runtime& front, runtime_options options, std::unique_ptr<simulation> simulated)
    : front_(front),
      simulation_(std::move(simulated)),
      clock_(simulation_ != nullptr     ? &simulation_->clock
             : options.clock != nullptr ? options.clock
                                        : &ergon::clock::system()) {
  if (simulation_ != nullptr) {
    executor_ = std::make_shared<simulated_executor>(*this);
  }
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
    clock_listener_ = clock_->listen([this] {
      while (fire_all_due()) {
      }
    });
  }
  number_ = enter(*this);
  try {
    for (auto& w : workers_) {
      w->thread = std::thread([this, &self = *w] { simulation_ != nullptr ? simulate(self) : work_until_stopped(self); });
      std::string const name = options.name.substr(0, 10) + '-' + std::to_string(w->index);
      ::pthread_setname_np(w->thread.native_handle(), name.c_str());
    }
    start_watchdog(options);
  } catch (...) {
    stop_workers();
    runtimes[number_].store(nullptr, std::memory_order_release);
    throw;
  }
}

void scheduler::start_watchdog(const runtime_options& options) {
  if (options.stall_limit < std::chrono::nanoseconds::zero()) {
    throw error(errc::invalid_argument, "runtime_options.stall_limit is " + std::to_string(options.stall_limit.count()) +
                                            " ns, and must not be negative (0: nobody looks)");
  }
  if (options.stall_limit == std::chrono::nanoseconds::zero()) {
    return;
  }
  auto report = options.on_stall;
  if (!report) {
    report = [](const stall_info& s) {
      std::fprintf(stderr, "ergon: task '%s' (%s) keeps worker %u, for %.3f s by now\n", s.name.c_str(), s.function.c_str(),
                   s.worker, static_cast<double>(s.lasts.count()) / 1e9);
    };
  }
  watchdog_ = std::make_unique<watchdog>(
      options.stall_limit, std::move(report), threads(),
      [this](unsigned i) -> std::uint64_t {
        worker const& w = *workers_[i];
        return w.busy.load(std::memory_order_relaxed) ? std::uint64_t{w.turns.load(std::memory_order_relaxed)} << 1U | 1U : 0;
      },
      [this](unsigned i) {
        stall_info found;
        if (const turn* const at = workers_[i]->at.load(std::memory_order_acquire)) {
          found.name = task_root::name_of(at->name.load(std::memory_order_acquire));
          found.function = function_text(at->function.load(std::memory_order_relaxed));
        }
        return found;
      });
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
  runtimes[number_].store(nullptr, std::memory_order_release);
}

bool scheduler::is_own_thread() const noexcept { return own_worker() != nullptr; }

scheduler& scheduler::default_scheduler() { return *runtime::default_runtime().scheduler_; }

runtime* scheduler::current_runtime() noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  return self != nullptr ? &self->owner.front_ : nullptr;
}

void scheduler::push(ready_item item) noexcept {
  item.set_next({});
  push(work_chain{item, item, 1});
}

void scheduler::push(const work_chain& chain) noexcept {
  if (worker* const self = own_worker()) [[likely]] {
    push_own(*self, chain);
  } else {
    push_from_outside(chain);
  }
}

void scheduler::push_own(worker& self, const work_chain& chain) noexcept {
  std::size_t const queued = self.queue.push(chain);
  if (idle_count_.load(std::memory_order_relaxed) != 0) {
    if (queued > 1) {
      wake_one();
    } else if (!lone_push_.load(std::memory_order_relaxed)) {
      ask_for_watcher();
    }
  }
}

void scheduler::push_behind(work& item) noexcept {
  if (worker* const self = own_worker()) {
    self->queue.push(ready_item{item});
  } else {
    push(ready_item{item});
  }
}

void scheduler::shed_older(worker& self) noexcept {
  if (work_chain const older = self.children.take_older_half(); older.size != 0) {
    self.older.push(older);
  }
}

void scheduler::tell_of_child(worker& self) noexcept {
  if (self.children.size() > 1) {
    wake_one();
  } else if (!lone_push_.load(std::memory_order_seq_cst)) {
    ask_for_watcher();
  }
}

void scheduler::push_branches_from_outside(promise_base* const* branches, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    branches[i]->home().push(ready_item{*branches[i]});
  }
}

void scheduler::tell_of_branches(std::size_t count) noexcept {
  for (std::size_t i = 0; i < count && idle_count_.load(std::memory_order_seq_cst) != 0; ++i) {
    wake_one();
  }
}

void scheduler::put_back(task_root& child) noexcept {
  auto* const self = static_cast<worker*>(this_turn.worker);
  self->owner.push_child(*self, ready_item{child});
}

void scheduler::push_to(std::size_t worker, work& item) noexcept {
  struct worker& home = *workers_[worker];
  bool const outside = own_worker() == nullptr;
  if (outside) {
    visitors_.fetch_add(1, std::memory_order_relaxed);
  }
  home.inbox.push(ready_item{item});
  bool asleep = false;
  if (own_worker() != &home) {
    std::lock_guard const guard(idle_lock_);
    asleep = take_out_of_idle(home);
  }
  if (asleep) {
    rouse(home);
  }
  if (outside) {
    visitors_.fetch_sub(1, std::memory_order_release);
  }
}

std::size_t scheduler::choose_home(bool spread) noexcept {
  worker* const self = own_worker();
  return self != nullptr && !spread ? self->index : turn_.fetch_add(1, std::memory_order_relaxed) % workers_.size();
}

bool scheduler::is_worker(std::size_t index) const noexcept { return own_worker() == workers_[index].get(); }

io_driver& scheduler::driver(std::size_t worker) {
  if (simulation_ != nullptr) {
    throw error(errc::not_supported, std::string{no_sockets_here});
  }
  auto& place = workers_[worker]->driver;
  io_driver* found = place.load(std::memory_order_acquire);
  if (found == nullptr) {
    std::lock_guard const guard(driver_mutex_);
    found = place.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = make_io_driver().release();
      place.store(found, std::memory_order_release);
    }
  }
  return *found;
}

void scheduler::push_from_outside(const work_chain& chain) noexcept {
  visitors_.fetch_add(1, std::memory_order_relaxed);
  if (worker* const sleeper = take_idle()) {
    sleeper->queue.push(chain);
    rouse(*sleeper);
  } else {
    workers_[turn_.fetch_add(1, std::memory_order_relaxed) % workers_.size()]->queue.push(chain);
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
  return take_out_of_idle(chosen);
}

scheduler::worker* scheduler::take_out_of_idle(std::vector<worker*>::iterator at) noexcept {
  worker* const taken = *at;
  idle_.erase(at);
  idle_count_.store(idle_.size(), std::memory_order_relaxed);
  return taken;
}

bool scheduler::take_out_of_idle(worker& which) noexcept {
  auto const at = std::find(idle_.begin(), idle_.end(), &which);
  return at != idle_.end() && take_out_of_idle(at) != nullptr;
}

void scheduler::leave_idle(worker& self) noexcept {
  std::lock_guard const guard(idle_lock_);
  take_out_of_idle(self);
  if (self.watches && self.word.load(std::memory_order_relaxed) == for_work) {
    self.watches = false;
    self.kept_watch = true;
    someone_watches_ = false;
    lone_push_.store(false, std::memory_order_seq_cst);
  }
  if (timekeeper_ == &self) {
    timekeeper_ = nullptr;
    watched_until_.store(never, std::memory_order_relaxed);
  }
}

void scheduler::rouse(worker& sleeper, std::uint32_t why) noexcept {
  sleeper.word.store(why, std::memory_order_seq_cst);
  if (sleeper.sleeps_in_driver.load(std::memory_order_seq_cst)) {
    sleeper.driver.load(std::memory_order_relaxed)->interrupt();
  } else {
    futex_wake(sleeper.word, 1);
  }
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
    if (!someone_watches_ && idle_.empty()) {
      // Who goes idle from here on looks at the queues first. The flag stays down: it would keep the next push from asking.
      return;
    }
    lone_push_.store(true, std::memory_order_seq_cst);
    if (someone_watches_) {
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
ready_item scheduler::steal_stuck(worker& self) noexcept {
  {
    std::lock_guard const guard(idle_lock_);
    lone_push_.store(false, std::memory_order_seq_cst);
  }
  bool something = false;
  for (auto& other : workers_) {
    if (!other->has_something()) {
      continue;
    }
    something = true;
    std::uint32_t const turns = other->turns.load(std::memory_order_relaxed);
    if (std::exchange(other->turns_seen, turns) != turns) {
      continue;
    }
    if (ready_item const item = take_from(*other, self)) {
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
  return {};
}

void scheduler::end_watch(worker& self) noexcept {
  if (self.watches) {
    std::lock_guard const guard(idle_lock_);
    self.watches = false;
    self.kept_watch = true;
    someone_watches_ = false;
    lone_push_.store(false, std::memory_order_seq_cst);
  }
}

bool scheduler::anything_queued() noexcept {
  return std::any_of(workers_.begin(), workers_.end(), [](auto& w) { return w->has_something(); });
}

void scheduler::work_until_stopped(worker& self) noexcept {
  this_turn.worker = &self;
  self.at.store(&this_turn, std::memory_order_release);
  self.busy.store(true, std::memory_order_relaxed);
  for (;;) {
    unsigned const round = ++this_turn.round;
    if (round % look_interval == 0) {
      look_around(self, round / look_interval);
    }
    ready_item item;
    if (operation* const next = std::exchange(this_turn.next, nullptr)) {
      item = ready_item{*next};
      if (round % queue_interval == 0 && !self.queue.looks_empty()) {
        push_child(self, item);
        item = {};
      }
    }
    if (!item) {
      item = take_own(self, round);
    }
    if (!item) {
      item = next(self);
      if (!item) {
        return;
      }
    }
    self.turns.store(self.turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    this_turn.waits_left = waits_per_turn;
    item.run();
  }
}

ready_item scheduler::take_own(worker& self, unsigned round) noexcept {
  ready_item item;
  if (!self.inbox.looks_empty()) [[unlikely]] {
    item = self.inbox.pop();
  }
  if (!item && round % queue_interval == 0 && !self.queue.looks_empty()) {
    item = self.queue.pop();
  }
  if (!item && self.take_oldest != 0) [[unlikely]] {
    --self.take_oldest;
    item = self.older.looks_empty() ? self.children.steal() : self.older.pop();
  }
  if (!item) {
    item = self.children.pop();
  }
  if (!item && !self.older.looks_empty()) {
    item = self.older.pop();
  }
  if (!item && !self.queue.looks_empty()) {
    item = self.queue.pop();
  }
  return item;
}

void scheduler::look_around(worker& self, unsigned look) noexcept {
  // Every other time the timers of another, in turn: it may be computing for long, while everybody else has work. What one look makes ready
  // is no more than what was run since the last one, so a flood of timers does not pile up before the ready tasks.
  if (look % 2 == 0) {
    fire_due(self);
  } else {
    self.helps = self.helps + 1 < workers_.size() ? self.helps + 1 : 0;
    fire_due(*workers_[self.helps]);
  }
  if (io_driver* const sockets = self.driver.load(std::memory_order_relaxed); sockets != nullptr && sockets->waits()) {
    sockets->poll();
  }
  if (steady_time const tick = ergon::clock::last_tick(); tick != self.tick) {
    self.tick = tick;
    self.take_oldest = oldest_per_tick;
  }
}

// The worker's own queue was empty. Nothing: the runtime stops and nothing is left.
ready_item scheduler::next(worker& self) noexcept {
  self.busy.store(false, std::memory_order_relaxed);
  for (;;) {
    bool const more = fire_all_due();
    if (io_driver* const sockets = self.driver.load(std::memory_order_acquire); sockets != nullptr && sockets->waits()) {
      sockets->poll();
    }
    ready_item item = take_own(self, 1);
    if (!item) {
      item = self.watches ? steal_stuck(self) : steal(self);
    }
    if (item) {
      self.busy.store(true, std::memory_order_relaxed);
      end_watch(self);
      if (idle_count_.load(std::memory_order_relaxed) != 0 &&
          earliest_hint().time_since_epoch().count() < watched_until_.load(std::memory_order_relaxed)) {
        // What it found may take long: an idle worker takes the watch over.
        wake_one();
      }
      if (std::exchange(self.kept_watch, false) && idle_count_.load(std::memory_order_seq_cst) != 0 && anything_queued()) {
        wake_one();
      }
      return item;
    }
    if (more) {
      continue;
    }
    if (stop_.load(std::memory_order_acquire)) {
      return {};
    }
    // The watcher looks once in a millisecond, and no more often.
    if (self.watches || !looks_out(self)) {
      park(self);
    }
  }
}

bool scheduler::looks_out(worker& self) noexcept {
  std::int64_t const until = self.looks_until.load(std::memory_order_relaxed);
  if (until == 0) [[likely]] {
    return false;
  }
  if (ergon::clock::system().steady().time_since_epoch().count() < until) {
    return true;
  }
  self.looks_until.store(0, std::memory_order_relaxed);
  return false;
}

void scheduler::look_out(std::size_t worker, std::chrono::nanoseconds span) noexcept {
  steady_time const until = time_after(ergon::clock::system().steady(), span);
  workers_[worker]->looks_until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
}

// Takes half of the victim's queue: the first item is the result, the rest goes into the own one. Or its oldest children.
ready_item scheduler::take_from(worker& victim, worker& self) noexcept {
  if (ready_item const item = take_half(victim.queue, self.queue)) {
    return item;
  }
  if (ready_item const item = take_half(victim.older, self.older)) {
    return item;
  }
  return victim.children.steal();
}

ready_item scheduler::take_half(run_queue& from, run_queue& to) noexcept {
  if (from.looks_empty()) {
    return {};
  }
  work_chain taken = from.steal(steal_limit);
  ready_item const first = taken.first;
  if (taken.size > 1) {
    taken.first = first.next();
    --taken.size;
    if (to.push(taken) > 1 && idle_count_.load(std::memory_order_relaxed) != 0) {
      wake_one();
    }
  }
  return first;
}

ready_item scheduler::steal(worker& self) noexcept {
  for (std::size_t i = 1; i < workers_.size(); ++i) {
    if (ready_item const item = take_from(*workers_[(self.index + i) % workers_.size()], self)) {
      return item;
    }
  }
  return {};
}

void scheduler::park(worker& self) noexcept {
  self.word.store(0, std::memory_order_relaxed);
  // While it is in the idle list others may make it the watcher.
  bool const watching = self.watches;
  bool all_idle = false;
  {
    std::lock_guard const guard(idle_lock_);
    idle_.push_back(&self);
    idle_count_.store(idle_.size(), std::memory_order_seq_cst);
    all_idle = idle_.size() == workers_.size();
  }
  steady_time until = steady_time::max();
  // What stands in a queue is not the watcher's until it is stuck.
  bool stay_awake = (!watching && anything_queued()) || !self.inbox.empty() || stop_.load(std::memory_order_acquire);
  if (!stay_awake) {
    steady_time const due = earliest();
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
    sleep(self, until);
  }
  leave_idle(self);
}

void scheduler::sleep(worker& self, steady_time until) noexcept {
  io_driver* const sockets = self.driver.load(std::memory_order_acquire);
  if (sockets == nullptr || !sockets->waits()) {
    futex_wait(self.word, 0, until);
    return;
  }
  // Whoever rouses it writes the word first and looks afterwards where it sleeps: one of the two sees the other.
  self.sleeps_in_driver.store(true, std::memory_order_seq_cst);
  if (self.word.load(std::memory_order_seq_cst) == 0) {
    sockets->wait(until);
  }
  self.sleeps_in_driver.store(false, std::memory_order_relaxed);
}

bool scheduler::fire_due(worker& of) noexcept {
  steady_time const first = of.timers.earliest_hint();
  if (first == steady_time::max()) {
    return false;
  }
  steady_time const now = clock_->steady();
  bool more = false;
  if (first <= now) {
    if (work_chain const fired = of.timers.advance(now, more); fired.size != 0) {
      push(fired);
    }
  }
  return more;
}

bool scheduler::fire_all_due() noexcept {
  bool more = false;
  for (auto& w : workers_) {
    more = fire_due(*w) || more;
  }
  return more;
}

steady_time scheduler::earliest() noexcept {
  steady_time first = steady_time::max();
  for (auto& w : workers_) {
    first = std::min(first, w->timers.earliest());
  }
  return first;
}

steady_time scheduler::earliest_hint() const noexcept {
  steady_time first = steady_time::max();
  for (auto const& w : workers_) {
    first = std::min(first, w->timers.earliest_hint());
  }
  return first;
}

void scheduler::add_timer(timer& item, steady_time due) noexcept {
  worker* const self = own_worker();
  worker& keeper = self != nullptr ? *self : *workers_[turn_.fetch_add(1, std::memory_order_relaxed) % workers_.size()];
  if (!keeper.timers.insert(item, due) || idle_count_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  if (clock_->is_manual()) {
    // Its mover fires what is due; what is due already waits for no move.
    if (due <= clock_->steady()) {
      wake_one();
    }
  } else {
    // Somebody idle must watch for it: this worker may be busy when it is due. Under the lock: whoever gives the watch up at this moment
    // sees the timer, or is seen.
    worker* chosen = nullptr;
    {
      std::lock_guard const guard(idle_lock_);
      if (!idle_.empty() && due.time_since_epoch().count() < watched_until_.load(std::memory_order_relaxed)) {
        auto const at = timekeeper_ != nullptr ? std::find(idle_.begin(), idle_.end(), timekeeper_) : idle_.end() - 1;
        if (at != idle_.end()) {
          chosen = take_out_of_idle(at);
        }
      }
    }
    if (chosen != nullptr) {
      rouse(*chosen);
    }
  }
}

void scheduler::start_from_outside(task_root& root, std::string_view name) {
  // The runtime may end as soon as the task has; and a shutdown waits for who is inside before it looks for tasks.
  for (unsigned round = 0;; ++round) {
    visitors_.fetch_add(1, std::memory_order_seq_cst);
    doors const now = doors_.load(std::memory_order_seq_cst);
    if (now == doors::open) {
      break;
    }
    visitors_.fetch_sub(1, std::memory_order_release);
    if (now == doors::closed) {
      throw error(errc::closed, "a task cannot be spawned on a runtime after its shutdown");
    }
    spin_wait(round);
  }
  struct leave {
    std::atomic<std::size_t>& visitors;
    ~leave() { visitors.fetch_sub(1, std::memory_order_release); }
  } const at_end{visitors_};
  root.become_root(*this, name);
  launch_from_outside(root);
}

void scheduler::launch_from_outside(task_root& root) noexcept {
  started_outside_.fetch_add(1, std::memory_order_relaxed);
  if (closing_.load(std::memory_order_seq_cst)) {
    root.cancel();
  }
  push(ready_item{root});
}

void scheduler::look_whether_empty() noexcept {
  if (closing_.load(std::memory_order_relaxed) && live_tasks() == 0) {
    // Two that end at once may each miss the other: the shutdown looks again soon.
    emptied_.fetch_add(1, std::memory_order_release);
    futex_wake(emptied_, 1);
  }
}

std::size_t scheduler::live_tasks() const noexcept {
  // What a task has started was counted before its own end: with the ends read first, nought means that none lives.
  std::uint64_t finished = finished_outside_.load(std::memory_order_acquire);
  for (auto const& w : workers_) {
    finished += w->finished.load(std::memory_order_acquire);
  }
  std::uint64_t started = started_outside_.load(std::memory_order_relaxed);
  for (auto const& w : workers_) {
    started += w->started.load(std::memory_order_relaxed);
  }
  return static_cast<std::size_t>(started > finished ? started - finished : 0);
}

void scheduler::cancel_all() noexcept {
  walk_roots(
      [](task_root& root, void* self) {
        if (root.home_ == static_cast<scheduler*>(self)->number_) {
          root.cancel();
        }
      },
      this);
}

std::vector<task_info> scheduler::tasks() const {
  struct look {
    std::uint16_t home;
    std::vector<task_info> found;
    bool failed = false;
  } seen{number_, {}};
  walk_roots(
      [](task_root& root, void* context) {
        auto& into = *static_cast<look*>(context);
        if (root.home_ != into.home || root.done()) {
          return;
        }
        auto const place = root.where();
        try {
          into.found.push_back({.name = std::string{root.name()},
                                .waits_in = place.operation != nullptr ? type_text(*place.operation) : "",
                                .function = place.resumes != nullptr ? function_text(place.resumes) : "",
                                .cancelled = root.was_asked_to_stop()});
        } catch (const std::bad_alloc&) {
          into.failed = true;
        }
      },
      &seen);
  if (seen.failed) {
    throw std::bad_alloc();
  }
  return std::move(seen.found);
}

// Only a task of this runtime and a thread that is inside `launch` start another: once nobody is inside and none lives, none will.
bool scheduler::close_if_empty() noexcept {
  if (live_tasks() != 0) {
    return false;
  }
  doors_.store(doors::checked, std::memory_order_seq_cst);
  for (unsigned round = 0; visitors_.load(std::memory_order_seq_cst) != 0; ++round) {
    spin_wait(round);
  }
  bool const empty = live_tasks() == 0;
  doors_.store(empty ? doors::closed : doors::open, std::memory_order_seq_cst);
  return empty;
}

void scheduler::wake_all() noexcept {
  while (worker* const sleeper = take_idle()) {
    rouse(*sleeper);
  }
  // A worker that enters the idle list from here on sees why it was to be woken: both pass through `idle_lock_`.
  {
    std::lock_guard const guard(idle_lock_);
  }
  while (worker* const sleeper = take_idle()) {
    rouse(*sleeper);
  }
}

void scheduler::stop_workers() noexcept {
  // It reads what lies in the threads.
  watchdog_.reset();
  stop_.store(true, std::memory_order_release);
  wake_all();
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
  if (doors_.load(std::memory_order_relaxed) == doors::closed) {
    return 0;
  }
  closing_.store(true, std::memory_order_seq_cst);
  bool simulates = false;
  for (;;) {
    std::uint32_t const seen = emptied_.load(std::memory_order_acquire);
    cancel_all();
    if (simulation_ != nullptr) {
      // Not before: it would go on and on until it is cancelled.
      if (!std::exchange(simulates, true)) {
        simulation_->running.fetch_add(1, std::memory_order_release);
      }
      wake_all();
    }
    if (close_if_empty()) {
      break;
    }
    steady_time const now = ergon::clock::system().steady();
    if (now >= deadline) {
      if (simulates) {
        simulation_->running.fetch_sub(1, std::memory_order_release);
      }
      return std::max<std::size_t>(live_tasks(), 1);
    }
    futex_wait(emptied_, seen, std::min(deadline, time_after(now, cancel_interval)));
  }
  stop_workers();
  return 0;
}

void scheduler::settle() {
  if (is_own_thread()) {
    throw error(errc::invalid_argument, "runtime::settle was called on a thread of the same runtime, which is not idle then");
  }
  if (simulation_ != nullptr) {
    throw error(errc::not_supported, "a simulated runtime moves its clock itself: block_on is what it runs in");
  }
  for (;;) {
    std::uint32_t const seen = settled_.load(std::memory_order_acquire);
    {
      std::lock_guard const guard(idle_lock_);
      if (idle_.size() == workers_.size()) {
        bool const due = earliest_hint() <= clock_->steady();
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
  if (simulation_ != nullptr) {
    throw error(errc::not_supported, "a simulated runtime runs blocking calls itself: it takes no executor");
  }
  std::lock_guard const guard(executor_mutex_);
  executor_.swap(executor);
}

std::shared_ptr<blocking_executor> scheduler::blocking() const {
  std::lock_guard const guard(executor_mutex_);
  return executor_;
}

}  // namespace ergon::detail
