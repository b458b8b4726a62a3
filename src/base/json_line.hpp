// How a log record becomes a line of JSON. Stateless; any thread.
#pragma once

#include <string>
#include <string_view>

#include <ergon/base/log.hpp>

namespace ergon {

/// Appends `text` as a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
void append_json_text(std::string& out, std::string_view text);
/// The record as one line, line feed included.
[[nodiscard]] std::string json_line(const log_record& record);
/// `text key=value …` on one line: control bytes escaped, values quoted where they would be ambiguous.
[[nodiscard]] std::string console_line(const log_record& record);

}  // namespace ergon
