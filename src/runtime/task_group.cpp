// See task_group.hpp for the locking.
#include <ergon/runtime/task_group.hpp>

#include <mutex>

#include "runtime/scheduler.hpp"

namespace ergon {

task_group::task_group(detail::task_root& owner) noexcept : home_(owner.home()) { joined = &task_group::child_ended; }

task_group::~task_group() {
  if (alive_ != 0) {
    detail::fatal("ergon: a task group was destroyed while children run");
  }
}

void task_group::adopt(detail::task_root& child) noexcept {
  child.set_joiner(*this);
  bool late = false;
  {
    std::lock_guard const guard(children_.lock);
    children_.insert(child);
    ++alive_;
    late = cancelled_;
  }
  if (late) {
    child.cancel();
  }
  home_.launch_owned(child);
}

void task_group::cancel() noexcept {
  {
    std::lock_guard const guard(children_.lock);
    cancelled_ = true;
  }
  children_.cancel_all();
}

std::size_t task_group::alive() const noexcept {
  std::lock_guard const guard(children_.lock);
  return alive_;
}

void task_group::child_ended(detail::join_waiter& self, detail::task_root& child) noexcept {
  auto& group = static_cast<task_group&>(self);
  if (std::exception_ptr failure = child.stopped() ? nullptr : child.failure()) {
    {
      std::lock_guard const guard(group.children_.lock);
      if (!group.first_failure_) {
        group.first_failure_ = failure;
      }
    }
    group.cancel();
  }
  join_all* last = nullptr;
  {
    std::lock_guard const guard(group.children_.lock);
    group.children_.remove(child);
    if (--group.alive_ == 0) {
      last = std::exchange(group.waiter_, nullptr);
    }
  }
  if (last != nullptr) {
    last->wake();
  }
}

bool task_group::join_all::arm() noexcept {
  std::lock_guard const guard(group_->children_.lock);
  if (group_->alive_ == 0) {
    return false;
  }
  group_->waiter_ = this;
  return true;
}

bool task_group::join_all::disarm() noexcept {
  std::lock_guard const guard(group_->children_.lock);
  if (group_->waiter_ != this) {
    return false;
  }
  group_->waiter_ = nullptr;
  return true;
}

}  // namespace ergon
