// Finds a queue's jobs by serial number. Numbers are given in order and most jobs leave in about that order, so a ring over the
// numbers in use is the cheapest index there is: no hashing, eight bytes a job. What stays behind while thousands pass (a dead letter,
// a job for next week) moves to a map, so that it does not hold the ring open.
//
// The store's mutex guards it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace ergon::memory {

template <class Node>
class roll {
 public:
  /// Makes room for one more, so that `append` cannot fail.
  void reserve_one() {
    if (end_ - base_ < capacity_) return;
    // Mostly holes: a few that stayed behind hold it open.
    if (in_ring_ < capacity_ / 2) {
      while (end_ - base_ > capacity_ / 2) {
        Node*& oldest = at(base_);
        behind_.emplace(base_, oldest);
        oldest = nullptr;
        --in_ring_;
        skip_holes();
      }
      return;
    }
    resize(capacity_ == 0 ? smallest : capacity_ * 2);
  }

  /// Gives the next number. Numbers begin at 1.
  std::uint64_t append(Node& node) noexcept {
    at(end_) = &node;
    ++in_ring_;
    return end_++;
  }

  [[nodiscard]] Node* find(std::uint64_t number) const noexcept {
    if (number >= base_) return number < end_ ? at(number) : nullptr;
    const auto it = behind_.find(number);
    return it == behind_.end() ? nullptr : it->second;
  }

  void erase(std::uint64_t number) noexcept {
    if (number < base_) {
      behind_.erase(number);
      return;
    }
    at(number) = nullptr;
    --in_ring_;
    if (number == base_) skip_holes();
    if (in_ring_ == 0 && capacity_ > kept_when_empty) {
      slots_.reset();
      capacity_ = 0;
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return in_ring_ + behind_.size(); }

  /// Calls `visit(node)` for the jobs with numbers above `after`, in order, until it returns false or `budget` places were looked at.
  /// Gives the last number looked at, or nought where the end was reached.
  template <class Visit>
  std::uint64_t walk(std::uint64_t after, std::size_t budget, Visit visit) const {
    for (auto it = behind_.upper_bound(after); it != behind_.end(); ++it) {
      if (budget-- == 0) return after;
      after = it->first;
      if (!visit(*it->second)) return after;
    }
    for (std::uint64_t number = after >= base_ ? after + 1 : base_; number < end_; ++number) {
      if (budget-- == 0) return after;
      after = number;
      if (Node* node = at(number); node != nullptr && !visit(*node)) return after;
    }
    return 0;
  }

 private:
  static constexpr std::size_t smallest = 256;
  static constexpr std::size_t kept_when_empty = 65'536;

  Node*& at(std::uint64_t number) const noexcept { return slots_[number & (capacity_ - 1)]; }

  void skip_holes() noexcept {
    while (base_ < end_ && at(base_) == nullptr) ++base_;
  }

  void resize(std::size_t capacity) {
    auto larger = std::make_unique<Node*[]>(capacity);
    for (std::uint64_t number = base_; number < end_; ++number) larger[number & (capacity - 1)] = at(number);
    slots_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<Node*[]> slots_;
  std::size_t capacity_ = 0;
  std::uint64_t base_ = 1;
  std::uint64_t end_ = 1;
  std::size_t in_ring_ = 0;
  std::map<std::uint64_t, Node*> behind_;
};

}  // namespace ergon::memory
