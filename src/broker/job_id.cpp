// The serial number comes last and has a fixed width, so an own id may hold anything once `@` is escaped.
#include "broker/job_id.hpp"

#include <cstddef>
#include <utility>

#include <ergon/base/id.hpp>

namespace ergon {

namespace {

constexpr std::string_view hex = "0123456789abcdef";

bool needs_escape(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f || c == '%' || c == '@';
}

std::optional<std::string> unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (needs_escape(text[i])) return std::nullopt;
      plain += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = hex.find(text[i + 1]);
    const auto low = hex.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    plain += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return plain;
}

std::optional<wide_serial> decode_wide(std::string_view text) noexcept {
  if (text.size() != 2 * u64_text_size) return std::nullopt;
  const auto high = decode_u64(text.substr(0, u64_text_size));
  const auto low = decode_u64(text.substr(u64_text_size));
  if (!high || !low || *high == 0) return std::nullopt;
  return wide_serial{.high = *high, .low = *low};
}

template <class Name, class Decode>
Name parse(std::string_view text, Decode decode) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos) return {.serial = decode(text), .custom_id = std::string{text}};
  if (at > 0) {
    if (const auto serial = decode(text.substr(at + 1))) {
      if (auto own = unescape(text.substr(0, at))) return {.serial = serial, .custom_id = std::move(*own)};
    }
  }
  return {.serial = std::nullopt, .custom_id = std::string{text}};
}

}  // namespace

std::string make_job_id(std::uint64_t serial, std::string_view custom_id) { return make_job_id(0, serial, custom_id); }

std::string make_job_id(std::uint64_t high, std::uint64_t low, std::string_view custom_id) {
  std::string id;
  id.reserve(custom_id.size() + 1 + 2 * u64_text_size);
  for (const char c : custom_id) {
    if (needs_escape(c)) {
      const auto byte = static_cast<unsigned char>(c);
      id += '%';
      id += hex[byte >> 4];
      id += hex[byte & 15];
    } else {
      id += c;
    }
  }
  if (!custom_id.empty()) id += '@';
  if (high != 0) encode_u64(high, id);
  encode_u64(low, id);
  return id;
}

job_name parse_job_id(std::string_view text) { return parse<job_name>(text, decode_u64); }

wide_job_name parse_wide_job_id(std::string_view text) { return parse<wide_job_name>(text, decode_wide); }

}  // namespace ergon
