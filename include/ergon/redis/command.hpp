// Commands as a server reads them: each an array of bulk strings, one after the other in one buffer that is used again and again.
// Owns the buffer; the arguments are copied. Not thread-safe.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <ergon/base/export.hpp>

namespace ergon::redis {

/// An integer that is meant as a number: `char` and `bool` could as well be meant as text.
template <class T>
concept integer_argument = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
                           !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <class T>
concept command_argument = std::convertible_to<const T&, std::string_view> || integer_argument<T>;

/// Any bytes may stand in an argument. A command that has not got the number of arguments that it was begun with would let the server take
/// the next command for the rest of it; so that is `errc::invalid_argument` at the next `begin`, `add` or `bytes`, and at an `arg`
/// too many.
class ERGON_EXPORT commands {
 public:
  /// A whole command: `add("XADD", key, "*", "n", 7)`.
  template <command_argument... Arguments>
    requires(sizeof...(Arguments) > 0)
  void add(const Arguments&... arguments) {
    begin(sizeof...(Arguments));
    (arg(arguments), ...);
  }

  /// Begins a command whose name and arguments are `arguments` together, at least one; so many `arg` follow.
  void begin(std::size_t arguments);
  void arg(std::string_view bytes);
  template <integer_argument T>
  void arg(T number) {
    char text[24];
    arg(std::string_view{text, std::to_chars(text, text + sizeof text, number).ptr});
  }

  /// What is to be sent. Valid until the next change.
  [[nodiscard]] std::string_view bytes() const;
  /// How many commands were begun: so many replies are due.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /// Forgets the commands, an unfinished one too. The memory stays for the next ones, but a buffer of more than `keep_bytes` is given back.
  void clear(std::size_t keep_bytes = std::size_t{1} << 20U) noexcept;
  /// The bytes of memory that it holds, in use or not.
  [[nodiscard]] std::size_t memory() const noexcept { return bytes_.capacity(); }

 private:
  void check_finished() const;

  std::string bytes_;
  std::size_t count_ = 0;
  // Of the command that was begun last: how many arguments it was to have, and how many it still lacks.
  std::size_t wanted_ = 0;
  std::size_t lacking_ = 0;
};

}  // namespace ergon::redis
