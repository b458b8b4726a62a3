// The wheel of timer_store.hpp.
#include "runtime/timer_store.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

namespace ergon::detail {

namespace {

// How many timers one call of `advance` moves down, and hands out.
constexpr unsigned spread_limit = 512;
constexpr unsigned fire_limit = 32;
// So many timers of a slot are looked at to learn when the first is due, rather than waking when the slot begins.
constexpr unsigned look_limit = 8;

constexpr std::int64_t never = steady_time::max().time_since_epoch().count();

timer* next_of(const timer& item) noexcept { return static_cast<timer*>(item.next); }

}  // namespace

timer_store::list_head::list_head() noexcept { clear(); }
void timer_store::list_head::clear() noexcept {
  next = this;
  previous = this;
}
bool timer_store::list_head::empty() const noexcept { return next == this; }
timer* timer_store::list_head::first() const noexcept { return next_of(*this); }
void timer_store::list_head::push_back(timer& item) noexcept { link_after(*previous, item); }
void timer_store::list_head::take_all_from(list_head& other) noexcept {
  if (other.empty()) {
    return;
  }
  timer* const head = next_of(other);
  timer* const tail = other.previous;
  head->previous = previous;
  previous->next = head;
  tail->next = this;
  previous = tail;
  other.clear();
}

void timer_store::list_head::insert(timer& item) noexcept {
  timer* after = previous;
  while (after != this && after->due > item.due) {
    after = after->previous;
  }
  link_after(*after, item);
}

// Stable. Most slots are in order, or nearly, for threads take turns in setting timers: so each goes back as far as it must, and only
// if that takes too long comes a merge sort from the bottom up.
void timer_store::list_head::sort() noexcept {
  constexpr std::size_t patience = 8;
  std::size_t steps = 0;
  std::size_t seen = 0;
  timer* at = empty() ? this : next_of(*first());
  while (at != this && steps <= patience * seen + 64) {
    timer* const following = next_of(*at);
    timer* after = at->previous;
    while (after != this && after->due > at->due) {
      after = after->previous;
      ++steps;
    }
    if (after != at->previous) {
      unlink(*at);
      link_after(*after, *at);
    }
    ++seen;
    at = following;
  }
  if (at == this) {
    return;
  }
  const auto merge = [](timer* a, timer* b) {
    work* head = nullptr;
    work** end = &head;
    while (a != nullptr && b != nullptr) {
      timer*& less = b->due < a->due ? b : a;
      *end = less;
      end = &less->next;
      less = next_of(*less);
    }
    *end = a != nullptr ? a : b;
    return static_cast<timer*>(head);
  };
  std::array<timer*, 48> runs{};
  previous->next = nullptr;
  for (timer* rest = first(); rest != nullptr;) {
    timer* run = rest;
    rest = next_of(*rest);
    run->next = nullptr;
    std::size_t i = 0;
    for (; runs[i] != nullptr; ++i) {
      run = merge(runs[i], run);
      runs[i] = nullptr;
    }
    runs[i] = run;
  }
  timer* all = nullptr;
  for (timer* run : runs) {
    if (run != nullptr) {
      all = all != nullptr ? merge(run, all) : run;
    }
  }
  clear();
  while (all != nullptr) {
    timer* const item = all;
    all = next_of(*all);
    push_back(*item);
  }
}

timer_store::timer_store(steady_time now, std::size_t number) noexcept
    : tick_{tick_of(now.time_since_epoch().count())}, number_{number} {}

void timer_store::link_after(timer& before, timer& item) noexcept {
  item.next = before.next;
  item.previous = &before;
  next_of(before)->previous = &item;
  before.next = &item;
}

void timer_store::unlink(timer& item) noexcept {
  item.previous->next = item.next;
  next_of(item)->previous = item.previous;
  item.previous = nullptr;
}

void timer_store::place(timer& item) noexcept {
  std::int64_t const tick = tick_of(item.due);
  if (tick <= tick_) {
    now_.insert(item);
    return;
  }
  auto const differs = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(tick ^ tick_)) - 1);
  unsigned const level = std::min(differs / level_shift, levels - 1);
  unsigned const slot = static_cast<unsigned>(tick >> (level * level_shift)) % slots;
  wheel_[level][slot].push_back(item);
  occupied_[level] |= std::uint64_t{1} << slot;
}

