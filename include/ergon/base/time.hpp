// Points in time as text: RFC 3339, in UTC when written.
#pragma once

#include <string>
#include <string_view>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// `2030-01-01T00:00:00Z`, with 3, 6 or 9 digits of a second's fraction where it has one.
[[nodiscard]] ERGON_EXPORT std::string format_time(wall_time at);
/// The same, appended to `out`.
ERGON_EXPORT void format_time(wall_time at, std::string& out);

/// Reads `2030-01-01T00:00:00Z`, `2030-01-01T01:00:00.25+01:00`; `t`, `z` and a space instead of the T are right too. Digits past
/// nanoseconds are dropped, a leap second is the second after it. From 1678 to 2261, which is what `wall_time` holds. Throws
/// `errc::invalid_argument`.
[[nodiscard]] ERGON_EXPORT wall_time parse_time(std::string_view text);

}  // namespace ergon
