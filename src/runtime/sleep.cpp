// Timers as waits; see sleep.hpp.
#include <ergon/runtime/sleep.hpp>

#include <string>

#include "runtime/scheduler.hpp"

namespace ergon::detail {

steady_time time_after(steady_time from, std::chrono::nanoseconds span) noexcept {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(from.time_since_epoch().count(), span.count(), &sum)) {
    return span.count() > 0 ? steady_time::max() : steady_time::min();
  }
  return steady_time{std::chrono::nanoseconds{sum}};
}

std::string timeout_text(std::chrono::nanoseconds span) {
  std::string number = std::to_string(static_cast<double>(span.count()) / 1e9);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) {
    number.pop_back();
  }
  return "the operation did not end within " + number + " s";
}

// `due` holds the span until the wait begins, and a mark says so.
sleep_operation::sleep_operation(std::chrono::nanoseconds span) noexcept : timer(span.count()) {
  set(is_span);
  if (span <= std::chrono::nanoseconds::zero()) {
    stop_only_at_start();
  }
}

bool sleep_operation::arm() noexcept {
  scheduler& home = root().home();
  if (!has(is_span)) {
    home.add_timer(*this, steady_time{std::chrono::nanoseconds{due}});
  } else if (due <= 0) {
    queue();
  } else {
    if (has(was_armed)) {
      fatal("ergon: a sleep_for was awaited twice; call sleep_for for each wait");
    }
    set(was_armed);
    home.add_timer(*this, time_after(home.clock().steady(), std::chrono::nanoseconds{due}));
  }
  return true;
}

bool sleep_operation::disarm() noexcept { return root().home().remove_timer(*this); }

void sleep_operation::run() noexcept {
  // Not when it expired, on whichever thread that was: until here a cancel finds it in no store and leaves it alone.
  if (!stopped()) {
    release();
  }
  timer::run();
}

bool yield_operation::arm() noexcept {
  root().home().push_behind(*this);
  return true;
}

deadline::deadline(task_root& watched, std::chrono::nanoseconds span) noexcept : watched_(&watched) {
  watched.home().add_timer(*this, time_after(watched.home().clock().steady(), span));
}

bool deadline::take_back() noexcept { return watched_->home().remove_timer(*this); }

void deadline::run() noexcept {
  watched_->cancel();
  fired.complete();
}

void start_timer(timer& item, task_root& of, std::chrono::nanoseconds span) noexcept {
  of.home().add_timer(item, time_after(of.home().clock().steady(), span));
}

bool take_back_timer(timer& item, task_root& of) noexcept { return of.home().remove_timer(item); }

}  // namespace ergon::detail
