// Why a text is not JSON, and where. The reader asks only after it has failed: simdjson is fast because it does not keep track.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ergon {

struct json_problem {
  /// Byte offset.
  std::size_t at = 0;
  /// Path of the value that is broken, to be appended to the name of the root: `.sizes[3].width`, or nothing.
  std::string path;
  std::string why;
};

/// The first reason, in the order of the text, why `bytes` is not one JSON value of at most `max_json_depth` levels in UTF-8
/// (RFC 8259); nothing if it is. Numbers may have any size. Stateless; any thread.
[[nodiscard]] std::optional<json_problem> diagnose_json(std::string_view bytes);

/// True for a number as RFC 8259 has it. `whole` tells whether it has neither fraction nor exponent.
[[nodiscard]] bool is_json_number(std::string_view token, bool& whole) noexcept;

/// Appends `.name`, or `["na me"]` where a dot would be ambiguous.
void append_path_field(std::string& path, std::string_view name);
/// Appends `[3]`.
void append_path_element(std::string& path, std::size_t element);

}  // namespace ergon
