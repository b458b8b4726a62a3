// The compiled half of reading JSON: a cursor that goes forward over a text, checks it as it goes, and knows the path of the
// value that it stands on. Only specialisations of `json_value` use it.
//
// A reader is made and used on one thread. Parsers and buffers are kept per thread for the next reader; those that a large text
// has blown up are given back. What `text` and `next_field` return lives as long as the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

struct json_options {
  /// Fields that the type does not have are refused instead of ignored.
  bool strict = false;
};

/// Deeper nesting than this is neither read nor written.
inline constexpr std::size_t max_json_depth = 64;

/// Every member throws `errc::bad_payload` with the path of the value; the reader must not be used after that.
class ERGON_EXPORT json_reader {
 public:
  enum class type : std::uint8_t { null, boolean, number, text, array, object };

  /// Stands on the only value of `bytes`. `name` begins the paths in error texts; it and `bytes` must outlive the reader.
  json_reader(std::string_view bytes, std::string_view name, json_options options = {});
  json_reader(const json_reader&) = delete;
  json_reader& operator=(const json_reader&) = delete;
  ~json_reader();

  /// What the reader stands on. Takes nothing.
  [[nodiscard]] type peek();

  // Each of these takes the value that the reader stands on.

  /// True for `null`; anything else is not taken.
  [[nodiscard]] bool null();
  [[nodiscard]] bool boolean();
  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max);
  [[nodiscard]] std::uint64_t unsigned_integer(std::uint64_t max);
  /// Finite.
  [[nodiscard]] double real();
  /// Rounded to a float; too large for one is an error.
  [[nodiscard]] float real_float();
  /// Well-formed UTF-8, escapes resolved.
  [[nodiscard]] std::string_view text();
  /// A value of any type, checked and forgotten.
  void skip();

  /// Enters an object; then each `next_field` stands on a field's value, which must be taken, until it returns false: the object
  /// is taken.
  void begin_object();
  [[nodiscard]] bool next_field(std::string_view& name);
  /// The same for an array.
  void begin_array();
  [[nodiscard]] bool next_element();

  /// Nothing but white space may follow the value that was taken.
  void finish();

  [[nodiscard]] const json_options& options() const noexcept { return options_; }
  /// Throws about the value that the reader stands on: `resize.width: <why>`.
  [[noreturn]] void fail(std::string_view why) const;
  /// The same where the value is not what it should be: `resize.width: expected <what>, got a string "x"`.
  [[noreturn]] void fail_expected(std::string_view what);
  /// Throws about the object whose field the reader stands on.
  [[noreturn]] void fail_unknown_field(std::span<const std::string_view> known) const;
  /// Throws about the object that was taken last, if its field `name` is missing.
  [[noreturn]] void fail_missing_field(std::string_view name) const;

 private:
  struct state;
  [[noreturn]] void fail_syntax(int reason) const;
  [[nodiscard]] std::string path(std::size_t depth) const;

  std::unique_ptr<state> state_;
  std::string_view bytes_;
  std::string_view name_;
  json_options options_;
};

}  // namespace ergon