bool timer_store::next_slot(std::int64_t& tick, unsigned& level, unsigned& slot) noexcept {
  for (level = 0; level < levels; ++level) {
    unsigned const shift = level * level_shift;
    unsigned const present = static_cast<unsigned>(tick_ >> shift) % slots;
    for (;;) {
      // Slots of this level that begin after the present.
      std::uint64_t const later = present == slots - 1 ? 0 : occupied_[level] & (~std::uint64_t{0} << (present + 1));
      if (later == 0) {
        break;
      }
      slot = static_cast<unsigned>(std::countr_zero(later));
      if (wheel_[level][slot].empty()) {
        // Its timers were taken out.
        occupied_[level] &= ~(std::uint64_t{1} << slot);
        continue;
      }
      tick = ((tick_ >> shift) - present + slot) << shift;
      return true;
    }
  }
  return false;
}

void timer_store::publish() noexcept {
  std::int64_t first = never;
  std::int64_t tick = 0;
  unsigned level = 0;
  unsigned slot = 0;
  if (!spreading_.empty()) {
    first = tick_ << tick_shift;
  } else if (!now_.empty()) {
    first = now_.first()->due;
  } else if (next_slot(tick, level, slot)) {
    unsigned looked = 0;
    for (timer* at = wheel_[level][slot].first(); at != &wheel_[level][slot]; at = next_of(*at)) {
      first = std::min(first, at->due);
      if (++looked > look_limit) {
        first = tick << tick_shift;
        break;
      }
    }
  }
  earliest_.store(first, std::memory_order_relaxed);
}

bool timer_store::insert(timer& item, steady_time due) noexcept {
  std::lock_guard const guard(lock_);
  item.due = due.time_since_epoch().count();
  item.set_number(number_);
  if (spreading_.empty()) {
    place(item);
  } else {
    // Behind those of its time that have not come down yet.
    spreading_.push_back(item);
  }
  if (item.due < earliest_.load(std::memory_order_relaxed)) {
    earliest_.store(item.due, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool timer_store::remove(timer& item) noexcept {
  std::lock_guard const guard(lock_);
  if (item.previous == nullptr) {
    return false;
  }
  unlink(item);
  return true;
}

work_chain timer_store::advance(steady_time time, bool& more) noexcept {
  std::int64_t const now = time.time_since_epoch().count();
  work_chain fired;
  std::lock_guard const guard(lock_);
  more = false;
  unsigned spread = 0;
  for (;;) {
    while (!spreading_.empty()) {
      if (spread++ == spread_limit) {
        more = true;
        break;
      }
      timer& item = *spreading_.first();
      unlink(item);
      place(item);
    }
    if (more) {
      break;
    }
    while (!now_.empty() && now_.first()->due <= now) {
      if (fired.size == fire_limit) {
        more = true;
        break;
      }
      timer& item = *now_.first();
      unlink(item);
      fired.push_back(ready_item(static_cast<work&>(item)));
    }
    if (more || !now_.empty()) {
      break;
    }
    std::int64_t tick = 0;
    unsigned level = 0;
    unsigned slot = 0;
    if (!next_slot(tick, level, slot) || tick > tick_of(now)) {
      break;
    }
    tick_ = tick;
    occupied_[level] &= ~(std::uint64_t{1} << slot);
    if (level == 0) {
      now_.take_all_from(wheel_[level][slot]);
      now_.sort();
    } else {
      spreading_.take_all_from(wheel_[level][slot]);
    }
  }
  if (!more && now_.empty() && spreading_.empty()) {
    // Nothing stands between the last slot and now, so the wheel's present may follow the time.
    tick_ = std::max(tick_, tick_of(now));
  }
  publish();
  return fired;
}

steady_time timer_store::earliest() noexcept {
  std::lock_guard const guard(lock_);
  publish();
  return earliest_hint();
}

}  // namespace ergon::detail
