// The parser's machine. It is at the begin of a line, within a line (`line_` holds what has come) or within a bulk (`bulk_left_`). A line
// that lies wholly in the input is read where it lies. Not thread-safe.
#include <ergon/redis/reply_parser.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "redis/number.hpp"

namespace ergon::redis {
namespace {

constexpr std::string_view types = "+-:$*_#,(!=%~>|";
constexpr std::size_t end_of_line = 2;
// Nodes hold lengths and counts in 32 bits.
constexpr std::size_t longest = std::numeric_limits<std::uint32_t>::max();
// What a length may have of digits without running over 64 bits, whatever they are.
constexpr std::ptrdiff_t safe_digits = 18;

bool has_length(char type) noexcept {
  return type == '$' || type == '*' || type == '%' || type == '~' || type == '>' || type == '=' || type == '!' || type == '|';
}

}  // namespace

reply_parser::reply_parser(const reply_limits& limits) : limits_(limits) {
  limits_.text = std::min(limits_.text, longest);
  limits_.elements = std::min(limits_.elements, longest);
  limits_.line = std::clamp(limits_.line, std::size_t{64}, longest);
}

void reply_parser::reset() noexcept {
  frames_.clear();
  line_.clear();
  broken_.clear();
  offset_ = 0;
  in_bulk_ = false;
  whole_ = false;
  midway_ = false;
}

void reply_parser::fail(std::uint64_t at, std::string_view wrong, std::string_view there) {
  std::string text = "no valid reply at byte " + std::to_string(at) + " of the connection: ";
  text += wrong;
  if (!there.empty()) {
    text += "; there stands ";
    text += quoted(there, 32);
  }
  broken_ = std::move(text);
  throw error{errc::bad_reply, broken_};
}

std::size_t reply_parser::feed(std::span<const char> bytes, reply& into) {
  if (broken()) throw error{errc::bad_reply, broken_};
  if (bytes.empty()) return 0;
  if (midway_) {
    if (into.nodes_.size() != nodes_before_ || into.texts_.size() != texts_before_) {
      throw error{errc::invalid_argument, "a reply that is not whole goes on in the reply that it began in, untouched"};
    }
  } else {
    if (!into.empty() || !into.texts_.empty()) {
      throw error{errc::invalid_argument, "a reply begins, and the one given still holds another: clear it before"};
    }
    began_ = offset_;
    attribute_elements_ = 0;
    attribute_bytes_ = 0;
    attributes_open_ = 0;
    whole_ = false;
    midway_ = true;
  }
  std::size_t taken = 0;
  try {
    taken = run(bytes, into);
  } catch (const std::bad_alloc&) {
    // Half of a step is done: the place in the stream is lost.
    broken_ = "no memory for the reply";
    throw;
  }
  offset_ += taken;
  nodes_before_ = into.nodes_.size();
  texts_before_ = into.texts_.size();
  return taken;
}

std::size_t reply_parser::run(std::span<const char> bytes, reply& into) {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const char* at = begin;
  while (at != end) {
    step done = step::more;
    if (in_bulk_) {
      at = take_payload(at, end, into);
      if (bulk_left_ != 0) break;
      done = end_bulk(into);
    } else {
      auto const here = offset_ + static_cast<std::uint64_t>(at - begin);
      if (line_.empty()) {
        char const type = *at;
        // Most lines are a short length that lies wholly here: one pass over its digits.
        if (type == '$' || type == '*') {
          const char* digit = at + 1;
          const char* const stop = end - digit > safe_digits ? digit + safe_digits : end;
          std::uint64_t length = 0;
          while (digit != stop && detail::is_digit(*digit)) {
            length = length * 10 + static_cast<std::uint64_t>(*digit - '0');
            ++digit;
          }
          if (digit != at + 1 && end - digit >= 2 && digit[0] == '\r' && digit[1] == '\n') {
            std::string_view const line{at, digit};
            at = digit + end_of_line;
            done = type == '$' ? begin_bulk(reply_type::bulk, line, length, here, into)
                               : begin_aggregate(reply_type::array, line, length, here, into);
            if (done == step::whole) break;
            continue;
          }
        } else if (types.find(type) == std::string_view::npos) {
          fail(here, "no reply begins so", {at, 1});
        }
      }
      // A line that is one byte over the limit is over it, whether or not its end is in sight.
      std::size_t const room = limits_.line + end_of_line - line_.size();
      auto const left = std::min(static_cast<std::size_t>(end - at), room);
      const auto* const feed = static_cast<const char*>(std::memchr(at, '\n', left));
      if (feed == nullptr) {
        std::uint64_t const began = here - line_.size();
        line_.append(at, left);
        if (left == room) {
          fail(began, "a line of more than " + std::to_string(limits_.line) + " bytes", line_);
        }
        at = end;
        break;
      }
      if (line_.empty()) {
        std::string_view const line{at, feed};
        at = feed + 1;
        done = take_line(line, here, into);
      } else {
        std::uint64_t const began = here - line_.size();
        line_.append(at, feed);
        at = feed + 1;
        done = take_line(line_, began, into);
        line_.clear();
      }
    }
    if (done == step::whole) break;
  }
  return static_cast<std::size_t>(at - begin);
}

// `line` ends before the line feed and begins at byte `at` of the stream.
reply_parser::step reply_parser::take_line(std::string_view line, std::uint64_t at, reply& into) {
  if (line.size() < 2 || line.back() != '\r') fail(at, "a line that ends without a carriage return", line);
  line.remove_suffix(1);
  char const type = line.front();
  std::string_view const rest = line.substr(1);
  if (has_length(type)) {
    if (rest == "?") fail(at, "a streamed string or aggregate, which Redis never sends and this client does not read", line);
    if (rest == "-1" && (type == '$' || type == '*')) {
      check_room(line.size(), 0, at);
      return put({}, at, into);
    }
    switch (type) {
      case '$':
        return begin_bulk(reply_type::bulk, line, length_in(line, at, "a text's length"), at, into);
      case '=':
        return begin_bulk(reply_type::verbatim, line, length_in(line, at, "a text's length"), at, into);
      case '!':
        return begin_bulk(reply_type::error, line, length_in(line, at, "a text's length"), at, into);
      case '*':
        return begin_aggregate(reply_type::array, line, length_in(line, at, "an array's size"), at, into);
      case '~':
        return begin_aggregate(reply_type::set, line, length_in(line, at, "a set's size"), at, into);
      case '>':
        return begin_aggregate(reply_type::push, line, length_in(line, at, "a push's size"), at, into);
      case '%':
        return begin_aggregate(reply_type::map, line, length_in(line, at, "a map's size"), at, into);
      default:
        return begin_attribute(line, length_in(line, at, "an attribute's size"), at, into);
    }
  }
  check_room(line.size(), 0, at);
  switch (type) {
    case '+':
      return take_text_line(reply_type::simple, line, at, into);
    case '-':
      return take_text_line(reply_type::error, line, at, into);
    case '(':
      if (!detail::is_integer_text(rest)) fail(at, "a big number is a sign and digits", line);
      return take_text_line(reply_type::big_number, line, at, into);
    case ':': {
      std::int64_t number = 0;
      if (!detail::parse_integer(rest, number)) fail(at, "an integer is a sign and digits, within 64 bits", line);
      return put({reply_type::integer, 0, static_cast<std::uint64_t>(number)}, at, into);
    }
    case ',': {
      double number = 0;
      if (!detail::parse_real(rest, number)) fail(at, "a real is digits with a fraction and an exponent, inf, -inf or nan", line);
      return put({reply_type::real, 0, std::bit_cast<std::uint64_t>(number)}, at, into);
    }
    case '#':
      if (rest != "t" && rest != "f") fail(at, "a boolean is t or f", line);
      return put({reply_type::boolean, 0, rest == "t" ? 1U : 0U}, at, into);
    default:
      if (!rest.empty()) fail(at, "null has nothing after its sign", line);
      return put({}, at, into);
  }
}

reply_parser::step reply_parser::take_text_line(reply_type type, std::string_view line, std::uint64_t at, reply& into) {
  std::string_view const text = line.substr(1);
  if (text.find('\r') != std::string_view::npos) fail(at, "a carriage return within a line", line);
  std::size_t const texts = into.texts_.size();
  into.texts_.append(text);
  return put({type, static_cast<std::uint32_t>(text.size()), texts}, at, into);
}

std::uint64_t reply_parser::length_in(std::string_view line, std::uint64_t at, std::string_view what) {
  std::string_view const digits = line.substr(1);
  if (digits.empty() || detail::leading_digits(digits) != digits.size()) {
    fail(at, std::string{what} + " is digits and nothing else", line);
  }
  std::uint64_t length = 0;
  for (char const c : digits) {
    // Far above every limit; more digits do not make it smaller again.
    if (length > std::uint64_t{1} << 58U) break;
    length = length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return length;
}

// Counts a line without its end, and a payload that is announced, against the limits of bytes.
void reply_parser::check_room(std::size_t line_size, std::uint64_t payload, std::uint64_t at) {
  std::uint64_t const size = line_size + end_of_line + payload;
  if (at - began_ + size > limits_.total) {
    fail(at, "a reply of more than " + std::to_string(limits_.total) + " bytes", {});
  }
  if (attributes_open_ != 0) {
    attribute_bytes_ += size;
    if (attribute_bytes_ > limits_.attribute_bytes) {
      fail(at, "attributes of more than " + std::to_string(limits_.attribute_bytes) + " bytes", {});
    }
  }
}

reply_parser::step reply_parser::begin_bulk(reply_type type, std::string_view line, std::uint64_t length, std::uint64_t at,
                                            reply& into) {
  if (length > limits_.text) fail(at, "a text of more than " + std::to_string(limits_.text) + " bytes", line);
  if (type == reply_type::verbatim && length < 4) fail(at, "a verbatim string begins with three letters and a colon", line);
  check_room(line.size(), length + end_of_line, at);
  in_bulk_ = true;
  bulk_type_ = type;
  bulk_at_ = at + line.size() + end_of_line;
  bulk_left_ = length + end_of_line;
  bulk_texts_ = into.texts_.size();
  return step::more;
}

// Appends what has come of the payload; of its end, which is not kept, each byte is checked as it comes.
const char* reply_parser::take_payload(const char* from, const char* end, reply& into) {
  if (bulk_left_ > end_of_line) {
    auto const count =
        static_cast<std::size_t>(std::min<std::uint64_t>(bulk_left_ - end_of_line, static_cast<std::uint64_t>(end - from)));
    into.texts_.append(from, count);
    from += count;
    bulk_left_ -= count;
  }
  while (from != end && bulk_left_ != 0) {
    if (*from != (bulk_left_ == 2 ? '\r' : '\n')) {
      std::size_t const length = into.texts_.size() - bulk_texts_;
      fail(bulk_at_ + length + (end_of_line - bulk_left_),
           "a text of " + std::to_string(length) + " bytes that goes on after its end", {from, 1});
    }
    ++from;
    --bulk_left_;
  }
  return from;
}

reply_parser::step reply_parser::end_bulk(reply& into) {
  in_bulk_ = false;
  std::size_t texts = bulk_texts_;
  if (bulk_type_ == reply_type::verbatim) {
    std::string_view const text = std::string_view{into.texts_}.substr(texts);
    if (text[3] != ':') fail(bulk_at_, "a verbatim string begins with three letters and a colon", text);
    texts += 4;
  }
  return put({bulk_type_, static_cast<std::uint32_t>(into.texts_.size() - texts), texts}, bulk_at_, into);
}

reply_parser::step reply_parser::begin_aggregate(reply_type type, std::string_view line, std::uint64_t count, std::uint64_t at,
                                                 reply& into) {
  if (type == reply_type::push && !frames_.empty()) fail(at, "a push within another reply", line);
  if (type == reply_type::map) count *= 2;
  if (count > limits_.elements) fail(at, "a reply of more than " + std::to_string(limits_.elements) + " values", line);
  if (frames_.size() >= limits_.depth) fail(at, "a reply that is deeper than " + std::to_string(limits_.depth), line);
  check_room(line.size(), 0, at);
  std::size_t const node = into.nodes_.size();
  if (count == 0) return put({type, 0, 1}, at, into);
  frames_.push_back({.left = static_cast<std::size_t>(count), .node = node, .texts = 0, .attribute = false});
  // Its own frame is the innermost by now, and it is no child of itself.
  ++frames_.back().left;
  return put({type, static_cast<std::uint32_t>(count), 1}, at, into);
}

reply_parser::step reply_parser::begin_attribute(std::string_view line, std::uint64_t pairs, std::uint64_t at, reply& into) {
  if (pairs > limits_.attribute_elements / 2) {
    fail(at, "attributes of more than " + std::to_string(limits_.attribute_elements) + " values", line);
  }
  if (frames_.size() >= limits_.depth) fail(at, "a reply that is deeper than " + std::to_string(limits_.depth), line);
  ++attributes_open_;
  check_room(line.size(), 0, at);
  if (pairs == 0) {
    --attributes_open_;
    return step::more;
  }
  frames_.push_back(
      {.left = static_cast<std::size_t>(pairs) * 2, .node = into.nodes_.size(), .texts = into.texts_.size(), .attribute = true});
  return step::more;
}

reply_parser::step reply_parser::put(reply::node value, std::uint64_t at, reply& into) {
  if (into.nodes_.size() >= limits_.elements) {
    fail(at, "a reply of more than " + std::to_string(limits_.elements) + " values", {});
  }
  if (attributes_open_ != 0 && ++attribute_elements_ > limits_.attribute_elements) {
    fail(at, "attributes of more than " + std::to_string(limits_.attribute_elements) + " values", {});
  }
  into.nodes_.push_back(value);
  return end_value(into);
}

// A value is there: so may be those that it was the last child of.
reply_parser::step reply_parser::end_value(reply& into) {
  while (!frames_.empty()) {
    frame& innermost = frames_.back();
    if (--innermost.left != 0) return step::more;
    if (innermost.attribute) {
      // Dropped; the value that it speaks of comes next and takes its place.
      into.nodes_.resize(innermost.node);
      into.texts_.resize(innermost.texts);
      --attributes_open_;
      frames_.pop_back();
      return step::more;
    }
    into.nodes_[innermost.node].bits = into.nodes_.size() - innermost.node;
    frames_.pop_back();
  }
  whole_ = true;
  midway_ = false;
  return step::whole;
}

}  // namespace ergon::redis
