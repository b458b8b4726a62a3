// A plain recursive-descent check of JSON that remembers where it is. The depth limit bounds the recursion.
#include "codec/json_diagnosis.hpp"

#include <fmt/format.h>

#include <ergon/base/text.hpp>
#include <ergon/codec/json_reader.hpp>

namespace ergon {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class checker {
 public:
  explicit checker(std::string_view bytes) : bytes_(bytes) {}

  std::optional<json_problem> check() {
    try {
      space();
      if (at_ == bytes_.size()) stop("there is no value: it is empty");
      value();
      space();
      path_.clear();
      if (at_ != bytes_.size()) stop(fmt::format("{} follows the value", shown()));
      return std::nullopt;
    } catch (json_problem& problem) {
      return std::move(problem);
    }
  }

 private:
  [[noreturn]] void stop(std::string why) const { throw json_problem{at_, path_, std::move(why)}; }

  // What stands here, short.
  [[nodiscard]] std::string shown() const {
    if (at_ >= bytes_.size()) return "the end";
    return quoted(bytes_.substr(at_, 17), 16);
  }

  void space() {
    while (at_ < bytes_.size() && (bytes_[at_] == ' ' || bytes_[at_] == '\t' || bytes_[at_] == '\n' || bytes_[at_] == '\r'))
      ++at_;
  }

  [[nodiscard]] bool here(char c) const { return at_ < bytes_.size() && bytes_[at_] == c; }

  void value() {
    space();
    if (at_ == bytes_.size()) stop("expected a value, got the end");
    switch (bytes_[at_]) {
      case '{':
        object();
        return;
      case '[':
        array();
        return;
      case '"':
        static_cast<void>(text());
        return;
      case 't':
        word("true");
        return;
      case 'f':
        word("false");
        return;
      case 'n':
        word("null");
        return;
      default:
        number();
        return;
    }
  }

  // A scalar ends where white space or punctuation begins.
  [[nodiscard]] std::string_view token() const { return bytes_.substr(at_, bytes_.find_first_of(" \t\r\n,:[]{}\"", at_) - at_); }

  void word(std::string_view right) {
    if (token() != right) stop(fmt::format("expected a value, got {}", shown()));
    at_ += right.size();
  }

  void number() {
    bool whole = false;
    const std::string_view found = token();
    if (!is_json_number(found, whole)) {
      const bool like_number = !found.empty() && (found[0] == '-' || found[0] == '+' || found[0] == '.' || is_digit(found[0]));
      stop(like_number ? fmt::format("{} is not a number as JSON writes it", quoted(found, 32))
                       : fmt::format("expected a value, got {}", shown()));
    }
    at_ += found.size();
  }

  // Returns the raw text between the quotes.
  std::string_view text() {
    const std::size_t start = ++at_;
    while (true) {
      if (at_ >= bytes_.size()) stop("a string is not closed");
      const char c = bytes_[at_];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) {
        stop(fmt::format("control byte 0x{:02x} in a string: it must be escaped", static_cast<unsigned char>(c)));
      }
      if (c == '\\') {
        escape();
      } else if (static_cast<unsigned char>(c) < 0x80) {
        ++at_;
      } else {
        const auto first = static_cast<unsigned char>(c);
        const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
        if (!is_utf8(bytes_.substr(at_, length))) stop(fmt::format("byte 0x{:02x} is not UTF-8", first));
        at_ += length;
      }
    }
    const std::string_view raw = bytes_.substr(start, at_ - start);
    ++at_;
    return raw;
  }

  void escape() {
    const std::size_t start = at_;
    const auto wrong = [&](std::string_view why) {
      at_ = start;
      stop(fmt::format("{}: {}", quoted(bytes_.substr(start, 12), 12), why));
    };
    ++at_;
    const char c = at_ < bytes_.size() ? bytes_[at_] : '\0';
    if (std::string_view{"\"\\/bfnrt"}.find(c) != std::string_view::npos && c != '\0') {
      ++at_;
      return;
    }
    if (c != 'u') wrong("no such escape in JSON");
    const int first = unit();
    if (first < 0) wrong("\\u needs four hexadecimal digits");
    if (first >= 0xDC00 && first <= 0xDFFF) wrong("half of a surrogate pair");
    if (first < 0xD800 || first > 0xDBFF) return;
    if (!here('\\')) wrong("half of a surrogate pair");
    ++at_;
    const int second = here('u') ? unit() : -1;
    if (second < 0xDC00 || second > 0xDFFF) wrong("half of a surrogate pair");
  }

  // Stands on the u; takes it and four digits.
  int unit() {
    int value = 0;
    for (int i = 1; i <= 4; ++i) {
      const char c = at_ + static_cast<std::size_t>(i) < bytes_.size() ? bytes_[at_ + static_cast<std::size_t>(i)] : '\0';
      int digit = 0;
      if (is_digit(c)) {
        digit = c - '0';
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else {
        return -1;
      }
      value = value * 16 + digit;
    }
    at_ += 5;
    return value;
  }

  void enter() {
    if (++depth_ > max_json_depth) stop(fmt::format("more than {} levels of nesting", max_json_depth));
    ++at_;
    space();
  }

  void leave() {
    ++at_;
    --depth_;
  }

  void object() {
    enter();
    if (here('}')) return leave();
    const std::size_t above = path_.size();
    while (true) {
      space();
      if (!here('"')) stop(fmt::format("expected a field's name in quotes, got {}", shown()));
      const std::string_view name = text();
      append_path_field(path_, name);
      space();
      if (!here(':')) stop(fmt::format("expected ':', got {}", shown()));
      ++at_;
      value();
      space();
      path_.resize(above);
      if (here('}')) return leave();
      if (!here(',')) stop(fmt::format("expected ',' or '}}', got {}", shown()));
      ++at_;
    }
  }

  void array() {
    enter();
    if (here(']')) return leave();
    const std::size_t above = path_.size();
    for (std::size_t i = 0;; ++i) {
      append_path_element(path_, i);
      value();
      space();
      path_.resize(above);
      if (here(']')) return leave();
      if (!here(',')) stop(fmt::format("expected ',' or ']', got {}", shown()));
      ++at_;
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::string path_;
};

}  // namespace

std::optional<json_problem> diagnose_json(std::string_view bytes) { return checker{bytes}.check(); }

bool is_json_number(std::string_view token, bool& whole) noexcept {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < token.size() && is_digit(token[at])) ++at;
    return at != start;
  };
  whole = true;
  if (at < token.size() && token[at] == '-') ++at;
  if (at < token.size() && token[at] == '0') {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (at < token.size() && token[at] == '.') {
    whole = false;
    ++at;
    if (!digits()) return false;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    whole = false;
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == token.size();
}

void append_path_field(std::string& path, std::string_view name) {
  bool plain = !name.empty() && name.size() <= 64;
  for (char c : name) plain = plain && is_name_byte(c) && c != '.' && c != ':' && c != '/';
  if (plain) {
    path += '.';
    path += name;
  } else {
    path += '[';
    path += quoted(name);
    path += ']';
  }
}

void append_path_element(std::string& path, std::size_t element) { path += fmt::format("[{}]", element); }

}  // namespace ergon
