// JSON as the command reads and writes it. Documents are written piece by piece and not as a tree, so that a payload goes out with
// the numbers that came in: a tree would turn 12345678901234567890123 into 1.2345678901234568E22.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/clock.hpp>

namespace ergon::cli {

/// Nothing where `text` is one JSON value in UTF-8, at most 1024 levels deep, else what is wrong with it and where.
[[nodiscard]] std::optional<std::string> fault_in_json(std::string_view text);

/// `text`, valid JSON, without the white space between its tokens.
[[nodiscard]] std::string compact_json(std::string_view text);
/// `text`, valid JSON, a member a line, indented by two.
[[nodiscard]] std::string indented_json(std::string_view text);

/// One document. Calls must nest as JSON does; commas are its own affair.
class document {
 public:
  document& begin_object() { return open('{'); }
  document& end_object() { return close('}'); }
  document& begin_array() { return open('['); }
  document& end_array() { return close(']'); }

  document& key(std::string_view name);

  /// Bytes that are not UTF-8 become U+FFFD.
  document& value(std::string_view text);
  document& value(const char* text) { return value(std::string_view(text)); }
  document& value(bool truth);
  document& value(std::unsigned_integral auto number) { return raw(std::to_string(number)); }
  document& value(std::signed_integral auto number) { return raw(std::to_string(number)); }
  document& value(double number);
  document& value(std::nullptr_t) { return raw("null"); }
  document& value(wall_time time);
  document& value(std::chrono::milliseconds span) { return value(span.count()); }
  template <class T>
  document& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : value(nullptr);
  }
  /// `json` is a valid value already.
  document& raw(std::string_view json);

  template <class T>
  document& field(std::string_view name, const T& what) {
    key(name);
    return value(what);
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  document& open(char bracket);
  document& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool comma_ = false;
};

}  // namespace ergon::cli
