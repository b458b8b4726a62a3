// Reading a reply's tape, and words for what is on it. Not thread-safe, but reading changes nothing.
#include <ergon/redis/reply.hpp>

#include <bit>
#include <charconv>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "redis/buffer.hpp"
#include "redis/number.hpp"

namespace ergon::redis {
namespace {

// What an error text can take in from a reply.
constexpr std::size_t longest_description = 100;

std::string_view name_of(reply_type type) noexcept {
  switch (type) {
    case reply_type::null:
      return "null";
    case reply_type::simple:
      return "simple string";
    case reply_type::error:
      return "error";
    case reply_type::integer:
      return "integer";
    case reply_type::bulk:
      return "bulk string";
    case reply_type::array:
      return "array";
    case reply_type::real:
      return "real";
    case reply_type::boolean:
      return "boolean";
    case reply_type::big_number:
      return "big number";
    case reply_type::verbatim:
      return "verbatim string";
    case reply_type::map:
      return "map";
    case reply_type::set:
      return "set";
    case reply_type::push:
      return "push";
  }
  return "nothing known";
}

// Escapes make a text up to four times as long.
std::string quoted_within(std::string_view text, std::size_t room) {
  for (std::size_t max : {std::size_t{64}, std::size_t{40}, std::size_t{24}}) {
    std::string out = quoted(text, max);
    if (out.size() <= room) return out;
  }
  return quoted(text, 12);
}

// What a value says if one knows its type.
std::string content_of(const value& of, std::size_t room) {
  switch (of.type()) {
    case reply_type::null:
      return "null";
    case reply_type::integer:
      return std::to_string(of.integer());
    case reply_type::real: {
      char text[32];
      auto const [end, error] = std::to_chars(text, text + sizeof text, of.real());
      return {text, error == std::errc{} ? end : text};
    }
    case reply_type::boolean:
      return of.boolean() ? "true" : "false";
    case reply_type::big_number:
      return of.text().size() <= 24 ? std::string{of.text()} : std::string{of.text().substr(0, 24)} + "…";
    case reply_type::simple:
    case reply_type::error:
    case reply_type::bulk:
    case reply_type::verbatim:
      return quoted_within(of.text(), room);
    case reply_type::array:
    case reply_type::map:
    case reply_type::set:
    case reply_type::push:
      break;
  }
  std::size_t const count = of.type() == reply_type::map ? of.size() / 2 : of.size();
  return std::string{name_of(of.type())} + " of " + std::to_string(count) + (of.type() == reply_type::map ? " pairs" : "");
}

}  // namespace

void value::refuse(std::string_view wanted) const {
  throw ergon::error{errc::bad_reply,
                     "the reply is not what the command has: wanted " + std::string{wanted} + ", got " + describe()};
}

std::string_view value::format() const {
  if (type() != reply_type::verbatim) refuse("a verbatim string");
  // It stands before the text, with a colon between them.
  return {whole_->texts_.data() + whole_->nodes_[at_].bits - 4, 3};
}

std::int64_t value::integer() const {
  if (type() == reply_type::integer) return static_cast<std::int64_t>(whole_->nodes_[at_].bits);
  std::int64_t number = 0;
  if (is_error() || !is_text() || !detail::parse_integer(text(), number)) refuse("an integer");
  return number;
}

double value::real() const {
  if (type() == reply_type::real) return std::bit_cast<double>(whole_->nodes_[at_].bits);
  if (type() == reply_type::integer) return static_cast<double>(integer());
  double number = 0;
  if (is_error() || !is_text() || !detail::parse_real(text(), number)) refuse("a real number");
  return number;
}

bool value::boolean() const {
  std::uint64_t const bits = whole_->nodes_[at_].bits;
  if ((type() != reply_type::boolean && type() != reply_type::integer) || bits > 1) refuse("a boolean");
  return bits == 1;
}

value value::operator[](std::size_t index) const {
  std::size_t const count = size();
  if (index >= count) refuse("a child number " + std::to_string(index) + ", counted from 0");
  // Without grandchildren every child is one node.
  if (past() - at_ == count + 1) return {whole_, at_ + 1 + index};
  value child{whole_, at_ + 1};
  for (; index > 0; --index) child.at_ = child.past();
  return child;
}

std::optional<value> value::find(std::string_view key) const {
  bool const pairs = type() == reply_type::map || (type() == reply_type::array && size() % 2 == 0);
  if (!pairs) refuse("a map, or an array of keys and values in turn");
  std::size_t const end_of_all = past();
  for (value child{whole_, at_ + 1}; child.at_ < end_of_all;) {
    value const follows{whole_, child.past()};
    if (child.is_text() && child.text() == key) return follows;
    child.at_ = follows.past();
  }
  return std::nullopt;
}

std::string value::describe() const {
  reply_type const is = type();
  if (!is_aggregate()) {
    std::string out{name_of(is)};
    return is == reply_type::null ? out : out + " " + content_of(*this, longest_description - out.size() - 1);
  }
  std::string out = content_of(*this, longest_description);
  std::size_t shown = 0;
  for (value const child : *this) {
    std::string const before = shown == 0 || (is == reply_type::map && shown % 2 == 1) ? ": " : ", ";
    std::string const piece = content_of(child, 24);
    // Room for ", …" after it.
    if (shown == 8 || out.size() + before.size() + piece.size() + 5 > longest_description) {
      return out + before + "…";
    }
    out += before;
    out += piece;
    ++shown;
  }
  return out;
}

value reply::root() const {
  if (nodes_.empty()) throw error{errc::invalid_argument, "the reply is empty: no parser has filled it"};
  return {this, 0};
}

void reply::clear(std::size_t keep_bytes) noexcept {
  empty_for_reuse(nodes_, keep_bytes);
  empty_for_reuse(texts_, keep_bytes);
}

}  // namespace ergon::redis
