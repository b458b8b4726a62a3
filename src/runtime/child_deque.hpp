// The children that a worker's tasks have spawned or forked and that nobody has begun, newest first for the worker itself and oldest
// first for thieves: so a tree of tasks is walked depth first, and who steals takes what stands highest in it.
//
// The deque of Chase and Lev (SPAA 2005), as a ring of fixed size without fences: the owner writes `bottom_`, everybody may move `top_`
// forward by a compare and swap, and what both need seen in one order is sequentially consistent. Both only grow, so no index comes
// twice. A slot is written by the owner alone, and only when `top_` is past it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/run_queue.hpp"

namespace ergon::detail {

class child_deque {
 public:
  static constexpr std::size_t capacity = 256;

  /// The owner's. False: full.
  bool push(ready_item item) noexcept {
    if (!place(item, 0)) {
      return false;
    }
    publish(1);
    return true;
  }
  /// The owner's: `push` in two steps, for several at once. Puts an item behind `ahead` others that nobody sees before `publish`. False: full.
  bool place(ready_item item, std::size_t ahead) noexcept {
    std::uint64_t const at = bottom_.load(std::memory_order_relaxed) + ahead;
    if (at - top_.load(std::memory_order_acquire) >= capacity) {
      return false;
    }
    ring_[at % capacity].store(item, std::memory_order_relaxed);
    return true;
  }
  void publish(std::size_t count) noexcept {
    bottom_.store(bottom_.load(std::memory_order_relaxed) + count, std::memory_order_seq_cst);
  }
  /// The owner's: the newest.
  ready_item pop() noexcept {
    std::uint64_t const newest = bottom_.load(std::memory_order_relaxed) - 1;
    if (top_.load(std::memory_order_relaxed) > newest) {
      return {};
    }
    bottom_.store(newest, std::memory_order_seq_cst);
    std::uint64_t top = top_.load(std::memory_order_seq_cst);
    if (top < newest) {
      return ring_[newest % capacity].load(std::memory_order_relaxed);
    }
    ready_item item;
    if (top == newest && top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) {
      item = ring_[newest % capacity].load(std::memory_order_relaxed);
    }
    bottom_.store(newest + 1, std::memory_order_seq_cst);
    return item;
  }
  /// The owner's: whether `pop` would give this item or nothing, rather than another one.
  [[nodiscard]] bool has_on_top(ready_item item) const noexcept {
    return ring_[(bottom_.load(std::memory_order_relaxed) - 1) % capacity].load(std::memory_order_relaxed) == item;
  }
  /// Anybody's: the oldest. Nothing also where another was quicker.
  ready_item steal() noexcept {
    std::uint64_t top = top_.load(std::memory_order_seq_cst);
    if (top >= bottom_.load(std::memory_order_seq_cst)) {
      return {};
    }
    ready_item const item = ring_[top % capacity].load(std::memory_order_relaxed);
    return top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst) ? item : ready_item{};
  }
  /// The owner's: takes the older half out, oldest first. Nothing where it is less than half full.
  work_chain take_older_half() noexcept {
    std::array<ready_item, capacity / 2> taken;
    std::uint64_t top = top_.load(std::memory_order_acquire);
    do {
      if (bottom_.load(std::memory_order_relaxed) - top < taken.size()) {
        return {};
      }
      for (std::size_t i = 0; i < taken.size(); ++i) {
        taken[i] = ring_[(top + i) % capacity].load(std::memory_order_relaxed);
      }
    } while (!top_.compare_exchange_weak(top, top + taken.size(), std::memory_order_seq_cst));
    work_chain chain;
    for (ready_item const item : taken) {
      chain.push_back(item);
    }
    return chain;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    std::uint64_t const bottom = bottom_.load(std::memory_order_seq_cst);
    std::uint64_t const top = top_.load(std::memory_order_seq_cst);
    return bottom > top ? static_cast<std::size_t>(bottom - top) : 0;
  }

 private:
  // Apart: thieves move the one, the owner the other.
  alignas(64) std::atomic<std::uint64_t> top_{1};
  alignas(64) std::atomic<std::uint64_t> bottom_{1};
  alignas(64) std::array<std::atomic<ready_item>, capacity> ring_{};
};

}  // namespace ergon::detail
