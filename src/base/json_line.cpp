// JSON lines and console lines of log records.
#include "base/json_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <ergon/base/text.hpp>
#include <ergon/base/time.hpp>

namespace ergon {
namespace {

bool is_json_number(const log_field& field) {
  // to_chars writes "inf" and "nan", which JSON does not have.
  return field.is_number && field.value.find_first_of("iI") == std::string_view::npos && !field.value.ends_with("nan");
}

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::string_view good = text.substr(0, utf8_prefix(text));
    for (char c : good) {
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
          } else {
            out += c;
          }
      }
    }
    text.remove_prefix(good.size());
    if (!text.empty()) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    }
  }
  out += '"';
}

std::string json_line(const log_record& record) {
  std::string out = "{\"time\":\"";
  out += format_time(record.at);
  out += "\",\"level\":\"";
  out += to_string(record.level);
  out += "\",\"text\":";
  append_json_text(out, record.text);
  for (const log_field& field : record.fields) {
    out += ',';
    if (field.key == "time" || field.key == "level" || field.key == "text") {
      append_json_text(out, std::string{field.key} + '_');
    } else {
      append_json_text(out, field.key);
    }
    out += ':';
    if (is_json_number(field)) {
      out += field.value;
    } else {
      append_json_text(out, field.value);
    }
  }
  out += "}\n";
  return out;
}

std::string console_line(const log_record& record) {
  // quoted() without its quotes, so that no record can forge a second line or move the cursor.
  const auto safe = [](std::string_view text) {
    std::string shown = quoted(text, 4096);
    if (shown.find('\\') == std::string::npos) return shown.substr(1, shown.size() - 2);
    std::string out;
    for (std::size_t i = 1; i + 1 < shown.size(); ++i) {
      if (shown[i] == '\\' && (shown[i + 1] == '"' || shown[i + 1] == '\\')) ++i;
      out += shown[i];
    }
    return out;
  };
  std::string out = safe(record.text);
  for (const log_field& field : record.fields) {
    out += ' ';
    out += safe(field.key);
    out += '=';
    const bool plain = !field.value.empty() && std::ranges::all_of(field.value, [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && c != '"' && c != '=' && c != 0x7F;
    });
    out += plain ? safe(field.value) : quoted(field.value, 1024);
  }
  return out;
}

}  // namespace ergon
