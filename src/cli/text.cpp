#include "cli/text.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/text.hpp>

namespace ergon::cli {
namespace {

struct code_point {
  char32_t value = 0;
  /// Bytes that it took; nought where the bytes are not UTF-8.
  std::size_t length = 0;
};

code_point first_of(std::string_view bytes) noexcept {
  const auto lead = static_cast<std::uint8_t>(bytes[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (!is_utf8(bytes.substr(0, length))) return {};
  char32_t value = lead & (0x7FU >> length);
  for (const char c : bytes.substr(1, length - 1)) value = (value << 6U) | (static_cast<std::uint8_t>(c) & 0x3FU);
  return {value, length};
}

struct range {
  char32_t from;
  char32_t to;
};

constexpr range zero_width[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},     {0x610, 0x61A},    {0x64B, 0x65F},
                                {0x670, 0x670},   {0x6D6, 0x6DC},   {0x6DF, 0x6E4},     {0x6E7, 0x6E8},    {0x6EA, 0x6ED},
                                {0x900, 0x902},   {0x93C, 0x93C},   {0x941, 0x948},     {0x94D, 0x94D},    {0xE31, 0xE31},
                                {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x1AB0, 0x1AFF},   {0x1DC0, 0x1DFF},  {0x200B, 0x200D},
                                {0x2060, 0x2064}, {0x20D0, 0x20F0}, {0x302A, 0x302D},   {0x3099, 0x309A},  {0xFE00, 0xFE0F},
                                {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0100, 0xE01EF}};

constexpr range double_width[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},  {0x2614, 0x2615}, {0x2648, 0x2653},   {0x26A1, 0x26A1},
    {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},  {0x274C, 0x274C}, {0x2753, 0x2755},   {0x2795, 0x2797},
    {0x2B50, 0x2B50},   {0x2E80, 0x303E},   {0x3041, 0x4DBF},  {0x4E00, 0xA4CF}, {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
    {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

bool lies_in(std::span<const range> ranges, char32_t value) noexcept {
  const auto after = std::ranges::upper_bound(ranges, value, {}, &range::from);
  return after != ranges.begin() && value <= std::prev(after)->to;
}

std::size_t columns_of(char32_t value) noexcept {
  if (value < 0x300) return 1;
  if (lies_in(zero_width, value)) return 0;
  return lies_in(double_width, value) ? 2 : 1;
}

/// Control characters, and those that turn the direction of the rest of the line.
bool acts_on_terminal(char32_t value) noexcept {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0x200E || value == 0x200F || value == 0x2028 ||
         value == 0x2029 || (value >= 0x202A && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069);
}

}  // namespace

std::size_t utf8_length(std::string_view bytes) noexcept { return first_of(bytes).length; }

std::string printable(std::string_view bytes) {
  std::string shown;
  shown.reserve(bytes.size());
  while (!bytes.empty()) {
    const code_point point = first_of(bytes);
    const std::size_t length = std::max<std::size_t>(point.length, 1);
    if (point.length != 0 && !acts_on_terminal(point.value)) {
      shown.append(bytes.substr(0, length));
    } else if (bytes[0] == '\n') {
      shown += "\\n";
    } else if (bytes[0] == '\t') {
      shown += "\\t";
    } else {
      for (const char byte : bytes.substr(0, length))
        fmt::format_to(std::back_inserter(shown), "\\x{:02X}", static_cast<std::uint8_t>(byte));
    }
    bytes.remove_prefix(length);
  }
  return shown;
}

std::size_t width_of(std::string_view text) noexcept {
  std::size_t columns = 0;
  while (!text.empty()) {
    const code_point point = first_of(text);
    columns += point.length == 0 ? 1 : columns_of(point.value);
    text.remove_prefix(std::max<std::size_t>(point.length, 1));
  }
  return columns;
}

std::string cut(std::string_view text, std::size_t columns) {
  if (width_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t used = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const code_point point = first_of(text.substr(end));
    const std::size_t wide = point.length == 0 ? 1 : columns_of(point.value);
    if (used + wide > columns - 1) break;
    used += wide;
    end += std::max<std::size_t>(point.length, 1);
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string age(std::chrono::nanoseconds span) {
  using namespace std::chrono_literals;
  if (span >= 1s) span = std::chrono::floor<std::chrono::seconds>(span);
  return format_duration(std::max<std::chrono::nanoseconds>(std::chrono::floor<std::chrono::milliseconds>(span), 0ns));
}

}  // namespace ergon::cli
