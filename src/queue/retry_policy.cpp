// The usual retry policies, and the back-off that the worker itself uses while something is away.
#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/queue/retry_policy.hpp>

#include "queue/backoff.hpp"
#include "queue/random.hpp"

namespace ergon {

namespace detail {

random_source& thread_random() noexcept {
  thread_local random_source source{[] {
    std::random_device kernel;
    return (static_cast<std::uint64_t>(kernel()) << 32) | kernel();
  }()};
  return source;
}

std::chrono::nanoseconds backoff_bound(const backoff_options& options, std::uint32_t failures) noexcept {
  const double grown = static_cast<double>(options.base.count()) * std::pow(options.factor, failures > 0 ? failures - 1 : 0);
  if (!(grown < static_cast<double>(options.cap.count()))) return options.cap;
  return std::chrono::nanoseconds{static_cast<std::int64_t>(grown)};
}

std::chrono::nanoseconds jittered(std::chrono::nanoseconds bound) noexcept {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(static_cast<double>(bound.count()) * thread_random().fraction())};
}

}  // namespace detail

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
