// The cursor over simdjson's On Demand parser.
//
// The text is copied between two brackets, `[` text `]`: simdjson wants padding behind it anyway, and so a root that is a scalar
// is a value like any other, and what follows it is a second element or a lost bracket. Frame 0 is that array, frame d holds
// the iterator of the object or array at depth d.
//
// simdjson checks values only when they are looked at. So `skip` looks at everything, and the same text is JSON or not whichever
// fields a type has. When simdjson refuses something, the text is diagnosed again from its start for the path and the reason.
#include <ergon/codec/json_reader.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "codec/json_diagnosis.hpp"

namespace ergon {
namespace {

namespace ondemand = simdjson::ondemand;

// A parser needs several times the size of its text; what is larger than this is not kept for the next reader.
constexpr std::size_t largest_kept = std::size_t{1} << 20U;
constexpr std::size_t smallest_made = 1024;

struct frame {
  enum class kind : std::uint8_t { array, object };
  kind what = kind::array;
  bool started = false;
  std::size_t element = 0;
  std::string_view field;
  ondemand::array_iterator elements;
  ondemand::object_iterator fields;
};

std::string_view trimmed(std::string_view token) {
  const std::size_t last = token.find_last_not_of(" \t\r\n");
  return token.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

struct json_reader::state {
  ondemand::parser parser;
  std::unique_ptr<char[]> buffer;
  std::size_t buffer_size = 0;
  ondemand::document document;
  ondemand::value current;
  std::array<frame, max_json_depth + 1> frames;
  // Index of the innermost open frame.
  std::size_t depth = 0;

  static std::unique_ptr<state>& kept() {
    thread_local std::unique_ptr<state> instance;
    return instance;
  }
};

json_reader::json_reader(std::string_view bytes, std::string_view name, json_options options)
    : state_(std::move(state::kept())), bytes_(bytes), name_(name), options_(options) {
  if (state_ == nullptr) state_ = std::make_unique<state>();
  state& s = *state_;
  // simdjson's offsets have 32 bits.
  if (bytes.size() >= 0xFFFF'0000U)
    throw error{errc::bad_payload, fmt::format("{}: {} bytes of JSON: below 4 GiB is right", name_, bytes.size())};
  const std::size_t size = bytes.size() + 2;
  if (s.buffer_size < size + simdjson::SIMDJSON_PADDING || s.parser.capacity() < size) {
    const std::size_t room = std::max(smallest_made, std::bit_ceil(size + simdjson::SIMDJSON_PADDING));
    s.buffer = std::make_unique_for_overwrite<char[]>(room);
    s.buffer_size = room;
    const std::size_t capacity = std::min<std::size_t>(room, 0xFFFF'FFFFU);
    if (s.parser.allocate(capacity) != simdjson::SUCCESS) throw std::bad_alloc{};
  }
  char* text = s.buffer.get();
  text[0] = '[';
  if (!bytes.empty()) std::memcpy(text + 1, bytes.data(), bytes.size());
  text[size - 1] = ']';
  std::memset(text + size, 0, simdjson::SIMDJSON_PADDING);
  s.depth = 0;
  if (const auto failed = s.parser.iterate(simdjson::padded_string_view{text, size, s.buffer_size}).get(s.document))
    fail_syntax(failed);
  ondemand::array root;
  if (const auto failed = s.document.get_array().get(root)) fail_syntax(failed);
  frame& first = s.frames[0];
  first.what = frame::kind::array;
  if (const auto failed = root.begin().get(first.elements)) fail_syntax(failed);
  if (!(first.elements != ondemand::array_iterator{})) fail_syntax(simdjson::EMPTY);
  if (const auto failed = (*first.elements).get(s.current)) fail_syntax(failed);
}

json_reader::~json_reader() {
  if (state_ != nullptr && state_->buffer_size <= largest_kept) state::kept() = std::move(state_);
}

json_reader::type json_reader::peek() {
  ondemand::json_type found{};
  if (const auto failed = state_->current.type().get(found)) fail_syntax(failed);
  switch (found) {
    case ondemand::json_type::array:
      return type::array;
    case ondemand::json_type::object:
      return type::object;
    case ondemand::json_type::number:
      return type::number;
    case ondemand::json_type::string:
      return type::text;
    case ondemand::json_type::boolean:
      return type::boolean;
    case ondemand::json_type::null:
      return type::null;
  }
  fail_syntax(simdjson::TAPE_ERROR);
}

bool json_reader::null() {
  bool is_null = false;
  if (const auto failed = state_->current.is_null().get(is_null)) fail_syntax(failed);
  return is_null;
}

bool json_reader::boolean() {
  bool value = false;
  if (state_->current.get_bool().get(value) != simdjson::SUCCESS) fail_expected("true or false");
  return value;
}

std::int64_t json_reader::integer(std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  if (state_->current.get_int64().get(value) != simdjson::SUCCESS || value < min || value > max) {
    fail_expected(fmt::format("an integer from {} to {}", min, max));
  }
  return value;
}

std::uint64_t json_reader::unsigned_integer(std::uint64_t max) {
  std::uint64_t value = 0;
  if (state_->current.get_uint64().get(value) != simdjson::SUCCESS || value > max)
    fail_expected(fmt::format("an integer from 0 to {}", max));
  return value;
}

double json_reader::real() {
  double value = 0;
  if (state_->current.get_double().get(value) != simdjson::SUCCESS || !std::isfinite(value))
    fail_expected("a number within the range of a double");
  return value;
}

float json_reader::real_float() {
  const double wide = real();
  const auto value = static_cast<float>(wide);
  if (!std::isfinite(value)) fail_expected("a number within the range of a float");
  return value;
}

std::string_view json_reader::text() {
  std::string_view value;
  if (state_->current.get_string().get(value) != simdjson::SUCCESS) fail_expected("a string");
  return value;
}

void json_reader::skip() {
  switch (peek()) {
    case type::null:
      if (!null()) fail_syntax(simdjson::N_ATOM_ERROR);
      break;
    case type::boolean:
      static_cast<void>(boolean());
      break;
    case type::number: {
      // A number of any size is fine where nobody wants to store it.
      bool whole = false;
      if (!is_json_number(trimmed(state_->current.raw_json_token()), whole)) fail_syntax(simdjson::NUMBER_ERROR);
      break;
    }
    case type::text:
      static_cast<void>(text());
      break;
    case type::array: {
      begin_array();
      while (next_element()) skip();
      break;
    }
    case type::object: {
      begin_object();
      std::string_view name;
      while (next_field(name)) skip();
      break;
    }
  }
}

void json_reader::begin_object() {
  state& s = *state_;
  ondemand::object object;
  if (s.current.get_object().get(object) != simdjson::SUCCESS) fail_expected("an object");
  if (s.depth == max_json_depth) fail(fmt::format("more than {} levels of nesting", max_json_depth));
  frame& inner = s.frames[++s.depth];
  inner.what = frame::kind::object;
  inner.started = false;
  inner.field = {};
  if (const auto failed = object.begin().get(inner.fields)) fail_syntax(failed);
}

bool json_reader::next_field(std::string_view& name) {
  state& s = *state_;
  frame& inner = s.frames[s.depth];
  if (inner.started) ++inner.fields;
  inner.started = true;
  if (!(inner.fields != ondemand::object_iterator{})) {
    --s.depth;
    return false;
  }
  ondemand::field field;
  if (const auto failed = (*inner.fields).get(field)) fail_syntax(failed);
  // Most names have no escape in them and can be used where they stand. Noughts follow the text, so the loop ends.
  const char* const raw = field.key().raw();
  std::size_t length = 0;
  while (raw[length] != '"' && raw[length] != '\\' && static_cast<unsigned char>(raw[length]) >= 0x20) ++length;
  if (raw[length] == '"') [[likely]] {
    name = {raw, length};
  } else if (const auto failed = field.unescaped_key().get(name)) {
    fail_syntax(failed);
  }
  inner.field = name;
  s.current = field.value();
  return true;
}

void json_reader::begin_array() {
  state& s = *state_;
  ondemand::array array;
  if (s.current.get_array().get(array) != simdjson::SUCCESS) fail_expected("an array");
  if (s.depth == max_json_depth) fail(fmt::format("more than {} levels of nesting", max_json_depth));
  frame& inner = s.frames[++s.depth];
  inner.what = frame::kind::array;
  inner.started = false;
  inner.element = 0;
  if (const auto failed = array.begin().get(inner.elements)) fail_syntax(failed);
}

bool json_reader::next_element() {
  state& s = *state_;
  frame& inner = s.frames[s.depth];
  if (inner.started) {
    ++inner.elements;
    ++inner.element;
  }
  inner.started = true;
  if (!(inner.elements != ondemand::array_iterator{})) {
    --s.depth;
    return false;
  }
  if (const auto failed = (*inner.elements).get(s.current)) fail_syntax(failed);
  return true;
}

void json_reader::finish() {
  state& s = *state_;
  frame& root = s.frames[0];
  ++root.elements;
  if (root.elements != ondemand::array_iterator{}) fail_syntax(simdjson::TRAILING_CONTENT);
  if (s.document.current_location().error() != simdjson::OUT_OF_BOUNDS) fail_syntax(simdjson::TRAILING_CONTENT);
}

std::string json_reader::path(std::size_t depth) const {
  std::string out{name_};
  for (std::size_t d = 1; d <= depth; ++d) {
    const frame& one = state_->frames[d];
    if (!one.started) break;
    if (one.what == frame::kind::object) {
      append_path_field(out, one.field);
    } else {
      append_path_element(out, one.element);
    }
  }
  return out;
}

void json_reader::fail(std::string_view why) const {
  throw error{errc::bad_payload, fmt::format("{}: {}", path(state_->depth), why)};
}

void json_reader::fail_expected(std::string_view what) {
  const std::string_view token = trimmed(state_->current.raw_json_token());
  switch (peek()) {
    case type::array:
      fail(fmt::format("expected {}, got an array", what));
    case type::object:
      fail(fmt::format("expected {}, got an object", what));
    case type::text:
      // A broken escape is no type error.
      if (token.size() < 2 || diagnose_json(token)) fail_syntax(simdjson::STRING_ERROR);
      fail(fmt::format("expected {}, got a string {}", what, quoted(token.substr(1, token.size() - 2))));
    case type::number:
    case type::boolean:
    case type::null:
      if (diagnose_json(token)) fail_syntax(simdjson::TAPE_ERROR);
      fail(fmt::format("expected {}, got {}", what,
                       token.size() > 64 ? fmt::format("{}…", token.substr(0, 64)) : std::string{token}));
  }
  fail_syntax(simdjson::TAPE_ERROR);
}

void json_reader::fail_unknown_field(std::span<const std::string_view> known) const {
  const std::string right = known.empty() ? "it has none" : fmt::format("known are {}", fmt::join(known, ", "));
  throw error{errc::bad_payload, fmt::format("{}: unknown field; {}", path(state_->depth), right)};
}

void json_reader::fail_missing_field(std::string_view name) const {
  throw error{errc::bad_payload, fmt::format("{}: the field {} is required and missing", path(state_->depth), quoted(name))};
}

void json_reader::fail_syntax(int reason) const {
  if (const auto problem = diagnose_json(bytes_)) {
    throw error{errc::bad_payload,
                fmt::format("{}{}: not valid JSON at byte {}: {}", name_, problem->path, problem->at, problem->why)};
  }
  const auto code = static_cast<simdjson::error_code>(reason);
  if (code == simdjson::MEMALLOC) throw std::bad_alloc{};
  throw error{errc::bad_payload, fmt::format("{}: not readable as JSON: {}", path(state_->depth), simdjson::error_message(code))};
}

}  // namespace ergon
