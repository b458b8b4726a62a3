// RFC 3339 by hand: the library at hand has no std::format of calendars, and this is on the path of payloads.
#include <ergon/base/time.hpp>

#include <fmt/format.h>

#include <cstdint>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace ergon {
namespace {

namespace chr = std::chrono;

void append_digits(std::string& out, std::uint64_t value, int width) {
  char digits[20];
  for (int i = width; i-- > 0;) {
    digits[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  out.append(digits, static_cast<std::size_t>(width));
}

class time_parser {
 public:
  explicit time_parser(std::string_view text) : text_(text), left_(text) {}

  wall_time parse() {
    const int year = number(4, "a year of four digits");
    expect("-");
    const int month = number(2, "a month");
    expect("-");
    const int day = number(2, "a day");
    expect("Tt ");
    const int hour = number(2, "an hour");
    expect(":");
    const int minute = number(2, "a minute");
    expect(":");
    const int second = number(2, "a second");
    const chr::year_month_day date{chr::year{year}, chr::month{static_cast<unsigned>(month)},
                                   chr::day{static_cast<unsigned>(day)}};
    if (!date.ok()) fail("there is no such day");
    if (hour > 23 || minute > 59 || second > 60) fail("there is no such time of day");
    const chr::nanoseconds fraction = fraction_of_second();
    const chr::minutes offset = zone();
    if (!left_.empty()) fail("something follows the time");
    if (year < 1678 || year > 2261) fail("years from 1678 to 2261 can be stored");
    return chr::sys_days{date} + chr::hours{hour} + chr::minutes{minute} + chr::seconds{second} + fraction - offset;
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw error{errc::invalid_argument,
                fmt::format("time {}: {} (at {}); 2030-01-31T13:45:00Z or 2030-01-31T13:45:00.5+01:00 is right", quoted(text_),
                            why, text_.size() - left_.size())};
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  int number(std::size_t width, std::string_view what) {
    int value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      if (i >= left_.size() || !is_digit(left_[i])) fail(fmt::format("{} is missing", what));
      value = value * 10 + (left_[i] - '0');
    }
    left_.remove_prefix(width);
    return value;
  }

  void expect(std::string_view any) {
    if (left_.empty() || any.find(left_.front()) == std::string_view::npos) fail(fmt::format("expected '{}'", any.front()));
    left_.remove_prefix(1);
  }

  chr::nanoseconds fraction_of_second() {
    if (left_.empty() || left_.front() != '.') return chr::nanoseconds{0};
    left_.remove_prefix(1);
    if (left_.empty() || !is_digit(left_.front())) fail("digits are missing after the point");
    std::int64_t unit = 100'000'000;
    std::int64_t sum = 0;
    while (!left_.empty() && is_digit(left_.front())) {
      sum += unit * (left_.front() - '0');
      unit /= 10;
      left_.remove_prefix(1);
    }
    return chr::nanoseconds{sum};
  }

  chr::minutes zone() {
    if (left_.empty()) fail("the zone is missing: Z or +01:00");
    const char sign = left_.front();
    if (sign != 'Z' && sign != 'z' && sign != '+' && sign != '-') fail("the zone must be Z or like +01:00");
    left_.remove_prefix(1);
    if (sign == 'Z' || sign == 'z') return chr::minutes{0};
    const int hours = number(2, "the zone's hour");
    expect(":");
    const int minutes = number(2, "the zone's minute");
    if (hours > 23 || minutes > 59) fail("there is no such zone");
    const chr::minutes offset = chr::hours{hours} + chr::minutes{minutes};
    return sign == '-' ? -offset : offset;
  }

  std::string_view text_;
  std::string_view left_;
};

}  // namespace

void format_time(wall_time at, std::string& out) {
  const auto day = chr::floor<chr::days>(at);
  const chr::year_month_day date{day};
  auto rest = static_cast<std::uint64_t>((at - day).count());
  const std::uint64_t nanos = rest % 1'000'000'000;
  rest /= 1'000'000'000;
  append_digits(out, static_cast<std::uint64_t>(static_cast<int>(date.year())), 4);
  out += '-';
  append_digits(out, static_cast<unsigned>(date.month()), 2);
  out += '-';
  append_digits(out, static_cast<unsigned>(date.day()), 2);
  out += 'T';
  append_digits(out, rest / 3600, 2);
  out += ':';
  append_digits(out, rest / 60 % 60, 2);
  out += ':';
  append_digits(out, rest % 60, 2);
  if (nanos != 0) {
    out += '.';
    if (nanos % 1'000'000 == 0) {
      append_digits(out, nanos / 1'000'000, 3);
    } else if (nanos % 1'000 == 0) {
      append_digits(out, nanos / 1'000, 6);
    } else {
      append_digits(out, nanos, 9);
    }
  }
  out += 'Z';
}

std::string format_time(wall_time at) {
  std::string out;
  format_time(at, out);
  return out;
}

wall_time parse_time(std::string_view text) { return time_parser{text}.parse(); }

}  // namespace ergon
