// UTF-8 validation, quoting for error texts, name checks. Stateless; any thread.
#include <ergon/base/text.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include <ergon/base/error.hpp>

namespace ergon {
namespace {

// The length of the well-formed sequence that `at` begins, or 0 (Unicode 15, table 3-7).
std::size_t sequence_length(const unsigned char* at, std::size_t left) noexcept {
  const unsigned char first = at[0];
  if (first < 0x80) return 1;
  const auto continues = [&](std::size_t i) { return (at[i] & 0xC0U) == 0x80U; };
  if (first >= 0xC2 && first <= 0xDF) return left >= 2 && continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (left < 3 || !continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && at[1] < 0xA0) return 0;
    if (first == 0xED && at[1] > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (left < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && at[1] < 0x90) return 0;
    if (first == 0xF4 && at[1] > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::size_t utf8_prefix(std::string_view bytes) noexcept {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t size = bytes.size();
  std::size_t at = 0;
  while (at < size) {
    if (size - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    const std::size_t length = sequence_length(data + at, size - at);
    if (length == 0) return at;
    at += length;
  }
  return size;
}

bool is_utf8(std::string_view bytes) noexcept { return utf8_prefix(bytes) == bytes.size(); }

std::string quoted(std::string_view bytes, std::size_t max) {
  std::string out = "\"";
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t length = sequence_length(data + at, bytes.size() - at);
    if (at + (length == 0 ? 1 : length) > max) {
      out += "…";
      break;
    }
    if (length == 0 || data[at] < 0x20 || data[at] == 0x7F) {
      out += fmt::format("\\x{:02x}", data[at]);
      at += 1;
      continue;
    }
    // U+0080..U+009F are control characters as well: a terminal may obey them.
    if (length == 2 && data[at] == 0xC2 && data[at + 1] < 0xA0) {
      out += fmt::format("\\x{:02x}\\x{:02x}", data[at], data[at + 1]);
      at += 2;
      continue;
    }
    if (data[at] == '"' || data[at] == '\\') out += '\\';
    out.append(bytes, at, length);
    at += length;
  }
  out += '"';
  return out;
}

void check_name(std::string_view what, std::string_view value) {
  if (is_name(value)) return;
  if (value.empty()) {
    throw error{errc::invalid_argument,
                fmt::format("{} is empty: 1 to {} letters, digits or -_.:/ are right", what, longest_name)};
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!is_name_byte(value[i])) {
      throw error{errc::invalid_argument, fmt::format("{} {}: byte 0x{:02x} at {} is not allowed; letters, digits and -_.:/ are",
                                                      what, quoted(value), static_cast<unsigned char>(value[i]), i)};
    }
  }
  throw error{errc::invalid_argument,
              fmt::format("{} {} has {} bytes: at most {} are allowed", what, quoted(value), value.size(), longest_name)};
}

}  // namespace ergon
