// See timer.hpp. The word that names a waiting frame in other operations names the scheduler here.
#include <ergon/runtime/timer.hpp>

#include <ergon/runtime/runtime.hpp>

#include "runtime/scheduler.hpp"

namespace ergon {

static_assert(sizeof(timer_callback) == 40);

void timer_callback::start(runtime& on, std::chrono::nanoseconds span) noexcept {
  if (is_set()) {
    detail::fatal("ergon: a timer_callback was started that is set already");
  }
  detail::scheduler& home = detail::scheduler::of(on);
  set_place(&home);
  home.add_timer(*this, detail::time_after(home.clock().steady(), span));
}

bool timer_callback::stop() noexcept {
  auto* const home = static_cast<detail::scheduler*>(place());
  return home != nullptr && home->remove_timer(*this);
}

timer_callback::~timer_callback() {
  if (is_set()) {
    detail::fatal("ergon: a timer_callback was destroyed while it was set");
  }
}

}  // namespace ergon
