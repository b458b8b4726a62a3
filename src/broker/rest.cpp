#include "broker/rest.hpp"

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {

namespace {

task<void> wait_for(event& what) { co_await what.wait(); }

}  // namespace

task<void> rest(event& until, std::chrono::nanoseconds at_most) {
  if (at_most <= std::chrono::nanoseconds::zero()) co_return;
  try {
    co_await timeout(at_most, wait_for(until));
  } catch (const error& end) {
    if (end.reason() != errc::timed_out) throw;
  }
}

}  // namespace ergon
