#include "cli/json.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/error.hpp>

#include <ergon/base/time.hpp>

#include "cli/text.hpp"

namespace ergon::cli {
namespace {

constexpr std::size_t deepest = 1024;

/// Keeps nothing: only whether the text is JSON is asked.
struct heedless {
  using error = boost::system::error_code;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  bool on_document_begin(error&) { return true; }
  bool on_document_end(error&) { return true; }
  bool on_object_begin(error&) { return true; }
  bool on_object_end(std::size_t, error&) { return true; }
  bool on_array_begin(error&) { return true; }
  bool on_array_end(std::size_t, error&) { return true; }
  bool on_key_part(boost::json::string_view, std::size_t, error&) { return true; }
  bool on_key(boost::json::string_view, std::size_t, error&) { return true; }
  bool on_string_part(boost::json::string_view, std::size_t, error&) { return true; }
  bool on_string(boost::json::string_view, std::size_t, error&) { return true; }
  bool on_number_part(boost::json::string_view, error&) { return true; }
  bool on_int64(std::int64_t, boost::json::string_view, error&) { return true; }
  bool on_uint64(std::uint64_t, boost::json::string_view, error&) { return true; }
  bool on_double(double, boost::json::string_view, error&) { return true; }
  bool on_bool(bool, error&) { return true; }
  bool on_null(error&) { return true; }
  bool on_comment_part(boost::json::string_view, error&) { return true; }
  bool on_comment(boost::json::string_view, error&) { return true; }
};

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The end of the token that starts at `at`: a string with its quotes, a bracket or sign, or a run of other characters.
std::size_t token_end(std::string_view text, std::size_t at) noexcept {
  if (text[at] == '"') {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }
  constexpr std::string_view signs = "{}[],:";
  if (signs.contains(text[at])) return at + 1;
  std::size_t end = at;
  while (end < text.size() && !is_space(text[end]) && !signs.contains(text[end]) && text[end] != '"') ++end;
  return end;
}

template <class F>
void each_token(std::string_view text, F&& f) {
  for (std::size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = token_end(text, at);
    f(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

std::optional<std::string> fault_in_json(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = deepest;
  boost::json::basic_parser<heedless> parser(options);
  boost::system::error_code failure;
  std::size_t read = parser.write_some(false, text.data(), text.size(), failure);
  if (!failure && read < text.size()) failure = boost::json::error::extra_data;
  if (!failure) return std::nullopt;
  read = std::min(read, text.size());
  const std::string_view before = text.substr(0, read);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t column = read - (before.rfind('\n') + 1) + 1;
  const std::string_view near = text.substr(read, 20);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "it is empty";
  if (near.empty()) return fmt::format("{} at its end", failure.message());
  return fmt::format("{} at line {}, column {}, near '{}'", failure.message(), line, column, printable(near));
}

std::string compact_json(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  each_token(text, [&](std::string_view token) { result += token; });
  return result;
}

std::string indented_json(std::string_view text) {
  std::string result;
  std::size_t depth = 0;
  const auto new_line = [&] { result.append("\n").append(depth * 2, ' '); };
  // A bracket that closes at once stays on its line.
  bool just_opened = false;
  each_token(text, [&](std::string_view token) {
    const char first = token[0];
    if (first == '}' || first == ']') {
      --depth;
      if (!just_opened) new_line();
    } else if (just_opened) {
      new_line();
    }
    just_opened = first == '{' || first == '[';
    result += token;
    if (just_opened) ++depth;
    if (first == ',') new_line();
    if (first == ':') result += ' ';
  });
  return result;
}

document& document::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  comma_ = false;
  return *this;
}

document& document::value(std::string_view text) {
  separate();
  quote(text);
  comma_ = true;
  return *this;
}

document& document::value(bool truth) { return raw(truth ? "true" : "false"); }

document& document::value(double number) { return raw(fmt::format("{}", number)); }

document& document::value(wall_time time) { return value(std::string_view(format_time(time))); }

document& document::raw(std::string_view json) {
  separate();
  text_ += json;
  comma_ = true;
  return *this;
}

document& document::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

document& document::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

void document::separate() {
  if (comma_) text_ += ',';
}

void document::quote(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<std::uint8_t>(text[0]);
    if (length == 0) {
      text_ += "\uFFFD";
    } else if (byte == '"' || byte == '\\') {
      text_.append(1, '\\').append(1, text[0]);
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(text_), "\\u{:04x}", byte);
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  text_ += '"';
}

}  // namespace ergon::cli
