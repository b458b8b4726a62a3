// Life of a root and of the waits in it; the locking is described in root.hpp.
#include <ergon/runtime/root.hpp>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/fork_join.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/task_local.hpp>

#include "runtime/frame_memory.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/turn.hpp"

namespace ergon {

namespace detail {

namespace {

// What a transfer through the loop left for `resume_chain`.
constinit thread_local std::coroutine_handle<> transferred;

}  // namespace

namespace {

// Longer from time to time: who holds the lock does more with it before it changes hands.
void spin(unsigned round, unsigned first, unsigned last) noexcept {
  // With more threads than processors the holder may be the one that waits for ours.
  if (round % 64 == 63) {
    ::sched_yield();
    return;
  }
  for (unsigned pauses = 1U << std::min(first + round, last); pauses > 0; --pauses) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

}  // namespace

void spin_wait(unsigned round) noexcept { spin(round, 0, 6); }
void spin_wait_long(unsigned round) noexcept { spin(round, 7, 10); }

void fatal(const char* text) noexcept {
  std::fputs(text, stderr);
  std::fputc('\n', stderr);
  std::abort();
}

void refuse_empty_task() {
  throw error(errc::invalid_argument, "an empty task cannot be started: it was awaited, spawned or moved from before");
}

std::coroutine_handle<> transfer_through_loop(std::coroutine_handle<> next) noexcept {
  transferred = next;
  return std::noop_coroutine();
}

void resume_chain(promise_base& leaf) noexcept { resume_chain(leaf, *leaf.root()); }

void resume_chain(promise_base& leaf, task_root& root) noexcept {
  this_turn.enter(leaf, root);
  leaf.handle().resume();
  while (transferred) [[unlikely]] {
    std::exchange(transferred, {}).resume();
  }
  this_turn.running = nullptr;
}

namespace {

// What exceptions look like in a word. The standard libraries keep a counted pointer.
static_assert(sizeof(std::exception_ptr) == sizeof(std::uintptr_t));

union exception_bits {
  explicit exception_bits(std::uintptr_t bits) noexcept : word{bits} {}
  explicit exception_bits(std::exception_ptr e) noexcept : exception{std::move(e)} {}
  exception_bits(const exception_bits&) = delete;
  exception_bits& operator=(const exception_bits&) = delete;
  ~exception_bits() {}

  std::uintptr_t word;
  std::exception_ptr exception;
};

// Names of tasks, by number. Entries are written once, before their number is given out.
constexpr std::size_t most_names = 4096;
constinit std::array<std::string_view, most_names> names{};
std::uint16_t name_count = 1;
std::mutex names_mutex;

struct known_name {
  const char* data;
  std::size_t size;
  std::uint16_t number;
};
constinit thread_local std::array<known_name, 16> known_names{};

[[gnu::noinline]] std::uint16_t number_of_new(std::string_view name) noexcept {
  std::lock_guard const guard(names_mutex);
  for (std::uint16_t i = 1; i < name_count; ++i) {
    if (names[i] == name) {
      return i;
    }
  }
  if (name_count == most_names) {
    // More names than anybody tells apart.
    return most_names - 1;
  }
  names[name_count] = name;
  return name_count++;
}

std::uint16_t number_of(std::string_view name) noexcept {
  if (name.empty()) {
    return 0;
  }
  known_name& known = known_names[(reinterpret_cast<std::uintptr_t>(name.data()) >> 4U) % known_names.size()];
  if (known.data != name.data() || known.size != name.size()) {
    known = {name.data(), name.size(), number_of_new(name)};
  }
  return known.number;
}

promise_base& promise_of(task_root& root) noexcept { return static_cast<promise_base&>(root); }

}  // namespace

// What few tasks need.
struct task_root::extras {
  ~extras() {
    delete stop.load(std::memory_order_relaxed);
    local_binding::release(locals);
  }

