// Broker URLs: where a broker is and how to open it, in one line of text that may hold a password.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ergon/base/duration.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// The parts of a URL, percent-decoded.
struct url {
  /// In lower case.
  std::string scheme;
  std::string user;
  std::string password;
  /// As in `redis://host`; an IPv6 address without its brackets. Empty for `memory:` and `sqlite:`.
  std::string host;
  std::optional<std::uint16_t> port;
  /// `memory:NAME`: the name. `sqlite:dir/jobs.db`, `sqlite:/dir/jobs.db`, `sqlite:///dir/jobs.db`: the path.
  /// `redis://host/3`: `/3`.
  std::string path;
  /// What follows the `?`, in order.
  std::vector<std::pair<std::string, std::string>> options;
  /// The URL as it was given, without secrets, for logs and error texts.
  std::string shown;
};

/// Reads a broker URL. Paths of `sqlite:` may hold spaces and UTF-8 as they are; `%`, `?` and `#` must be percent-encoded. Any
/// scheme is accepted here; who opens brokers knows which exist. Throws `errc::bad_url`: the text shows the URL without its
/// secrets, names the part, and says what is right.
[[nodiscard]] ERGON_EXPORT url parse_url(std::string_view text);

/// The URL with password and secret options replaced by `***`; also for text that is not a valid URL, where it rather hides
/// too much.
[[nodiscard]] ERGON_EXPORT std::string redact(std::string_view url);

/// Takes typed options out of a URL, and at the end refuses those that nobody took. Not thread-safe; the URL must outlive it.
/// All members throw `errc::bad_url` with the option's name, its value and what is right.
class ERGON_EXPORT option_reader {
 public:
  explicit option_reader(const url& from);

  /// `true`, `false`, `on`, `off`, `yes`, `no`, `1`, `0`; an option without a value is true.
  [[nodiscard]] bool take_bool(std::string_view name, bool fallback);
  /// A decimal number from `min` to `max`.
  template <std::integral Number>
  [[nodiscard]] Number take_number(std::string_view name, Number fallback, Number min = std::numeric_limits<Number>::min(),
                                   Number max = std::numeric_limits<Number>::max()) {
    if constexpr (std::unsigned_integral<Number>) {
      return static_cast<Number>(take_unsigned(name, fallback, min, max));
    } else {
      return static_cast<Number>(take_signed(name, fallback, min, max));
    }
  }
  /// As `parse_duration` reads it, from `min` to `max`.
  [[nodiscard]] std::chrono::nanoseconds take_duration(std::string_view name, std::chrono::nanoseconds fallback,
                                                       std::chrono::nanoseconds min = std::chrono::nanoseconds{0},
                                                       std::chrono::nanoseconds max = longest_duration);
  /// As `parse_size` reads it, in bytes, from `min` to `max`.
  [[nodiscard]] std::uint64_t take_size(std::string_view name, std::uint64_t fallback, std::uint64_t min = 0,
                                        std::uint64_t max = std::numeric_limits<std::int64_t>::max());
  [[nodiscard]] std::string take_text(std::string_view name, std::string_view fallback);
  /// One of the named values.
  template <class Value>
  [[nodiscard]] Value take_choice(std::string_view name, Value fallback,
                                  std::initializer_list<std::pair<std::string_view, Value>> choices) {
    const std::optional<std::string_view> given = take(name);
    if (!given) return fallback;
    std::vector<std::string_view> names;
    for (const auto& [choice, value] : choices) {
      if (choice == *given) return value;
      names.push_back(choice);
    }
    refuse_choice(name, *given, names);
  }

  /// Call it after the last take: throws if the URL holds an option that was not asked for, and lists those that were.
  void done() const;

 private:
  std::optional<std::string_view> take(std::string_view name);
  std::uint64_t take_unsigned(std::string_view name, std::uint64_t fallback, std::uint64_t min, std::uint64_t max);
  std::int64_t take_signed(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max);
  [[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view right) const;
  [[noreturn]] void refuse_choice(std::string_view name, std::string_view value,
                                  const std::vector<std::string_view>& choices) const;

  const url* url_;
  std::vector<std::string> known_;
};

}  // namespace ergon
