// The ready items of one worker, oldest first, as an intrusive list. A spin lock guards it: the owner pushes and pops, others push
// when they hand work over and take from the front when they steal. Whoever has pushed may read, afterwards, whether workers are
// idle: a worker that goes idle says so before it looks at every queue under its lock, so one of the two sees the other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <ergon/runtime/root.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon::detail {

/// What a worker can run next: a work item, or a root that has not started, which has no item of its own.
class ready_item {
 public:
  ready_item() = default;
  explicit ready_item(work& item) noexcept : bits_(reinterpret_cast<std::uintptr_t>(&item)) {}
  explicit ready_item(task_root& root) noexcept : bits_(reinterpret_cast<std::uintptr_t>(&root) | 1) {}

  explicit operator bool() const noexcept { return bits_ != 0; }
  bool operator==(const ready_item&) const = default;
  void run() const noexcept {
    if (is_root()) {
      root().start();
    } else {
      item().run();
    }
  }
  [[nodiscard]] bool is_root() const noexcept { return (bits_ & 1) != 0; }
  [[nodiscard]] task_root& root() const noexcept { return *reinterpret_cast<task_root*>(bits_ & ~std::uintptr_t{1}); }
  [[nodiscard]] ready_item next() const noexcept {
    return is_root() ? ready_item(root().second_.load(std::memory_order_relaxed))
                     : ready_item(reinterpret_cast<std::uintptr_t>(item().next));
  }
  void set_next(ready_item other) const noexcept {
    if (is_root()) {
      root().second_.store(other.bits_, std::memory_order_relaxed);
    } else {
      // What follows a work item may be a root: the pointer carries the mark.
      item().next = reinterpret_cast<work*>(other.bits_);
    }
  }

 private:
  explicit ready_item(std::uintptr_t bits) noexcept : bits_(bits) {}
  [[nodiscard]] work& item() const noexcept { return *reinterpret_cast<work*>(bits_); }

  std::uintptr_t bits_ = 0;
};

struct work_chain {
  ready_item first;
  ready_item last;
  std::size_t size = 0;

  void push_back(ready_item item) noexcept {
    item.set_next({});
    if (size++ == 0) {
      first = item;
    } else {
      last.set_next(item);
    }
    last = item;
  }
};

class run_queue {
 public:
  /// Returns how many are queued now. Nothing follows `chain.last`.
  std::size_t push(const work_chain& chain) noexcept {
    std::lock_guard const guard(lock_);
    if (last_) {
      last_.set_next(chain.first);
    } else {
      first_ = chain.first;
    }
    last_ = chain.last;
    return set_size(size() + chain.size);
  }
  std::size_t push(ready_item item) noexcept {
    item.set_next({});
    return push(work_chain{item, item, 1});
  }
  ready_item pop() noexcept {
    std::lock_guard const guard(lock_);
    ready_item const item = first_;
    if (item) {
      first_ = item.next();
      if (!first_) {
        last_ = {};
      }
      set_size(size() - 1);
    }
    return item;
  }
  /// The oldest half, rounded up, at most `limit`.
  work_chain steal(std::size_t limit) noexcept {
    std::lock_guard const guard(lock_);
    work_chain taken{first_, first_, std::min((size() + 1) / 2, limit)};
    if (taken.size == 0) {
      return {};
    }
    for (std::size_t i = 1; i < taken.size; ++i) {
      taken.last = taken.last.next();
    }
    first_ = taken.last.next();
    if (!first_) {
      last_ = {};
    }
    taken.last.set_next({});
    set_size(size() - taken.size);
    return taken;
  }
  [[nodiscard]] bool empty() noexcept {
    std::lock_guard const guard(lock_);
    return !first_;
  }
  /// Without the lock: may be about to change.
  [[nodiscard]] bool looks_empty() const noexcept { return size() == 0; }

 private:
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::size_t set_size(std::size_t to) noexcept {
    size_.store(to, std::memory_order_relaxed);
    return to;
  }

  spin_lock lock_;
  ready_item first_;
  ready_item last_;
  // Written under the lock.
  std::atomic<std::size_t> size_{0};
};

}  // namespace ergon::detail
