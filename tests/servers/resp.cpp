#include "servers/resp.hpp"

#include <charconv>
#include <cstdio>

#include <ergon/base/error.hpp>

namespace ergon::test {
namespace {

/// Reads forward over bytes that may end too early. `short_of` is then true and everything that follows is nothing.
struct reader {
  std::string_view bytes;
  std::size_t at = 0;
  bool short_of = false;

  char kind() { return at < bytes.size() ? bytes[at++] : (short_of = true, '\0'); }
  std::string_view line() {
    std::size_t const end = bytes.find("\r\n", at);
    if (short_of || end == std::string_view::npos) {
      short_of = true;
      return {};
    }
    std::string_view const found = bytes.substr(at, end - at);
    at = end + 2;
    return found;
  }
  long long number() {
    std::string_view const digits = line();
    long long value = 0;
    auto const [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (!short_of && (failure != std::errc{} || end != digits.data() + digits.size())) malformed("a number");
    return value;
  }
  std::string bulk(long long size) {
    if (short_of || bytes.size() - at < static_cast<std::size_t>(size) + 2) {
      short_of = true;
      return {};
    }
    std::string found{bytes.substr(at, static_cast<std::size_t>(size))};
    at += found.size();
    if (bytes.substr(at, 2) != "\r\n") malformed("the end of a string");
    at += 2;
    return found;
  }
  [[noreturn]] void malformed(const char* expected) const {
    throw error(errc::bad_payload, std::string{"the test kit: at byte "} + std::to_string(at) + " of " + printable(bytes) +
                                       ": expected " + expected);
  }
};

reply read_reply(reader& from) {
  switch (from.kind()) {
    case '+':
      return {.what = reply::kind::text, .text = std::string{from.line()}};
    case '-':
      return {.what = reply::kind::error, .text = std::string{from.line()}};
    case ':':
      return {.what = reply::kind::integer, .text = std::to_string(from.number())};
    case '$': {
      long long const size = from.number();
      if (size < 0) return {};
      return {.what = reply::kind::text, .text = from.bulk(size)};
    }
    case '*': {
      long long const size = from.number();
      if (size < 0) return {};
      reply all{.what = reply::kind::array};
      for (long long i = 0; i < size && !from.short_of; ++i) all.elements.push_back(read_reply(from));
      return all;
    }
    default:
      if (!from.short_of) from.malformed("an answer of RESP2");
      return {};
  }
}

command_words read_command(reader& from) {
  command_words words;
  if (from.kind() != '*' && !from.short_of) from.malformed("a command as an array of bulk strings");
  long long const size = from.number();
  for (long long i = 0; i < size && !from.short_of; ++i) {
    if (from.kind() != '$' && !from.short_of) from.malformed("a bulk string");
    long long const length = from.number();
    if (length < 0) from.malformed("a bulk string");
    words.push_back(from.bulk(length));
  }
  return words;
}

template <class Read>
auto take(std::string& bytes, Read read) -> std::optional<decltype(read(std::declval<reader&>()))> {
  reader from{.bytes = bytes};
  auto found = read(from);
  if (from.short_of) return std::nullopt;
  bytes.erase(0, from.at);
  return found;
}

}  // namespace

long long reply::integer() const {
  if (what != kind::integer) throw error(errc::wrong_state, "the test kit: the answer is no integer: " + to_string());
  return std::stoll(text);
}

std::string reply::to_string() const {
  switch (what) {
    case kind::text:
      return "\"" + printable(text) + "\"";
    case kind::integer:
      return text;
    case kind::nil:
      return "nil";
    case kind::error:
      return "error: " + text;
    case kind::array:
      break;
  }
  std::string all = "[";
  for (const reply& each : elements) all += (all.size() > 1 ? ", " : "") + each.to_string();
  return all + "]";
}

std::string encode(const command_words& command) {
  std::string bytes = "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& word : command) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

std::string to_text(const command_words& command) {
  std::string all;
  for (const std::string& word : command) {
    bool const plain = !word.empty() && word.find_first_of(" \"") == std::string::npos;
    std::string const shown = printable(word);
    all += (all.empty() ? "" : " ") + (plain ? shown : "\"" + shown + "\"");
  }
  return all;
}

std::string printable(std::string_view bytes) {
  std::string shown;
  for (char const c : bytes.substr(0, 200)) {
    auto const code = static_cast<unsigned char>(c);
    if (c == '\r') {
      shown += "\\r";
    } else if (c == '\n') {
      shown += "\\n";
    } else if (code < 0x20 || code > 0x7e) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", code);
      shown += escaped;
    } else {
      shown += c;
    }
  }
  return bytes.size() > 200 ? shown + "…" : shown;
}

std::optional<reply> take_reply(std::string& bytes) { return take(bytes, read_reply); }
std::optional<command_words> take_command(std::string& bytes) { return take(bytes, read_command); }

}  // namespace ergon::test
