// A job in memory and the chains that it can hang in. A plain job costs a node and one buffer for its record; what only some jobs
// have (an own id, a unique key, progress, somebody who waits) lies in `extra`.
//
// The store's mutex guards all of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/broker/job.hpp>
#include <ergon/runtime/event.hpp>

namespace ergon::memory {

struct node;
struct queue;
struct member;

/// Somebody who waits for a job's end. Lies in the waiting frame; `of` is null once the end was told.
struct waiter {
  event told;
  node* of = nullptr;
  job_end end;
};

struct extra {
  std::string own_id;
  /// Other lives of the same own id, from the youngest to the oldest.
  node* older = nullptr;
  node* younger = nullptr;

  std::string unique_key;
  std::int64_t unique_until = 0;
  bool holds_key = false;

  std::optional<double> progress;
  std::string note;

  wall_time ended_at;
  std::int64_t result_until = 0;

  std::vector<waiter*> waiters;
};

struct node {
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

  node* previous = nullptr;
  node* next = nullptr;
  queue* home = nullptr;
  /// Who holds the lease (active).
  member* owner = nullptr;
  /// Queue and number, as in the public id.
  std::uint64_t serial = 0;
  /// The fencing number; every lease gets its own.
  std::uint64_t lease = 0;
  /// What its heap is ordered by: nanoseconds of boot time, or of the calendar.
  std::int64_t due = 0;
  /// Boot time at which it became ready.
  std::int64_t since = 0;
  /// Bytes that it counts for in the store's limit.
  std::size_t cost = 0;
  std::uint32_t place = nowhere;
  job_state state = job_state::ready;
  /// Due by the calendar rather than by boot time.
  bool by_wall = false;
  /// Its completion leaves something behind.
  bool keeps = false;
  /// Runs alone (`consumer::mark`).
  bool marked = false;
  std::unique_ptr<extra> more;
  std::string body;
};

/// A doubly linked list through the nodes.
class chain {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] node* front() const noexcept { return head_; }

  void push_back(node& n) noexcept {
    n.previous = tail_;
    n.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &n;
    tail_ = &n;
    ++size_;
  }
  void remove(node& n) noexcept {
    (n.previous != nullptr ? n.previous->next : head_) = n.next;
    (n.next != nullptr ? n.next->previous : tail_) = n.previous;
    n.previous = n.next = nullptr;
    --size_;
  }

 private:
  node* head_ = nullptr;
  node* tail_ = nullptr;
  std::size_t size_ = 0;
};

/// Nodes by `due`, those of the same time by age. A binary heap whose nodes know their place, so that any can leave.
class heap {
 public:
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  [[nodiscard]] node* front() const noexcept { return nodes_.front(); }

  void reserve_one() {
    if (nodes_.size() == nodes_.capacity()) nodes_.reserve(nodes_.empty() ? 64 : nodes_.size() * 2);
  }
  void push(node& n) {
    nodes_.push_back(&n);
    rise(nodes_.size() - 1);
  }
  void remove(node& n) noexcept {
    const std::size_t place = n.place;
    n.place = node::nowhere;
    node* last = nodes_.back();
    nodes_.pop_back();
    if (last == &n) return;
    set(place, last);
    rise(place);
    sink(last->place);
  }

 private:
  static bool before(const node& a, const node& b) noexcept { return a.due != b.due ? a.due < b.due : a.serial < b.serial; }

  void set(std::size_t place, node* n) noexcept {
    nodes_[place] = n;
    n->place = static_cast<std::uint32_t>(place);
  }
  void rise(std::size_t place) noexcept {
    node* n = nodes_[place];
    while (place > 0) {
      const std::size_t up = (place - 1) / 2;
      if (!before(*n, *nodes_[up])) break;
      set(place, nodes_[up]);
      place = up;
    }
    set(place, n);
  }
  void sink(std::size_t place) noexcept {
    node* n = nodes_[place];
    for (;;) {
      std::size_t down = place * 2 + 1;
      if (down >= nodes_.size()) break;
      if (down + 1 < nodes_.size() && before(*nodes_[down + 1], *nodes_[down])) ++down;
      if (!before(*nodes_[down], *n)) break;
      set(place, nodes_[down]);
      place = down;
    }
    set(place, n);
  }

  std::vector<node*> nodes_;
};

}  // namespace ergon::memory
