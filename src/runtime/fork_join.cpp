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

struct fork_base::waiting_branches {
  spin_lock lock;
  fork_branch* first = nullptr;
  fork_branch* last = nullptr;

  void push_back(fork_branch& item) noexcept {
    item.before = last;
    item.after = nullptr;
    (last != nullptr ? last->after : first) = &item;
    last = &item;
  }
  void remove(fork_branch& item) noexcept {
    (item.before != nullptr ? item.before->after : first) = item.after;
    (item.after != nullptr ? item.after->before : last) = item.before;
  }
};

fork_base::waiting_branches& fork_base::shard_of(task_root& top) noexcept {
  static constinit std::array<waiting_branches, 16> shards;
  return shards[(reinterpret_cast<std::uintptr_t>(&top) >> 6U) % shards.size()];
}

std::coroutine_handle<> fork_base::begin(promise_base& waiter) noexcept {
  waiter_ = &waiter;
  left_.store(count_, std::memory_order_relaxed);
  task_root& parent = *waiter.root();
  scheduler& home = parent.home();
  promise_base& first = *branches_[0].frame;
  for (std::size_t i = count_ - 1; i > 0; --i) {
    branches_[i].frame->become_branch(*this, parent);
    home.push_branch(*branches_[i].frame);
  }
  // From here on nothing but the first branch, which has not begun, keeps the waiting frame where it is.
  first.become_branch(*this, parent);
  if (parent.cancelled()) [[unlikely]] {
    home.push_branch(first);
    return std::noop_coroutine();
  }
  this_turn.running = &first;
  return transfer(first.handle());
}

std::coroutine_handle<> fork_base::count_off() noexcept {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return std::noop_coroutine();
  }
  if (stopped() && !reports_stop_) [[unlikely]] {
    task_root::unwind(*waiter_);
    return std::noop_coroutine();
  }
  this_turn.running = waiter_->root();
  return transfer(waiter_->handle());
}

promise_base* fork_base::end_stopped(promise_base& at) noexcept {
  auto& fork = *reinterpret_cast<fork_base*>(at.first_.load(std::memory_order_relaxed));
  at.handle().destroy();
  at.state_.fetch_or(task_root::was_stopped, std::memory_order_relaxed);
  fork.stopped_.store(true, std::memory_order_relaxed);
  if (at.is_published()) {
    fork.withdraw(at);
  }
  if (fork.left_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return nullptr;
  }
  if (!fork.reports_stop_) {
    return fork.waiter_;
  }
  resume_chain(*fork.waiter_);
  return nullptr;
}

fork_branch& fork_base::branch_of(task_root& root) const noexcept {
  fork_branch* at = branches_;
  while (at->frame != &root) {
    ++at;
  }
  return *at;
}

void fork_base::publish(task_root& of) noexcept {
  list_root(of);
  task_root& top = of.top();
  waiting_branches& shard = shard_of(top);
  of.state_.fetch_add(task_root::reference, std::memory_order_release);
  {
    std::lock_guard const guard(shard.lock);
    shard.push_back(branch_of(of));
  }
  top.state_.fetch_or(task_root::has_branches, std::memory_order_seq_cst);
}

void fork_base::withdraw(task_root& of) noexcept {
  waiting_branches& shard = shard_of(of.top());
  std::lock_guard const guard(shard.lock);
  shard.remove(branch_of(of));
}

void fork_base::cancel_branches(task_root& top) noexcept {
  constexpr std::size_t batch = 64;
  std::array<task_root*, batch> some;
  waiting_branches& shard = shard_of(top);
  for (std::size_t count = batch; count != 0;) {
    count = 0;
    {
      std::lock_guard const guard(shard.lock);
      // What was cancelled goes to the end: so the next batch is found at once.
      fork_branch* at = shard.first;
      for (fork_branch* const last = shard.last; at != nullptr && count < batch;) {
        fork_branch* const after = at == last ? nullptr : at->after;
        task_root& root = *at->frame;
        if (&root.top() == &top && (root.state_.load(std::memory_order_relaxed) & task_root::cancel_asked) == 0) {
          root.retain();
          some[count++] = &root;
          shard.remove(*at);
          shard.push_back(*at);
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

void task_root::publish() noexcept { reinterpret_cast<fork_base*>(first_.load(std::memory_order_relaxed))->publish(*this); }

std::coroutine_handle<> task_root::end_branch() noexcept {
  auto& fork = *reinterpret_cast<fork_base*>(first_.load(std::memory_order_relaxed));
  if (is_published()) [[unlikely]] {
    fork.withdraw(*this);
  }
  return fork.count_off();
}

void task_root::destroy_branch() noexcept {
  auto const frame = static_cast<promise_base&>(*this).handle();
  bool const published = is_published();
  if (!published && !stopped()) [[likely]] {
    drop_extra();
    state_.store(0, std::memory_order_relaxed);
    frame.destroy();
    return;
  }
  // A root's memory outlives its frame, which is gone already if it was stopped.
  if (!stopped()) {
    frame.destroy();
  }
  if (published) {
    release();
  } else {
    drop_extra();
    free_root(*this);
  }
}

}  // namespace ergon::detail
