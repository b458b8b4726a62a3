// How long to wait before something is tried again.
#pragma once

#include <chrono>
#include <cstdint>

#include <ergon/base/export.hpp>

namespace ergon {

struct backoff_options {
  /// The bound of the first wait.
  std::chrono::nanoseconds base = std::chrono::seconds{1};
  /// By what the bound grows with each failure; at least 1.
  double factor = 2.0;
  /// The bound never grows past this.
  std::chrono::nanoseconds cap = std::chrono::hours{6};
  /// Full jitter: the wait is drawn evenly from nought to the bound, so that what failed together does not come back together.
  /// False: the wait is the bound.
  bool jitter = true;
};

namespace detail {

/// The bound of the wait after `failures` failures in a row (1 is the first).
[[nodiscard]] ERGON_EXPORT std::chrono::nanoseconds backoff_bound(const backoff_options& options,
                                                                  std::uint32_t failures) noexcept;
/// Drawn evenly from nought to `bound`.
[[nodiscard]] ERGON_EXPORT std::chrono::nanoseconds jittered(std::chrono::nanoseconds bound) noexcept;
/// Drawn evenly from half of `bound` to all of it: where coming back at once would be rude.
[[nodiscard]] inline std::chrono::nanoseconds half_jittered(std::chrono::nanoseconds bound) noexcept {
  return bound / 2 + jittered(bound / 2);
}

}  // namespace detail
}  // namespace ergon
