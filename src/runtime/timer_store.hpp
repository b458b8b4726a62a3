// The timers of one worker: a hierarchical wheel. Level 0 has slots of a quarter of a millisecond, each level above slots 64 times as long; a timer
// stands in the level where its time first differs from the wheel's present, so it moves down at most once per level. Setting and
// taking out are O(1).
//
// When the present comes to a slot of a higher level, its timers are spread over the levels below, a few at a time: `advance` may
// return with work left. A slot of level 0 is sorted when the present comes to it, so that timers fire to the nanosecond, in
// order of time and then of arrival, never early.
//
// A spin lock guards the wheel and the links of what stands in it. What has expired is handed out as a chain of work items.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/spin_lock.hpp>

#include "runtime/run_queue.hpp"

namespace ergon::detail {

class timer_store {
 public:
  /// `now` is where the wheel begins; times before it count as due.
  timer_store(steady_time now, std::size_t number) noexcept;

  /// True: it is the earliest now.
  bool insert(timer& item, steady_time due) noexcept;
  /// False: it has been taken out to fire.
  bool remove(timer& item) noexcept;
  /// Takes out some of what is due at `now`, and moves the wheel on by a bounded amount of work. `more`: there is something left to do.
  work_chain advance(steady_time now, bool& more) noexcept;
  /// When `advance` is wanted next; `steady_time::max()` where there is no timer. Exact under the lock.
  [[nodiscard]] steady_time earliest() noexcept;
  /// Without the lock: may be a moment old.
  [[nodiscard]] steady_time earliest_hint() const noexcept {
    return steady_time{std::chrono::nanoseconds{earliest_.load(std::memory_order_relaxed)}};
  }

 private:
  /// The head of a circular list.
  class list_head final : public timer {
   public:
    list_head() noexcept;
    /// Forgets what stands in it.
    void clear() noexcept;
    [[nodiscard]] bool empty() const noexcept;
    [[nodiscard]] timer* first() const noexcept;
    void push_back(timer& item) noexcept;
    /// Where it belongs by its time, behind its equals.
    void insert(timer& item) noexcept;
    void take_all_from(list_head& other) noexcept;
    void sort() noexcept;

   private:
    bool arm() noexcept override { return false; }
    bool disarm() noexcept override { return false; }
  };

  static constexpr unsigned tick_shift = 18;
  static constexpr unsigned level_shift = 6;
  static constexpr unsigned slots = 1U << level_shift;
  static constexpr unsigned levels = 8;

  [[nodiscard]] static std::int64_t tick_of(std::int64_t due) noexcept { return due >> tick_shift; }
  static void link_after(timer& before, timer& item) noexcept;
  static void unlink(timer& item) noexcept;
  void place(timer& item) noexcept;
  /// The next tick at which a slot begins that has something in it, with its level and the slot; false: there is none.
  bool next_slot(std::int64_t& tick, unsigned& level, unsigned& slot) noexcept;
  void publish() noexcept;

  spin_lock lock_;
  std::int64_t tick_;
  std::uint64_t number_;
  std::array<std::uint64_t, levels> occupied_{};
  std::array<std::array<list_head, slots>, levels> wheel_;
  /// Those of the present tick and before, sorted.
  list_head now_;
  /// A slot that is being spread.
  list_head spreading_;
  std::atomic<std::int64_t> earliest_{steady_time::max().time_since_epoch().count()};
};

}  // namespace ergon::detail
