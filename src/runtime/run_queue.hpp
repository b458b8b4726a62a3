// The ready items of one worker, oldest first, as an intrusive list. A spin lock guards it: the owner pushes and pops, others push
// when they hand work over and take from the front when they steal. Whoever has pushed may read, afterwards, whether workers are
// idle: a worker that goes idle says so before it looks at every queue under its lock, so one of the two sees the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>

#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon::detail {

struct work_chain {
  work* first = nullptr;
  work* last = nullptr;
  std::size_t size = 0;
};

class run_queue {
 public:
  /// Returns how many are queued now.
  std::size_t push(work& item) noexcept {
    item.next = nullptr;
    return push(work_chain{&item, &item, 1});
  }
  /// `chain.last->next` is null.
  std::size_t push(work_chain chain) noexcept {
    std::lock_guard const guard(lock_);
    (last_ != nullptr ? last_->next : first_) = chain.first;
    last_ = chain.last;
    return size_ += chain.size;
  }
  work* pop() noexcept {
    std::lock_guard const guard(lock_);
    work* const item = first_;
    if (item != nullptr) {
      first_ = item->next;
      if (first_ == nullptr) {
        last_ = nullptr;
      }
      --size_;
    }
    return item;
  }
  /// The oldest half, rounded up, at most `limit`.
  work_chain steal(std::size_t limit) noexcept {
    std::lock_guard const guard(lock_);
    work_chain taken{first_, nullptr, std::min((size_ + 1) / 2, limit)};
    if (taken.size == 0) {
      return {};
    }
    taken.last = first_;
    for (std::size_t i = 1; i < taken.size; ++i) {
      taken.last = taken.last->next;
    }
    first_ = taken.last->next;
    if (first_ == nullptr) {
      last_ = nullptr;
    }
    taken.last->next = nullptr;
    size_ -= taken.size;
    return taken;
  }
  [[nodiscard]] bool empty() noexcept {
    std::lock_guard const guard(lock_);
    return first_ == nullptr;
  }

 private:
  spin_lock lock_;
  work* first_ = nullptr;
  work* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ergon::detail
