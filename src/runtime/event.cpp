// See event.hpp for the locking.
#include <ergon/runtime/event.hpp>

#include <ergon/runtime/spin_lock.hpp>

namespace ergon {

event::~event() {
  if (!waiters_.empty()) {
    detail::fatal("ergon: an event was destroyed while tasks wait for it");
  }
}

unsigned event::lock() noexcept {
  for (unsigned round = 0;; ++round) {
    unsigned const seen = word_.fetch_or(locked_, std::memory_order_acquire);
    if ((seen & locked_) == 0) {
      return seen;
    }
    detail::spin_wait(round);
  }
}

void event::set() noexcept {
  lock();
  detail::listed_operation* const all = waiters_.take_all();
  unlock(set_);
  detail::wait_list::wake_all(all);
}

void event::reset() noexcept {
  lock();
  unlock(0);
}

bool event::wait_operation::arm() noexcept {
  unsigned const flag = event_->lock();
  bool const waits = (flag & set_) == 0;
  if (waits) {
    event_->waiters_.push_back(*this);
  }
  event_->unlock(flag);
  return waits;
}

bool event::wait_operation::disarm() noexcept {
  unsigned const flag = event_->lock();
  bool const mine = event_->waiters_.remove(*this);
  event_->unlock(flag);
  return mine;
}

}  // namespace ergon