  // Made on first use.
  std::atomic<std::stop_source*> stop{nullptr};
  std::uintptr_t group_index = 0;
  // Of a branch.
  task_root* top = nullptr;
  // The task's own; a reference.
  local_binding* locals = nullptr;
};

std::string_view task_root::name() const noexcept { return names[name_]; }
std::string_view task_root::name_of(std::uint16_t number) noexcept { return names[number]; }
scheduler& task_root::home() const noexcept { return scheduler::by_number(home_); }
void task_root::schedule(work& item) noexcept { home().push(item); }

local_binding* task_root::own_locals() const noexcept {
  extras* const mine = extra();
  return mine != nullptr ? mine->locals : nullptr;
}

local_binding* task_root::locals() const noexcept {
  local_binding* const own = own_locals();
  return own == nullptr && is_branch() ? top().locals() : own;
}

void task_root::set_locals(local_binding* to) {
  if (extras* const mine = to == nullptr ? extra() : &make_extra()) {
    mine->locals = to;
  }
}

void task_root::inherit_locals(const task_root& from) {
  if (local_binding* const theirs = from.locals()) {
    set_locals(theirs);
    theirs->retain();
  }
}

void task_root::become_root(scheduler& home, std::string_view name) {
  if (this_turn.running != nullptr) {
    inherit_locals(*this_turn.running);
  }
  name_ = number_of(name);
  home_ = home.number();
  second_.store(0, std::memory_order_relaxed);
  list_root(*this);
  state_.store(rooted | owned | 2 * reference, std::memory_order_release);
}

task_root& task_root::top_in_extras(std::uintptr_t word) noexcept { return *reinterpret_cast<extras*>(word)->top; }

void task_root::give_up() noexcept {
  promise_of(*this).handle().destroy();
  release();
}

void task_root::release() noexcept {
  if (state_.fetch_sub(reference, std::memory_order_acq_rel) < 2 * reference) {
    free_memory();
  }
}

void task_root::release_both() noexcept {
  if (state_.fetch_sub(2 * reference, std::memory_order_acq_rel) < 3 * reference) {
    free_memory();
  }
}

void task_root::free_memory() noexcept {
  drop_extra();
  free_root(*this);
}

bool task_root::hand_over() noexcept {
  std::uint32_t seen = state_.load(std::memory_order_acquire);
  while ((seen & owned) != 0) {
    if (state_.compare_exchange_weak(seen, seen + handed_over - reference, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      if (seen < 2 * reference) {
        free_memory();
      }
      return true;
    }
  }
  return false;
}

bool task_root::retain_if_alive() noexcept {
  std::uint32_t seen = state_.load(std::memory_order_relaxed);
  while ((seen & rooted) != 0 && seen >= reference) {
    if (state_.compare_exchange_weak(seen, seen + reference, std::memory_order_acquire, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void task_root::lock() noexcept {
  for (unsigned round = 0; (state_.fetch_or(locked, std::memory_order_acquire) & locked) != 0; ++round) {
    spin_wait(round);
  }
}

void task_root::stop_waiting() noexcept {
  std::uint32_t seen = state_.load(std::memory_order_relaxed);
  for (unsigned round = 0;; ++round) {
    if ((seen & locked) != 0) {
      spin_wait(round);
      seen = state_.load(std::memory_order_relaxed);
    } else if (state_.compare_exchange_weak(seen, seen & ~waiting, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      second_.store(0, std::memory_order_relaxed);
      return;
    }
  }
}

std::coroutine_handle<> go_on() noexcept { return scheduler::go_on(); }

void task_root::start() noexcept {
  second_.store(0, std::memory_order_relaxed);
  if (cancelled()) {
    unwind(promise_of(*this));
  } else {
    resume_chain(promise_of(*this), *this);
  }
}

void task_root::cancel() noexcept {
  lock();
  std::uint32_t const seen = state_.load(std::memory_order_relaxed);
  if ((seen & cancel_asked) != 0 || done()) {
    unlock();
    return;
  }
  std::uint32_t change = cancel_asked - locked;
  operation* ended = nullptr;
  if ((seen & waiting) != 0) {
    auto* const awaited = reinterpret_cast<operation*>(second_.load(std::memory_order_relaxed));
    if (awaited->disarm()) {
      ended = awaited;
      ended->bits_ |= operation::was_stopped;
      second_.store(0, std::memory_order_relaxed);
      change -= waiting;
    }
  }
  // Sequentially consistent with the look at `extras`: `stop_token` makes them first and looks for a cancel afterwards.
  state_.fetch_add(change, std::memory_order_seq_cst);
  if (ended != nullptr) {
    schedule(*ended);
  }
  if (extras* const more = extra()) {
    if (std::stop_source* const source = more->stop.load(std::memory_order_seq_cst)) {
      source->request_stop();
    }
  }
  if ((state_.load(std::memory_order_seq_cst) & has_branches) != 0) {
    fork_base::cancel_branches(*this);
  }
}

task_root::wait_place task_root::where() noexcept {
  wait_place found;
  lock();
  if ((state_.load(std::memory_order_relaxed) & waiting) != 0) {
    const auto& awaited = *reinterpret_cast<const operation*>(second_.load(std::memory_order_relaxed));
    found.operation = &typeid(awaited);
    found.resumes = awaited.leaf().resume_function();
  }
  unlock();
  return found;
}

task_root::extras* task_root::extra() const noexcept {
  std::uintptr_t const word = third_.load(std::memory_order_seq_cst);
  return (word & tag) == is_extras ? reinterpret_cast<extras*>(word) : nullptr;
}

task_root::extras& task_root::make_extra() {
  if (extras* const there = extra()) {
    return *there;
  }
  auto made = std::make_unique<extras>();
  std::uintptr_t seen = third_.load(std::memory_order_relaxed);
  for (;;) {
    if (seen != 0 && (seen & tag) == is_extras) {
      return *reinterpret_cast<extras*>(seen);
    }
    made->group_index = (seen & tag) == is_index ? seen >> 2U : 0;
    made->top = (seen & tag) == is_top ? reinterpret_cast<task_root*>(seen & ~tag) : nullptr;
    if (third_.compare_exchange_weak(seen, reinterpret_cast<std::uintptr_t>(made.get()), std::memory_order_seq_cst)) {
      return *made.release();
    }
  }
}

void task_root::drop_extra() noexcept { delete extra(); }

std::stop_token task_root::stop_token() {
  if (is_branch()) {
    return top().stop_token();
  }
  extras& more = make_extra();
  std::stop_source* source = more.stop.load(std::memory_order_seq_cst);
  if (source == nullptr) {
    auto made = std::make_unique<std::stop_source>();
    source = more.stop.compare_exchange_strong(source, made.get(), std::memory_order_seq_cst) ? made.release() : source;
  }
  if ((state_.load(std::memory_order_seq_cst) & cancel_asked) != 0) {
    source->request_stop();
  }
  return source->get_token();
}

void task_root::set_group_index(std::size_t index) noexcept {
  std::uintptr_t seen = third_.load(std::memory_order_acquire);
  for (;;) {
    if (seen != 0 && (seen & tag) == is_extras) {
      reinterpret_cast<extras*>(seen)->group_index = index;
      return;
    }
    if (third_.compare_exchange_weak(seen, index << 2U | is_index, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return;
    }
  }
}

std::size_t task_root::group_index() const noexcept {
  extras* const more = extra();
  return more != nullptr ? more->group_index : third_.load(std::memory_order_relaxed) >> 2U;
}

bool task_root::set_joiner(join_waiter& waiter) noexcept {
  std::uintptr_t seen = 0;
  if (first_.compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(&waiter), std::memory_order_acq_rel)) {
    return true;
  }
  if ((seen & ended) == 0) {
    fatal("ergon: two tasks await one join handle at the same time");
  }
  return false;
}

bool task_root::clear_joiner(join_waiter& waiter) noexcept {
  auto seen = reinterpret_cast<std::uintptr_t>(&waiter);
  return first_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel);
}

void task_root::set_failure(std::exception_ptr e) noexcept {
  exception_bits const bits{std::move(e)};
  second_.store(bits.word, std::memory_order_relaxed);
}

void task_root::throw_failure() const {
  exception_bits const bits{second_.load(std::memory_order_relaxed)};
  std::rethrow_exception(bits.exception);
}

std::exception_ptr task_root::take_failure() noexcept {
  if (stopped() || !has_failure()) {
    return nullptr;
  }
  exception_bits bits{second_.exchange(0, std::memory_order_relaxed)};
  state_.fetch_or(was_stopped, std::memory_order_relaxed);
  std::exception_ptr taken = std::move(bits.exception);
  std::destroy_at(&bits.exception);
  return taken;
}

void task_root::forget_failure() noexcept {
  exception_bits bits{second_.load(std::memory_order_relaxed)};
  std::destroy_at(&bits.exception);
}

bool task_root::take_unwound() noexcept { return (state_.fetch_and(~was_unwound, std::memory_order_relaxed) & was_unwound) != 0; }

void task_root::unwind(promise_base& leaf) noexcept {
  promise_base* at = &leaf;
  for (;;) {
    promise_base* const up = at->parent();
    bool const boundary = at->is_boundary();
    task_root& root = *at->root();
    // Destructors run as parts of the task.
    this_turn.running = &root;
    if (up == nullptr && root.is_branch()) {
      at = fork_base::branch_stopped(*at);
      this_turn.running = nullptr;
      if (at == nullptr) {
        return;
      }
      continue;
    }
    if (up == nullptr) {
      root.state_.fetch_or(was_stopped, std::memory_order_relaxed);
      root.finish();
      this_turn.running = nullptr;
      root.release();
      return;
    }
    at->handle().destroy();
    if (boundary) {
      root.state_.fetch_or(was_unwound, std::memory_order_relaxed);
      resume_chain(*up);
      return;
    }
    at = up;
  }
}

void task_root::finish() noexcept {
  promise_of(*this).handle().destroy();
  scheduler::ended(*this);
  if (auto* const told = reinterpret_cast<join_waiter*>(first_.exchange(ended, std::memory_order_acq_rel))) {
    told->joined(*told, *this);
  }
}

join_wait::join_wait(task_root& target) noexcept : target_(&target) {
  joined = [](join_waiter& self, task_root&) noexcept {
    auto& waiting = static_cast<join_wait&>(self);
    waiting.release();
    scheduler::push_next(waiting);
  };
}
bool join_wait::arm() noexcept { return target_->set_joiner(*this); }
bool join_wait::disarm() noexcept { return target_->clear_joiner(*this); }

// A child that nobody has begun and that stands newest in this worker's deque is begun here, as if it was called.
std::coroutine_handle<> join_wait::begin_join(promise_base& leaf) noexcept {
  return waits_plainly() && call_target(leaf) ? transfer(target_->begin_here()) : begin(leaf);
}

bool join_wait::call_target(promise_base& leaf) noexcept {
  if (target_->first_.load(std::memory_order_relaxed) != 0 || !scheduler::take_back(*target_)) {
    return false;
  }
  task_root& mine = *leaf.root();
  if (mine.cancelled() || target_->cancelled()) [[unlikely]] {
    scheduler::put_back(*target_);
    return false;
  }
  set_place(&leaf);
  mine.second_.store(reinterpret_cast<std::uintptr_t>(static_cast<operation*>(this)), std::memory_order_relaxed);
  target_->first_.store(reinterpret_cast<std::uintptr_t>(static_cast<join_waiter*>(this)) | task_root::called,
                        std::memory_order_relaxed);
  return true;
}

std::coroutine_handle<> task_root::end_called() noexcept {
  if (this_turn.worker == nullptr) [[unlikely]] {
    // Resumed by something outside, where its callers must not go on.
    publish();
    return nullptr;
  }
  promise_of(*this).handle().destroy();
  scheduler::ended(*this);
  promise_base& caller = joiner().leaf();
  task_root& root = *caller.root();
  // From here on the result may be taken, and the memory with it.
  first_.store(ended | kept, std::memory_order_release);
  root.second_.store(0, std::memory_order_relaxed);
  this_turn.enter(caller, root);
  return transfer(caller.handle());
}

join_wait& task_root::joiner() const noexcept {
  auto* const waiter = reinterpret_cast<join_waiter*>(first_.load(std::memory_order_relaxed) & ~called);
  return static_cast<join_wait&>(*waiter);
}

// From the outermost caller inwards: whoever waits may be gone at once, and must not be what somebody has called then.
void task_root::publish() noexcept {
  task_root* at = this;
  while (!at->is_branch() && at->is_called()) {
    at = &at->joiner().root();
  }
  if (at->is_branch() && !at->is_published()) {
    fork_base::publish(*at);
  }
  while (at != this) {
    at = &static_cast<join_wait*>(reinterpret_cast<operation*>(at->second_.load(std::memory_order_relaxed)))->publish();
  }
}

task_root& join_wait::publish() noexcept {
  task_root& mine = root();
  task_root& target = *target_;
  mine.lock();
  bool const stop = mine.cancelled();
  target.first_.store(stop ? 0 : reinterpret_cast<std::uintptr_t>(static_cast<join_waiter*>(this)), std::memory_order_release);
  if (stop) [[unlikely]] {
    mine.second_.store(0, std::memory_order_relaxed);
    mine.unlock();
    stop_when_woken();
    queue();
  } else {
    mine.unlock(task_root::waiting);
  }
  return target;
}

void launch_owned(task_root& child) noexcept { child.home().launch_owned(child); }
void start_here(task_root& root, std::string_view name) { scheduler::here().start(root, name); }

void stop_here::begin(promise_base& leaf) noexcept {
  leaf_ = &leaf;
  task_root& root = *leaf.root();
  root.publish_if_private();
  root.schedule(*this);
}
void stop_here::run() noexcept { task_root::unwind(*leaf_); }

}  // namespace detail

detail::promise_base& operation::leaf() const noexcept { return *static_cast<detail::promise_base*>(place()); }
detail::task_root& operation::root() const noexcept { return *leaf().root(); }

std::coroutine_handle<> operation::begin(detail::promise_base& leaf) noexcept {
  set_place(&leaf);
  detail::task_root& root = *leaf.root();
  bool stop = false;
  switch (bits_ & on_cancel) {
    case checks:
      stop = root.cancelled();
      [[fallthrough]];
    case ignores:
      root.publish_if_private();
      if (!stop) {
        return arm() ? std::noop_coroutine() : go_on(leaf);
      }
      break;
    default: {
      if (!root.cancelled() && try_now()) {
        return go_on(leaf);
      }
      root.publish_if_private();
      root.lock();
      stop = root.cancelled();
      if (stop) {
        root.unlock();
        break;
      }
      if (!arm()) {
        root.unlock();
        return go_on(leaf);
      }
      root.second_.store(reinterpret_cast<std::uintptr_t>(this), std::memory_order_relaxed);
      root.unlock(detail::task_root::waiting);
      return std::noop_coroutine();
    }
  }
  bits_ |= was_stopped;
  if ((bits_ & reports_stop) != 0) {
    return detail::transfer(leaf.handle());
  }
  root.schedule(*this);
  return std::noop_coroutine();
}

// There was nothing to wait for. A task that never has to wait gives way now and then.
std::coroutine_handle<> operation::go_on(detail::promise_base& leaf) noexcept {
  if (detail::this_turn.waits_left == 0) [[unlikely]] {
    detail::task_root& root = *leaf.root();
    root.publish_if_private();
    root.home().push_behind(*this);
    return std::noop_coroutine();
  }
  --detail::this_turn.waits_left;
  return detail::transfer(leaf.handle());
}

void operation::run() noexcept {
  detail::promise_base& waiter = leaf();
  if ((bits_ & (was_stopped | reports_stop)) == was_stopped) {
    detail::task_root::unwind(waiter);
  } else {
    detail::resume_chain(waiter);
  }
}

void operation::release() noexcept {
  if ((bits_ & on_cancel) == 0) {
    root().stop_waiting();
  }
}

void operation::queue() noexcept { root().schedule(*this); }

void operation::wake() noexcept {
  release();
  queue();
}

void completion::complete() noexcept {
  if (state_.exchange(complete_, std::memory_order_acq_rel) == waiting_) {
    leaf_->root()->schedule(*this);
  }
}

bool completion::begin(detail::promise_base& leaf) noexcept {
  leaf_ = &leaf;
  leaf.root()->publish_if_private();
  unsigned char expected = pending_;
  return state_.compare_exchange_strong(expected, waiting_, std::memory_order_acq_rel, std::memory_order_acquire);
}

void completion::run() noexcept { detail::resume_chain(*leaf_); }

}  // namespace ergon
