// See interval.hpp.
#include <ergon/runtime/interval.hpp>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {

interval::interval(std::chrono::nanoseconds period, missed_ticks missed, std::optional<steady_time> first)
    : period_(period), missed_(missed), next_(first) {
  check_duration("the period of an interval", period);
  if (period == std::chrono::nanoseconds::zero()) {
    throw error(errc::invalid_argument, "the period of an interval is 0s; it must be longer");
  }
}

task<steady_time> interval::tick() {
  const ergon::clock& clock = runtime::current()->clock();
  if (!next_) {
    next_ = clock.steady();
  }
  steady_time const due = *next_;
  co_await sleep_until(due);
  steady_time const now = clock.steady();
  switch (missed_) {
    case missed_ticks::skip:
      next_ = detail::time_after(due, period_ * ((now - due) / period_ + 1));
      break;
    case missed_ticks::burst:
      next_ = detail::time_after(due, period_);
      break;
    case missed_ticks::delay:
      next_ = detail::time_after(now, period_);
      break;
  }
  co_return due;
}

}  // namespace ergon
