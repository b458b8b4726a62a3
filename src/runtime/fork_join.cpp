// See fork_join.hpp, and root.hpp for what a branch is.
//
// The branches that wait stand in lists, a few for the whole process, so that a cancel of their task finds them: it marks the task first
// and looks for branches afterwards, a branch enters its list first and looks for the mark afterwards.
#include <ergon/runtime/fork_join.hpp>

#include <array>
#include <cstdint>
#include <mutex>

#include <ergon/runtime/root.hpp>
#include <ergon/runtime/spin_lock.hpp>

#include "runtime/frame_memory.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/turn.hpp"

namespace ergon::detail {

struct fork_base::waiting_forks {
  spin_lock lock;
  fork_base* first = nullptr;
  fork_base* last = nullptr;

  void push_back(fork_base& item) noexcept {
    item.before_ = last;
    item.after_ = nullptr;
    (last != nullptr ? last->after_ : first) = &item;
    last = &item;
  }
  void remove(fork_base& item) noexcept {
    (item.before_ != nullptr ? item.before_->after_ : first) = item.after_;
    (item.after_ != nullptr ? item.after_->before_ : last) = item.before_;
  }
};

fork_base::waiting_forks& fork_base::shard_of(task_root& top) noexcept {
  static constinit std::array<waiting_forks, 16> shards;
  return shards[(reinterpret_cast<std::uintptr_t>(&top) >> 6U) % shards.size()];
}

std::coroutine_handle<> fork_base::begin(promise_base& waiter) noexcept {
  waiter_ = &waiter;
  left_.store(count_, std::memory_order_relaxed);
  task_root& parent = *waiter.root();
  parent.publish_if_called();
  task_root& top = parent.top();
  promise_base& first = *branches_[0];
  for (std::size_t i = 0; i < count_; ++i) {
    branches_[i]->become_branch(*this, top);
  }
  if (parent.has_own_locals()) [[unlikely]] {
    for (std::size_t i = 0; i < count_; ++i) {
      branches_[i]->inherit_locals(parent);
    }
  }
  bool const cancelled = top.cancelled();
  if (!cancelled) [[likely]] {
    first.first_.store(reinterpret_cast<std::uintptr_t>(this) | task_root::counts, std::memory_order_relaxed);
  }
  scheduler::push_branches(branches_ + (cancelled ? 0 : 1), count_ - (cancelled ? 0 : 1));
  if (cancelled) [[unlikely]] {
    return std::noop_coroutine();
  }
  // From here on nothing but the first branch, which has not begun and counts, keeps the waiting frame where it is.
  this_turn.running = &first;
  return transfer(first.handle());
}

inline promise_base* fork_base::pass_on(const task_root& ended) noexcept {
  if (ended_ + 1 == count_) {
    return nullptr;
  }
  promise_base& sibling = *branches_[ended_ + 1];
  if (!scheduler::take_back(sibling)) {
    return nullptr;
  }
  // One that nobody knows is cancelled with its task.
  if (ended.top().was_asked_to_stop()) [[unlikely]] {
    scheduler::put_back(sibling);
    return nullptr;
  }
  ++ended_;
  sibling.first_.store(reinterpret_cast<std::uintptr_t>(this) | task_root::counts, std::memory_order_relaxed);
  return &sibling;
}

inline bool fork_base::count_off(const task_root& branch) noexcept {
  std::uint32_t const ended = branch.counts_for_others() ? ended_ + 1 : 1;
  // Where one has counted for all, nobody else has come near.
  if (ended != count_ && left_.fetch_sub(ended, std::memory_order_acq_rel) != ended) {
    return false;
  }
  if (listed_) [[unlikely]] {
    waiting_forks& shard = shard_of(branches_[0]->top());
    std::lock_guard const guard(shard.lock);
    shard.remove(*this);
  }
  return true;
}

inline std::coroutine_handle<> fork_base::branch_ended(const task_root& branch) noexcept {
  if (branch.counts_for_others()) {
    if (promise_base* const sibling = pass_on(branch)) {
      return transfer(sibling->begin_here());
    }
  }
  if (!count_off(branch)) {
    return scheduler::go_on();
  }
  if (stopped() && !reports_stop_) [[unlikely]] {
    task_root::unwind(*waiter_);
    return std::noop_coroutine();
  }
  this_turn.running = waiter_->root();
  return transfer(waiter_->handle());
}

promise_base* fork_base::branch_stopped(promise_base& at) noexcept {
  fork_base& fork = at.fork();
  at.handle().destroy();
  at.state_.fetch_or(task_root::was_stopped, std::memory_order_relaxed);
  fork.stopped_.store(true, std::memory_order_relaxed);
  if (!fork.count_off(at)) {
    return nullptr;
  }
  if (!fork.reports_stop_) {
    return fork.waiter_;
  }
  resume_chain(*fork.waiter_);
  return nullptr;
}

void fork_base::publish(task_root& branch) noexcept { branch.fork().make_known(branch); }

void fork_base::make_known(task_root& branch) noexcept {
  list_root(branch);
  task_root& top = branch.top();
  {
    waiting_forks& shard = shard_of(top);
    std::lock_guard const guard(shard.lock);
    branch.state_.fetch_add(task_root::reference, std::memory_order_release);
    if (!listed_) {
      listed_ = true;
      shard.push_back(*this);
    }
    // Those that were cancelled may be looked at again.
    cancelled_to_ = 0;
  }
  top.state_.fetch_or(task_root::has_branches, std::memory_order_seq_cst);
}

void fork_base::cancel_branches(task_root& top) noexcept {
  constexpr std::size_t batch = 64;
  std::array<task_root*, batch> some;
  waiting_forks& shard = shard_of(top);
  for (std::size_t count = batch; count != 0;) {
    count = 0;
    {
      std::lock_guard const guard(shard.lock);
      fork_base* const last = shard.last;
      for (fork_base* at = shard.first; at != nullptr && count < batch;) {
        fork_base* const after = at == last ? nullptr : at->after_;
        if (&at->branches_[0]->top() == &top) {
          for (; at->cancelled_to_ < at->count_ && count < batch; ++at->cancelled_to_) {
            task_root& branch = *at->branches_[at->cancelled_to_];
            if (branch.is_published() && (branch.state_.load(std::memory_order_relaxed) & task_root::cancel_asked) == 0) {
              branch.retain();
              some[count++] = &branch;
            }
          }
          if (at->cancelled_to_ == at->count_) {
            // To the end: so the next batch is found at once.
            shard.remove(*at);
            shard.push_back(*at);
          }
        }
        at = after;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      some[i]->cancel();
      some[i]->release();
    }
  }
}

std::coroutine_handle<> task_root::end_branch() noexcept { return fork().branch_ended(*this); }

void task_root::destroy_known_branch() noexcept {
  // A root's memory outlives its frame, which is gone already if it was stopped.
  if (!stopped()) {
    destroy_frame();
  }
  if (is_published()) {
    release();
  } else {
    free_memory();
  }
}

}  // namespace ergon::detail
