// A runtime's timers: a four-way heap by time, then by order of arrival. Each timer knows its place, so taking one out leaves
// nothing behind. A spin lock guards heap and places; `fire` is called after it was given up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/spin_lock.hpp>

namespace ergon::detail {

class timer_store {
 public:
  /// True: it is the earliest now.
  bool insert(timer& item, steady_time due) noexcept;
  /// False: it has been taken out to fire.
  bool remove(timer& item) noexcept;
  /// Fires what is due at `now`, and says how many that were.
  std::size_t fire_due(steady_time now) noexcept;
  /// `steady_time::max()` where there is none. Exact under the lock.
  [[nodiscard]] steady_time earliest() noexcept;
  /// Without the lock: may be a moment old.
  [[nodiscard]] steady_time earliest_hint() const noexcept {
    return steady_time{std::chrono::nanoseconds{earliest_.load(std::memory_order_relaxed)}};
  }

 private:
  struct entry {
    std::int64_t due;
    std::uint64_t order;
    timer* item;
    bool operator<(const entry& other) const noexcept { return due != other.due ? due < other.due : order < other.order; }
  };

  void put(std::size_t place, const entry& what) noexcept;
  void sift_up(std::size_t place, const entry& what) noexcept;
  void sift_down(std::size_t place, const entry& what) noexcept;
  void take_out(std::size_t place) noexcept;
  void publish() noexcept;

  spin_lock lock_;
  std::vector<entry> heap_;
  std::uint64_t arrivals_ = 0;
  std::atomic<std::int64_t> earliest_{steady_time::max().time_since_epoch().count()};
};

}  // namespace ergon::detail
