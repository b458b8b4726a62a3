// Reading and showing sizes.
#include <ergon/base/size.hpp>

#include <fmt/format.h>

#include <array>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace ergon {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw error{errc::invalid_argument, fmt::format("size {}: {}; 65536, 64k, 100MB or 16MiB is right", quoted(text), why)};
}

std::uint64_t unit_size(std::string_view text, std::string_view unit) {
  std::string lower{unit};
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view prefixes = "kmgt";
  const std::size_t power = prefixes.find(lower.front());
  const std::string_view rest = std::string_view{lower}.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) {
    refuse(text, fmt::format("unknown unit {}", quoted(unit, 16)));
  }
  const std::uint64_t step = rest == "ib" ? 1024 : 1000;
  std::uint64_t size = 1;
  for (std::size_t i = 0; i <= power; ++i) size *= step;
  return size;
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  __extension__ using wide = unsigned __int128;
  constexpr wide limit = wide{1} << 63U;
  if (text.starts_with('-')) refuse(text, "is negative");
  wide digits = 0;
  wide scale = 1;
  std::size_t at = 0;
  bool fraction = false;
  bool any = false;
  for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || (text[at] == '.' && any && !fraction)); ++at) {
    if (text[at] == '.') {
      fraction = true;
      any = false;
      continue;
    }
    any = true;
    if (fraction && scale >= 1'000'000'000) continue;
    digits = digits * 10 + static_cast<unsigned>(text[at] - '0');
    if (digits / scale >= limit) refuse(text, "is larger than any store");
    if (fraction) scale *= 10;
  }
  if (!any) refuse(text, "has no number");
  const wide bytes = digits * unit_size(text, text.substr(at)) / scale;
  if (bytes >= limit) refuse(text, "is larger than any store");
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{}B", bytes);
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  // 1023.96 would be shown as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + std::string{names[unit]};
}

}  // namespace ergon
