// Checks of text that comes from outside, and a safe way to show it in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

/// The longest queue or kind name in bytes.
inline constexpr std::size_t longest_name = 128;

/// True for bytes that may stand in a queue or kind name: letters, digits and `-_.:/`.
[[nodiscard]] constexpr bool is_name_byte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
         c == ':' || c == '/';
}

/// True for 1 to 128 bytes of letters, digits and `-_.:/`.
[[nodiscard]] constexpr bool is_name(std::string_view value) noexcept {
  if (value.empty() || value.size() > longest_name) return false;
  for (char c : value) {
    if (!is_name_byte(c)) return false;
  }
  return true;
}

/// Throws `errc::invalid_argument` unless `is_name(value)`. `what` begins the error's text: `queue name`, `kind`.
ERGON_EXPORT void check_name(std::string_view what, std::string_view value);

/// True if the bytes are well-formed UTF-8 (RFC 3629): no surrogates, nothing overlong, nothing past U+10FFFF.
[[nodiscard]] ERGON_EXPORT bool is_utf8(std::string_view bytes) noexcept;
/// Where the first ill-formed sequence begins; the size of `bytes` if there is none.
[[nodiscard]] ERGON_EXPORT std::size_t utf8_prefix(std::string_view bytes) noexcept;

/// `bytes` in double quotes for an error text: control bytes and what is not UTF-8 as `\xNN`, quotes and backslashes escaped,
/// after about `max` bytes cut off with `…`.
[[nodiscard]] ERGON_EXPORT std::string quoted(std::string_view bytes, std::size_t max = 64);

}  // namespace ergon
