// See semaphore.hpp for the locking.
#include <ergon/runtime/semaphore.hpp>

#include <mutex>

namespace ergon {

semaphore::~semaphore() {
  if (!waiters_.empty()) {
    detail::fatal("ergon: a semaphore or mutex was destroyed while tasks wait for it");
  }
}

// Under the lock.
bool semaphore::take(std::size_t count) noexcept {
  if (!waiters_.empty() || permits_ < count) {
    return false;
  }
  permits_ -= count;
  return true;
}

// With the lock held on entry; gives it back. Takes out all that can be served before it wakes the first, which may end the
// semaphore's life.
void semaphore::hand_out() noexcept {
  detail::wait_list served;
  while (auto* const front = static_cast<acquire_operation*>(waiters_.front())) {
    if (permits_ < front->count_) {
      break;
    }
    permits_ -= front->count_;
    waiters_.remove(*front);
    served.push_back(*front);
  }
  detail::listed_operation* const all = served.take_all();
  lock_.unlock();
  detail::wait_list::wake_all(all);
}

semaphore::permit semaphore::try_acquire(std::size_t count) noexcept {
  std::lock_guard const guard(lock_);
  return take(count) ? permit{*this, count} : permit{};
}

void semaphore::release(std::size_t count) noexcept {
  lock_.lock();
  permits_ += count;
  hand_out();
}

std::size_t semaphore::available() const noexcept {
  std::lock_guard const guard(lock_);
  return permits_;
}

bool semaphore::acquire_operation::arm() noexcept {
  std::lock_guard const guard(semaphore_->lock_);
  if (semaphore_->take(count_)) {
    return false;
  }
  semaphore_->waiters_.push_back(*this);
  return true;
}

bool semaphore::acquire_operation::disarm() noexcept {
  semaphore_->lock_.lock();
  bool const mine = semaphore_->waiters_.remove(*this);
  // Those behind a large request may be served now. This wakes them under the lock of our own root, which no one else does; it
  // cannot close a circle, because a task that is served stands in no list: its canceller finds nothing here and lets go.
  semaphore_->hand_out();
  return mine;
}

}  // namespace ergon
