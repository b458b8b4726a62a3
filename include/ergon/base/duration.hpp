// Spans of time as people write them: 250ms, 1.5s, 1h30m, 2d.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

/// Ten years: no delay, time-out or retention in ergon may be longer.
inline constexpr std::chrono::nanoseconds longest_duration = std::chrono::years{10};

/// Throws `errc::invalid_argument` unless `value` is from nought to `longest_duration`. `what` begins the error's text.
ERGON_EXPORT void check_duration(std::string_view what, std::chrono::nanoseconds value);

/// One or more numbers with units, largest unit first: ns, us (µs), ms, s, m, h, d, w. The numbers may have a fraction; what is
/// below a nanosecond is dropped. A bare `0` needs no unit. Throws `errc::invalid_argument`, also for what is negative or over ten years.
[[nodiscard]] ERGON_EXPORT std::chrono::nanoseconds parse_duration(std::string_view text);

/// Short and rounded, for people: `250ms`, `1.5s`, `3m20s`, `2d4h`, `0s`. Negative spans begin with `-`.
[[nodiscard]] ERGON_EXPORT std::string format_duration(std::chrono::nanoseconds span);

}  // namespace ergon
