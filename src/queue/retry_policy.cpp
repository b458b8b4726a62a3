// The usual retry policies.
#include <cmath>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/queue/retry_policy.hpp>

namespace ergon {

retry_policy exponential_backoff(backoff_options options) {
  check_duration("the base of a back-off", options.base);
  check_duration("the cap of a back-off", options.cap);
  if (!(options.factor >= 1.0) || !std::isfinite(options.factor)) {
    throw error{errc::invalid_argument, fmt::format("the factor of a back-off is {}; it must be at least 1", options.factor)};
  }
  return [options](std::uint32_t failures, std::string_view) {
    const auto bound = detail::backoff_bound(options, failures);
    return options.jitter ? detail::jittered(bound) : bound;
  };
}

retry_policy fixed_backoff(std::chrono::nanoseconds wait) {
  check_duration("a fixed back-off", wait);
  return [wait](std::uint32_t, std::string_view) { return wait; };
}

}  // namespace ergon
