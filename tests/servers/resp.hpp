// As much of the protocol of Redis as the kit speaks, written a second time on purpose: the product's parser must not be checked by
// itself. https://redis.io/docs/latest/develop/reference/protocol-spec/
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace ergon::test {

using command_words = std::vector<std::string>;

/// An answer of RESP2.
struct reply {
  enum class kind { text, integer, nil, array, error };
  kind what = kind::nil;
  /// Of a text or an error; the digits of an integer.
  std::string text = {};
  /// Of an array.
  std::vector<reply> elements = {};

  [[nodiscard]] bool is_error() const noexcept { return what == kind::error; }
  [[nodiscard]] bool is_nil() const noexcept { return what == kind::nil; }
  /// Throws `errc::wrong_state` if it is no integer.
  [[nodiscard]] long long integer() const;

  friend bool operator==(const reply& a, std::string_view b) {
    return a.what != kind::nil && a.what != kind::array && a.text == b;
  }
  friend bool operator==(const reply& a, long long b) { return a.what == kind::integer && a.text == std::to_string(b); }
  friend void PrintTo(const reply& value, std::ostream* out) { *out << value.to_string(); }
  /// For people: `["a", 1, nil]`.
  [[nodiscard]] std::string to_string() const;
};

/// A command as clients send it: an array of bulk strings.
[[nodiscard]] std::string encode(const command_words& command);
/// For people: `SET key "a b"`.
[[nodiscard]] std::string to_text(const command_words& command);
/// Bytes with what cannot be printed escaped, cut after 200.
[[nodiscard]] std::string printable(std::string_view bytes);

/// Takes one answer off the front; nothing if it has not come whole. Throws `errc::bad_payload` for what is no RESP2.
[[nodiscard]] std::optional<reply> take_reply(std::string& bytes);
/// Takes one command off the front; nothing if it has not come whole. Throws `errc::bad_payload` for anything else.
[[nodiscard]] std::optional<command_words> take_command(std::string& bytes);

}  // namespace ergon::test
