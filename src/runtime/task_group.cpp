// See task_group.hpp for the locking.
#include <ergon/runtime/task_group.hpp>

#include <array>
#include <mutex>

#include "runtime/scheduler.hpp"

namespace ergon {

task_group::task_group(detail::task_root& owner) noexcept : home_(owner.home()) { joined = &task_group::child_ended; }

task_group::~task_group() {
  if (!children_.empty()) {
    detail::fatal("ergon: a task group was destroyed while children run");
  }
}

void task_group::adopt(detail::task_root& child) {
  bool late = false;
  try {
    std::lock_guard const guard(lock_);
    children_.push_back(&child);
    child.set_group_index(children_.size() - 1);
    late = cancelled_;
  } catch (...) {
    child.give_up();
    throw;
  }
  child.set_joiner(*this);
  if (late) {
    child.cancel();
  }
  home_.launch_owned(child);
}

void task_group::cancel() noexcept {
  constexpr std::size_t batch = 64;
  std::array<detail::task_root*, batch> some;
  // A child that ends makes the last one take its place: so it is gone through until nobody is found.
  for (bool found = true; found;) {
    found = false;
    for (std::size_t next = 0, count = batch; count == batch;) {
      count = 0;
      {
        std::lock_guard const guard(lock_);
        cancelled_ = true;
        for (; next < children_.size() && count < batch; ++next) {
          detail::task_root* const child = children_[next];
          if (!child->cancelled() && !child->done()) {
            child->retain();
            some[count++] = child;
          }
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        found = true;
        some[i]->cancel();
        some[i]->release();
      }
    }
  }
}

std::size_t task_group::alive() const noexcept {
  std::lock_guard const guard(lock_);
  return children_.size();
}

void task_group::child_ended(detail::join_waiter& self, detail::task_root& child) noexcept {
  auto& group = static_cast<task_group&>(self);
  // Taken from the child: who is given it must not find that another thread lets go of the same exception.
  if (std::exception_ptr failure = child.take_failure()) {
    {
      std::lock_guard const guard(group.lock_);
      if (!group.first_failure_) {
        group.first_failure_ = std::move(failure);
      }
    }
    group.cancel();
  }
  join_all* last = nullptr;
  {
    std::lock_guard const guard(group.lock_);
    std::size_t const at = child.group_index();
    detail::task_root* const moved = group.children_.back();
    group.children_[at] = moved;
    moved->set_group_index(at);
    group.children_.pop_back();
    if (group.children_.empty()) {
      last = std::exchange(group.waiter_, nullptr);
    }
  }
  if (last != nullptr) {
    last->wake();
  }
}

bool task_group::join_all::arm() noexcept {
  std::lock_guard const guard(group_->lock_);
  if (group_->children_.empty()) {
    return false;
  }
  group_->waiter_ = this;
  return true;
}

bool task_group::join_all::disarm() noexcept {
  std::lock_guard const guard(group_->lock_);
  if (group_->waiter_ != this) {
    return false;
  }
  group_->waiter_ = nullptr;
  return true;
}

}  // namespace ergon
