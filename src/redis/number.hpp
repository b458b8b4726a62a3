// Numbers as RESP writes them. Stateless; any thread.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

namespace ergon::redis::detail {

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// How many digits `text` begins with.
[[nodiscard]] constexpr std::size_t leading_digits(std::string_view text) noexcept {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  return count;
}

/// `[+|-]digits` and nothing else.
[[nodiscard]] constexpr bool is_integer_text(std::string_view text) noexcept {
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
  return !text.empty() && leading_digits(text) == text.size();
}

/// Takes a plus off, which `std::from_chars` does not read. False: a minus follows it.
[[nodiscard]] constexpr bool take_plus(std::string_view& text) noexcept {
  if (!text.starts_with('+')) return true;
  text.remove_prefix(1);
  return !text.starts_with('-');
}

/// False, and `out` as it was, unless all of `text` is a number as `std::from_chars` reads it.
template <class Number>
[[nodiscard]] bool parse_all(std::string_view text, Number& out) noexcept {
  Number number{};
  auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || stop != text.data() + text.size()) return false;
  out = number;
  return true;
}

/// False, and `out` as it was, unless `text` is `[+|-]digits` within 64 bits.
[[nodiscard]] inline bool parse_integer(std::string_view text, std::int64_t& out) noexcept {
  return take_plus(text) && parse_all(text, out);
}

/// False, and `out` as it was, unless `text` is `[+|-]digits[.digits][e[+|-]digits]` within the range of a double, or `inf`, `-inf`,
/// `nan`, or `-nan`, which Redis before 7.2 writes where printf does.
[[nodiscard]] inline bool parse_real(std::string_view text, double& out) noexcept {
  if (text == "inf" || text == "-inf") {
    out = text.front() == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text == "nan" || text == "-nan") {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (!take_plus(text)) return false;
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '-') rest.remove_prefix(1);
  std::size_t digits = leading_digits(rest);
  if (digits == 0) return false;
  rest.remove_prefix(digits);
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    digits = leading_digits(rest);
    if (digits == 0) return false;
    rest.remove_prefix(digits);
  }
  if (!rest.empty() && (rest.front() == 'e' || rest.front() == 'E')) {
    rest.remove_prefix(1);
    if (!rest.empty() && (rest.front() == '+' || rest.front() == '-')) rest.remove_prefix(1);
    digits = leading_digits(rest);
    if (digits == 0) return false;
    rest.remove_prefix(digits);
  }
  return rest.empty() && parse_all(text, out);
}

}  // namespace ergon::redis::detail
