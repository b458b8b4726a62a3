// How long to wait before something is tried again.
#pragma once

#include <chrono>
#include <cstdint>

#include <ergon/queue/retry_policy.hpp>

namespace ergon::detail {

/// The bound of the wait after `failures` failures in a row (1 is the first).
[[nodiscard]] std::chrono::nanoseconds backoff_bound(const backoff_options& options, std::uint32_t failures) noexcept;
/// Drawn evenly from nought to `bound`.
[[nodiscard]] std::chrono::nanoseconds jittered(std::chrono::nanoseconds bound) noexcept;
/// Drawn evenly from half of `bound` to all of it: where coming back at once would be rude.
[[nodiscard]] inline std::chrono::nanoseconds half_jittered(std::chrono::nanoseconds bound) noexcept {
  return bound / 2 + jittered(bound / 2);
}

}  // namespace ergon::detail
