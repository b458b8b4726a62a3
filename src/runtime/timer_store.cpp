// The heap of timer_store.hpp.
#include "runtime/timer_store.hpp"

#include <algorithm>
#include <array>
#include <mutex>

namespace ergon::detail {

namespace {

constexpr std::size_t ways = 4;
constexpr std::size_t parent(std::size_t place) { return (place - 1) / ways; }
constexpr std::size_t first_child(std::size_t place) { return place * ways + 1; }

}  // namespace

void timer_store::put(std::size_t place, const entry& what) noexcept {
  heap_[place] = what;
  what.item->place = place;
}

void timer_store::sift_up(std::size_t place, const entry& what) noexcept {
  while (place > 0 && what < heap_[parent(place)]) {
    put(place, heap_[parent(place)]);
    place = parent(place);
  }
  put(place, what);
}

void timer_store::sift_down(std::size_t place, const entry& what) noexcept {
  for (;;) {
    std::size_t const begin = first_child(place);
    if (begin >= heap_.size()) {
      break;
    }
    std::size_t least = begin;
    std::size_t const end = std::min(begin + ways, heap_.size());
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (heap_[i] < heap_[least]) {
        least = i;
      }
    }
    if (!(heap_[least] < what)) {
      break;
    }
    put(place, heap_[least]);
    place = least;
  }
  put(place, what);
}

void timer_store::take_out(std::size_t place) noexcept {
  heap_[place].item->place = timer::absent;
  entry const moved = heap_.back();
  heap_.pop_back();
  if (place == heap_.size()) {
    return;
  }
  if (place > 0 && moved < heap_[parent(place)]) {
    sift_up(place, moved);
  } else {
    sift_down(place, moved);
  }
}

void timer_store::publish() noexcept {
  // A burst of timers gives its memory back.
  if (heap_.capacity() > 1024 && heap_.size() < heap_.capacity() / 8) {
    heap_.shrink_to_fit();
  }
  earliest_.store(heap_.empty() ? steady_time::max().time_since_epoch().count() : heap_.front().due, std::memory_order_relaxed);
}

bool timer_store::insert(timer& item, steady_time due) noexcept {
  std::lock_guard const guard(lock_);
  entry const what{due.time_since_epoch().count(), arrivals_++, &item};
  heap_.push_back(what);
  sift_up(heap_.size() - 1, what);
  publish();
  return item.place == 0;
}

bool timer_store::remove(timer& item) noexcept {
  std::lock_guard const guard(lock_);
  if (item.place == timer::absent) {
    return false;
  }
  take_out(item.place);
  publish();
  return true;
}

std::size_t timer_store::fire_due(steady_time now) noexcept {
  constexpr std::size_t batch = 64;
  std::array<timer*, batch> due{};
  std::size_t fired = 0;
  std::size_t count = batch;
  while (count == batch) {
    count = 0;
    {
      std::lock_guard const guard(lock_);
      while (count < batch && !heap_.empty() && heap_.front().due <= now.time_since_epoch().count()) {
        due[count++] = heap_.front().item;
        take_out(0);
      }
      publish();
    }
    for (std::size_t i = 0; i < count; ++i) {
      due[i]->fire(*due[i]);
    }
    fired += count;
  }
  return fired;
}

steady_time timer_store::earliest() noexcept {
  std::lock_guard const guard(lock_);
  return earliest_hint();
}

}  // namespace ergon::detail
