// Scalars as JSON text.
#include <ergon/codec/json_writer.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "codec/json_diagnosis.hpp"

namespace ergon {
namespace {

// 0: the byte stands for itself. Otherwise what follows the backslash; 'u' for \u00XX.
constexpr std::array<char, 256> escapes = [] {
  std::array<char, 256> table{};
  for (std::size_t c = 0; c < 0x20; ++c) table[c] = 'u';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}();

// How many bytes from the front are ASCII that stands for itself: eight at a time, the rest one by one.
std::size_t plain_prefix(std::string_view value) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  constexpr std::uint64_t tops = 0x80U * ones;
  std::size_t i = 0;
  for (; i + 8 <= value.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, value.data() + i, 8);
    const std::uint64_t quote = word ^ ('"' * ones);
    const std::uint64_t backslash = word ^ ('\\' * ones);
    // Each term has a byte's top bit set if the byte is below 0x20, a quote or a backslash; false alarms cost only the slow loop.
    const std::uint64_t special = (word - 0x20U * ones) | (quote - ones) | (backslash - ones) | word;
    if ((special & tops) != 0) break;
  }
  while (i < value.size() && static_cast<unsigned char>(value[i]) < 0x80 && escapes[static_cast<unsigned char>(value[i])] == 0)
    ++i;
  return i;
}

template <class Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> text;
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), static_cast<std::size_t>(end - text.data()));
}

}  // namespace

void json_writer::integer(std::int64_t value) { append_number(*out_, value); }
void json_writer::unsigned_integer(std::uint64_t value) { append_number(*out_, value); }

void json_writer::real(double value) {
  if (!std::isfinite(value)) fail(fmt::format("{} is no number that JSON has: only finite ones are", value));
  append_number(*out_, value);
}

void json_writer::real(float value) {
  if (!std::isfinite(value)) fail(fmt::format("{} is no number that JSON has: only finite ones are", value));
  append_number(*out_, value);
}

void json_writer::text(std::string_view value) {
  std::string& out = *out_;
  const std::size_t plain = plain_prefix(value);
  if (plain == value.size()) [[likely]] {
    out.push_back('"');
    out.append(value);
    out.push_back('"');
    return;
  }
  if (const std::size_t good = utf8_prefix(value); good != value.size()) {
    fail(fmt::format("byte 0x{:02x} at {} of the string is not UTF-8; bytes travel as ergon::raw_bytes, or encoded",
                     static_cast<unsigned char>(value[good]), good));
  }
  out.push_back('"');
  std::size_t start = 0;
  for (std::size_t i = plain; i < value.size(); ++i) {
    const auto c = static_cast<unsigned char>(value[i]);
    const char escape = escapes[c];
    if (escape == 0) [[likely]]
      continue;
    out.append(value, start, i - start);
    start = i + 1;
    out.push_back('\\');
    out.push_back(escape);
    if (escape == 'u') {
      constexpr std::string_view digits = "0123456789abcdef";
      out.append("00");
      out.push_back(digits[c >> 4U]);
      out.push_back(digits[c & 15U]);
    }
  }
  out.append(value, start, value.size() - start);
  out.push_back('"');
}

void json_writer::fail(std::string_view why) const {
  std::vector<const scope*> scopes;
  for (const scope* one = top_; one != nullptr; one = one->above_) scopes.push_back(one);
  std::string path{name_};
  for (std::size_t i = scopes.size(); i-- > 0;) {
    if (scopes[i]->field_.data() != nullptr) {
      append_path_field(path, scopes[i]->field_);
    } else {
      append_path_element(path, scopes[i]->element_);
    }
  }
  throw error{errc::bad_payload, fmt::format("{}: {}", path, why)};
}

void json_writer::fail_too_deep() {
  --depth_;
  fail(fmt::format("more than {} levels of nesting", max_json_depth));
}

}  // namespace ergon
