// See latch.hpp for the locking.
#include <ergon/runtime/latch.hpp>

#include <mutex>
#include <string>

#include <ergon/base/error.hpp>

namespace ergon {

namespace {

[[noreturn]] void throw_below_zero(std::size_t n, std::size_t left) {
  throw error(errc::invalid_argument, "a latch was counted down by " + std::to_string(n) + " when " + std::to_string(left) +
                                          " was left; it cannot go below zero");
}

}  // namespace

latch::~latch() {
  if (!waiters_.empty()) {
    detail::fatal("ergon: a latch was destroyed while tasks wait for it");
  }
}

void latch::count_down(std::size_t n) {
  lock_.lock();
  std::size_t const left = count_;
  if (n > left) {
    lock_.unlock();
    throw_below_zero(n, left);
  }
  count_ -= n;
  detail::listed_operation* const all = count_ == 0 ? waiters_.take_all() : nullptr;
  lock_.unlock();
  detail::wait_list::wake_all(all);
}

bool latch::try_wait() const noexcept {
  // Not without the lock: who sees it open may destroy it, and whoever opened it must be done with it then.
  std::lock_guard const guard(lock_);
  return count_ == 0;
}

bool latch::wait_operation::arm() noexcept {
  std::lock_guard const guard(latch_->lock_);
  if (arrivals_ > latch_->count_) {
    set(mark::first);
    left_ = latch_->count_;
    return false;
  }
  latch_->count_ -= arrivals_;
  if (latch_->count_ == 0) {
    // `await_resume` wakes them, when the lock of our root is not held any more.
    let_go_ = latch_->waiters_.take_all();
    return false;
  }
  latch_->waiters_.push_back(*this);
  return true;
}

bool latch::wait_operation::disarm() noexcept {
  std::lock_guard const guard(latch_->lock_);
  return latch_->waiters_.remove(*this);
}

void latch::wait_operation::await_resume() const {
  if (has(mark::first)) {
    throw_below_zero(arrivals_, left_);
  }
  detail::wait_list::wake_all(let_go_);
}

}  // namespace ergon
