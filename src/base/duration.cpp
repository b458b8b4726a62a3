// Reading and showing spans of time.
#include <ergon/base/duration.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct unit {
  std::string_view name;
  nanoseconds size;
};

// A unit that begins like another stands before it.
constexpr std::array units = {
    unit{"ns", 1ns}, unit{"us", 1us}, unit{"µs", 1us}, unit{"μs", 1us}, unit{"ms", 1ms},
    unit{"s", 1s},   unit{"m", 1min}, unit{"h", 1h},   unit{"d", 24h},  unit{"w", 7 * 24h},
};

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw error{errc::invalid_argument, fmt::format("duration {}: {}", quoted(text), why)};
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "1.5", "12", "250": up to three significant decimals, no trailing noughts.
std::string short_number(nanoseconds span, nanoseconds size) {
  const std::int64_t thousandths = (span.count() * 1000 + size.count() / 2) / size.count();
  const std::int64_t whole = thousandths / 1000;
  std::string out = fmt::format("{}.{:03}", whole, thousandths % 1000);
  // Three digits are enough for a person: 1.234, 12.34 → 12.3, 250.
  const std::size_t decimals = whole >= 100 ? 0 : whole >= 10 ? 1 : 2;
  out.resize(out.size() - (3 - decimals));
  if (decimals == 0) out.pop_back();
  if (decimals != 0) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

}  // namespace

void check_duration(std::string_view what, nanoseconds value) {
  if (value < 0ns) {
    throw error{errc::invalid_argument,
                fmt::format("{} of {} is negative: from 0s to ten years is right", what, format_duration(value))};
  }
  if (value > longest_duration) {
    throw error{errc::invalid_argument,
                fmt::format("{} of {} is over the limit: from 0s to ten years is right", what, format_duration(value))};
  }
}

nanoseconds parse_duration(std::string_view text) {
  constexpr std::string_view right = "250ms, 1.5s, 1h30m or 2d is right";
  if (text.empty()) refuse(text, fmt::format("is empty; {}", right));
  if (text.front() == '-') refuse(text, fmt::format("is negative; {}", right));
  if (text == "0") return 0ns;
  std::string_view left = text;
  nanoseconds sum{0};
  nanoseconds last_unit = nanoseconds::max();
  while (!left.empty()) {
    // Ten years are below 2^59 ns: a number that is kept below 2^60 in its own unit cannot overflow __int128 arithmetic.
    __extension__ using wide = __int128;
    wide digits = 0;
    wide scale = 1;
    std::size_t count = 0;
    bool fraction = false;
    for (; !left.empty() && (is_digit(left.front()) || (left.front() == '.' && !fraction)); left.remove_prefix(1)) {
      if (left.front() == '.') {
        fraction = true;
        if (count == 0 || left.size() < 2 || !is_digit(left[1]))
          refuse(text, fmt::format("a point needs digits on both sides; {}", right));
        continue;
      }
      ++count;
      if (fraction && scale >= 1'000'000'000'000'000'000) continue;
      if (digits >= (wide{1} << 62U)) refuse(text, "is over the limit of ten years");
      digits = digits * 10 + (left.front() - '0');
      if (fraction) scale *= 10;
    }
    if (count == 0) refuse(text, fmt::format("expected a number at {}; {}", text.size() - left.size(), right));
    if (left.empty()) refuse(text, fmt::format("has no unit (ns, us, ms, s, m, h, d, w); {}", right));
    const unit* found = nullptr;
    for (const unit& one : units) {
      if (!left.starts_with(one.name)) continue;
      // "m" must not take the beginning of "min" or "month".
      const std::string_view after = left.substr(one.name.size());
      if (!after.empty() && !is_digit(after.front())) continue;
      found = &one;
      break;
    }
    if (found == nullptr) {
      refuse(text, fmt::format("unknown unit {} (ns, us, ms, s, m, h, d, w are known); {}", quoted(left, 16), right));
    }
    if (found->size >= last_unit) refuse(text, fmt::format("units must go from large to small, each once; {}", right));
    last_unit = found->size;
    const wide part = digits * found->size.count() / scale;
    if (part > longest_duration.count() || sum.count() + part > longest_duration.count())
      refuse(text, "is over the limit of ten years");
    sum += nanoseconds{static_cast<std::int64_t>(part)};
    left.remove_prefix(found->name.size());
  }
  return sum;
}

std::string format_duration(nanoseconds span) {
  if (span < 0ns) {
    if (span == nanoseconds::min()) span += 1ns;
    return "-" + format_duration(-span);
  }
  if (span == 0ns) return "0s";
  if (span < 1us) return fmt::format("{}ns", span.count());
  // The borders lie where rounding to three digits would show 1000.
  if (span < 999'500ns) return short_number(span, 1us) + "us";
  if (span < 999'500us) return short_number(span, 1ms) + "ms";
  if (span < 59'950ms) return short_number(span, 1s) + "s";
  const auto two = [](std::int64_t high, std::string_view high_unit, std::int64_t low, std::string_view low_unit) {
    return low == 0 ? fmt::format("{}{}", high, high_unit) : fmt::format("{}{}{}{}", high, high_unit, low, low_unit);
  };
  const std::int64_t seconds = span / 1s + (span % 1s >= 500ms ? 1 : 0);
  if (seconds < 3600) return two(seconds / 60, "m", seconds % 60, "s");
  const std::int64_t minutes = span / 1min + (span % 1min >= 30s ? 1 : 0);
  if (minutes < 24 * 60) return two(minutes / 60, "h", minutes % 60, "m");
  const std::int64_t hours = span / 1h + (span % 1h >= 30min ? 1 : 0);
  return two(hours / 24, "d", hours % 24, "h");
}

}  // namespace ergon
