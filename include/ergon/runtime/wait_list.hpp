// The tasks that wait on one primitive, oldest first. The primitive's lock guards the list and the links of what is in it.
#pragma once

#include <ergon/base/export.hpp>
#include <ergon/runtime/operation.hpp>

namespace ergon::detail {

class wait_list;

/// A wait that stands in a list.
class ERGON_EXPORT listed_operation : public operation {
 public:
  // For the primitive that took it out of its list; see `operation`.
  using operation::queue;
  using operation::release;
  using operation::wake;

 protected:
  ~listed_operation() = default;

 private:
  friend class wait_list;

  wait_list* in_ = nullptr;
  listed_operation* before_ = nullptr;
  listed_operation* after_ = nullptr;
};

class wait_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] listed_operation* front() const noexcept { return first_; }

  void push_back(listed_operation& item) noexcept {
    item.in_ = this;
    item.before_ = last_;
    item.after_ = nullptr;
    (last_ != nullptr ? last_->after_ : first_) = &item;
    last_ = &item;
  }
  listed_operation* pop_front() noexcept {
    listed_operation* const item = first_;
    if (item != nullptr) {
      remove(*item);
    }
    return item;
  }
  /// False: it stands in no list any more.
  bool remove(listed_operation& item) noexcept {
    if (item.in_ != this) {
      return false;
    }
    item.in_ = nullptr;
    (item.before_ != nullptr ? item.before_->after_ : first_) = item.after_;
    (item.after_ != nullptr ? item.after_->before_ : last_) = item.before_;
    return true;
  }

  /// Takes all out, linked through `next_of`.
  listed_operation* take_all() noexcept {
    listed_operation* const all = first_;
    for (listed_operation* item = all; item != nullptr; item = item->after_) {
      item->in_ = nullptr;
    }
    first_ = last_ = nullptr;
    return all;
  }
  static listed_operation* next_of(listed_operation& item) noexcept { return item.after_; }

  /// Wakes what `take_all` gave, in two steps so that the first to run may destroy what all waited on. No lock is held.
  static void wake_all(listed_operation* first) noexcept {
    release_all(first);
    queue_all(first);
  }
  static void release_all(listed_operation* first) noexcept {
    for (listed_operation* item = first; item != nullptr; item = item->after_) {
      item->release();
    }
  }
  static void queue_all(listed_operation* first) noexcept {
    while (first != nullptr) {
      listed_operation* const item = first;
      first = item->after_;
      item->queue();
    }
  }

 private:
  listed_operation* first_ = nullptr;
  listed_operation* last_ = nullptr;
};

}  // namespace ergon::detail
