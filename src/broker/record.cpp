// The encoding: a format byte, then fields in ascending order of their number. A field is a varint `number << 2 | wire`, then its
// value: a varint, eight bytes (little endian), or a varint length and that many bytes. Because the order is fixed and a release only adds
// greater numbers, what this release does not know is one run of bytes at the end.
#include "broker/record.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <ergon/base/bytes.hpp>

#include "broker/job_id.hpp"
#include "broker/rules.hpp"

namespace ergon {

namespace {

enum class wire : std::uint8_t { varint = 0, fixed = 1, bytes = 2 };

/// Numbers are for ever: a field that goes leaves its number unused.
enum class field : std::uint8_t {
  kind = 1,
  payload = 2,
  custom_id = 3,
  unique_key = 4,
  headers = 5,
  errors = 6,
  serial = 7,
  enqueued_at = 8,
  failures = 9,
  losses = 10,
  marked_losses = 11,
  max_retries = 12,
  timeout = 13,
  deadline = 14,
  retention = 15,
  keep_result = 16,
  unique_for = 17,
  ending = 18,
  last_known = ending,
};

constexpr std::uint32_t default_retries = record{}.max_retries;
constexpr std::chrono::milliseconds default_timeout = record{}.timeout;
constexpr std::size_t max_failures = 10;

static_assert(std::endian::native == std::endian::little, "eight-byte values are stored as they lie in memory");

// Writes where there is room already. Every job is encoded once, so this is worth more than a `byte_writer`, which looks at its
// string's capacity for each piece.
class writer {
 public:
  explicit writer(char* at) noexcept : at_(at) {}

  void byte(std::uint8_t value) noexcept { *at_++ = static_cast<char>(value); }
  void varint(std::uint64_t value) noexcept {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void fixed(std::uint64_t value) noexcept {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  void raw(std::string_view bytes) noexcept {
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void sized(std::string_view bytes) noexcept {
    varint(bytes.size());
    raw(bytes);
  }

  void tag(field number, wire how) noexcept {
    varint(std::uint64_t{static_cast<std::uint8_t>(number)} << 2 | static_cast<std::uint8_t>(how));
  }
  void put(field number, std::string_view bytes) noexcept {
    if (bytes.empty()) return;
    tag(number, wire::bytes);
    sized(bytes);
  }
  void put(field number, std::uint64_t value, std::uint64_t absent) noexcept {
    if (value == absent) return;
    tag(number, wire::varint);
    varint(value);
  }
  void put(field number, std::chrono::milliseconds value, std::chrono::milliseconds absent) noexcept {
    put(number, static_cast<std::uint64_t>(value.count()), static_cast<std::uint64_t>(absent.count()));
  }
  void put(field number, wall_time value) noexcept {
    tag(number, wire::fixed);
    fixed(static_cast<std::uint64_t>(value.time_since_epoch().count()));
  }

  [[nodiscard]] char* at() const noexcept { return at_; }

 private:
  char* at_;
};

/// At least what a tag and a number or a length take.
constexpr std::size_t field_overhead = 1 + 10;

struct field_value {
  std::uint64_t number = 0;
  wire how = wire::varint;
  std::uint64_t integer = 0;
  std::string_view bytes;
};

bool read_field(byte_reader& in, field_value& out) noexcept {
  std::uint64_t tag = 0;
  if (!in.varint(tag)) return false;
  out.number = tag >> 2;
  switch (tag & 3) {
    case static_cast<std::uint8_t>(wire::varint):
      out.how = wire::varint;
      return in.varint(out.integer);
    case static_cast<std::uint8_t>(wire::fixed):
      out.how = wire::fixed;
      return in.fixed64(out.integer);
    case static_cast<std::uint8_t>(wire::bytes):
      out.how = wire::bytes;
      return in.bytes(out.bytes);
    default:
      return false;
  }
}

wall_time as_time(std::uint64_t value) noexcept { return wall_time{std::chrono::nanoseconds{static_cast<std::int64_t>(value)}}; }

bool as_count(std::uint64_t value, std::uint32_t& out) noexcept {
  if (value > std::numeric_limits<std::uint32_t>::max()) return false;
  out = static_cast<std::uint32_t>(value);
  return true;
}

bool as_span(std::uint64_t value, std::chrono::milliseconds& out) noexcept {
  // Later sums of a time and a span in nanoseconds must not overflow.
  constexpr auto limit = static_cast<std::uint64_t>(std::chrono::milliseconds{std::chrono::years{100}}.count());
  if (value > limit) return false;
  out = std::chrono::milliseconds{static_cast<std::int64_t>(value)};
  return true;
}

/// False: the value does not fit the field.
bool assign(record& out, const field_value& value) noexcept {
  const auto is = [&](wire how) { return value.how == how; };
  switch (static_cast<field>(value.number)) {
    case field::kind:
      out.kind = value.bytes;
      return is(wire::bytes);
    case field::payload:
      out.payload = value.bytes;
      return is(wire::bytes);
    case field::custom_id:
      out.custom_id = value.bytes;
      return is(wire::bytes);
    case field::unique_key:
      out.unique_key = value.bytes;
      return is(wire::bytes);
    case field::headers:
      out.raw_headers = value.bytes;
      return is(wire::bytes);
    case field::errors:
      out.raw_errors = value.bytes;
      return is(wire::bytes);
    case field::serial:
      out.serial = value.integer;
      return is(wire::varint);
    case field::enqueued_at:
      out.enqueued_at = as_time(value.integer);
      return is(wire::fixed);
    case field::failures:
      return is(wire::varint) && as_count(value.integer, out.failures);
    case field::losses:
      return is(wire::varint) && as_count(value.integer, out.losses);
    case field::marked_losses:
      return is(wire::varint) && as_count(value.integer, out.marked_losses);
    case field::max_retries:
      return is(wire::varint) && as_count(value.integer, out.max_retries);
    case field::timeout:
      return is(wire::varint) && as_span(value.integer, out.timeout);
    case field::deadline:
      out.deadline = as_time(value.integer);
      return is(wire::fixed);
    case field::retention:
      return is(wire::varint) && as_span(value.integer, out.retention);
    case field::keep_result:
      return is(wire::varint) && as_span(value.integer, out.keep_result);
    case field::unique_for:
      return is(wire::varint) && as_span(value.integer, out.unique_for);
    case field::ending:
      out.ending = value.bytes;
      return is(wire::bytes);
  }
  return false;
}

struct failure_view {
  std::uint64_t at = 0;
  std::string_view worker;
  std::string_view text;
};

bool read_failure(byte_reader& in, failure_view& out) noexcept {
  return in.fixed64(out.at) && in.bytes(out.worker) && in.bytes(out.text);
}

/// Appends at most `room` bytes that `write` puts there.
template <class Write>
void append(std::string& out, std::size_t room, Write write) {
  const std::size_t before = out.size();
  out.resize_and_overwrite(before + room, [&](char* data, std::size_t) noexcept {
    writer to{data + before};
    write(to);
    return static_cast<std::size_t>(to.at() - data);
  });
}

}  // namespace

void encode_record(const record& what, std::string& out) {
  std::size_t room = 1 + what.unknown.size() + field_overhead;
  for (const std::string_view text :
       {what.kind, what.payload, what.custom_id, what.unique_key, what.raw_headers, what.raw_errors}) {
    if (!text.empty()) room += field_overhead + text.size();
  }
  if (what.ending) room += field_overhead + what.ending->size();
  // Most jobs have few of these, and the buffer stays as large as it was asked to be.
  if (what.serial != 0) room += field_overhead;
  if ((what.failures | what.losses | what.marked_losses) != 0) room += 3 * field_overhead;
  if (what.max_retries != default_retries || what.timeout != default_timeout || what.deadline) room += 3 * field_overhead;
  if (what.retention.count() != 0 || what.keep_result.count() != 0 || what.unique_for.count() != 0) room += 3 * field_overhead;
  append(out, room, [&](writer& to) {
    to.byte(what.format);
    to.put(field::kind, what.kind);
    to.put(field::payload, what.payload);
    to.put(field::custom_id, what.custom_id);
    to.put(field::unique_key, what.unique_key);
    to.put(field::headers, what.raw_headers);
    to.put(field::errors, what.raw_errors);
    to.put(field::serial, what.serial, 0);
    if (what.enqueued_at != wall_time{}) to.put(field::enqueued_at, what.enqueued_at);
    to.put(field::failures, what.failures, 0);
    to.put(field::losses, what.losses, 0);
    to.put(field::marked_losses, what.marked_losses, 0);
    to.put(field::max_retries, what.max_retries, default_retries);
    to.put(field::timeout, what.timeout, default_timeout);
    if (what.deadline) to.put(field::deadline, *what.deadline);
    to.put(field::retention, what.retention, std::chrono::milliseconds{0});
    to.put(field::keep_result, what.keep_result, std::chrono::milliseconds{0});
    to.put(field::unique_for, what.unique_for, std::chrono::milliseconds{0});
    if (what.ending) {
      to.tag(field::ending, wire::bytes);
      to.sized(*what.ending);
    }
    to.raw(what.unknown);
  });
}

record decode_record(std::string_view bytes) noexcept {
  record out;
  if (bytes.empty() || bytes.front() == 0) {
    out.fit = record_fit::garbage;
    return out;
  }
  out.format = static_cast<std::uint8_t>(bytes.front());
  const bool newer = out.format > record::current_format;
  out.fit = newer ? record_fit::newer : record_fit::readable;

  byte_reader in{bytes.substr(1)};
  std::uint64_t last = 0;
  while (!in.empty()) {
    const std::string_view before = in.rest();
    field_value value;
    const bool sound = read_field(in, value) && value.number > last;
    if (sound && value.number <= static_cast<std::uint64_t>(field::last_known)) {
      last = value.number;
      if (assign(out, value)) continue;
    } else if (sound) {
      if (out.unknown.empty()) out.unknown = before;
      last = value.number;
      continue;
    }
    // A newer release may have other rules from here on: what follows is carried along as it is.
    if (newer) {
      if (out.unknown.empty()) out.unknown = before;
    } else {
      out.fit = record_fit::garbage;
      out.unknown = {};
    }
    return out;
  }
  if (out.kind.empty() && !newer) out.fit = record_fit::garbage;
  return out;
}

record record_of(const new_job& job, wall_time now, std::string_view raw_headers) noexcept {
  record out;
  out.kind = job.kind;
  out.payload = job.payload;
  out.custom_id = job.id;
  out.unique_key = job.unique_key;
  out.raw_headers = raw_headers;
  out.enqueued_at = now;
  out.max_retries = job.max_retries;
  out.timeout = job.timeout;
  out.deadline = job.deadline;
  out.retention = job.retention;
  out.keep_result = job.keep_result;
  out.unique_for = job.unique_for;
  return out;
}

record record_of_garbage(std::string_view bytes, wall_time now) noexcept {
  record out;
  out.kind = "unreadable";
  out.payload = bytes;
  out.enqueued_at = now;
  return out;
}

void encode_headers(std::span<const header> headers, std::string& out) {
  std::size_t room = 0;
  for (const header& h : headers) room += 2 * field_overhead + h.name.size() + h.value.size();
  append(out, room, [&](writer& to) {
    for (const header& h : headers) {
      to.sized(h.name);
      to.sized(h.value);
    }
  });
}

std::vector<header> decode_headers(std::string_view raw) {
  std::vector<header> out;
  byte_reader in{raw};
  while (!in.empty()) {
    header h;
    if (!in.bytes(h.name) || !in.bytes(h.value)) break;
    out.push_back(h);
  }
  return out;
}

void add_failure(std::string_view raw_errors, wall_time at, std::string_view worker, std::string_view text, std::string& out) {
  std::size_t count = 0;
  std::size_t sound = 0;
  for (byte_reader in{raw_errors}; !in.empty(); ++count) {
    failure_view ignored;
    if (!read_failure(in, ignored)) break;
    sound = raw_errors.size() - in.rest().size();
  }
  byte_reader in{raw_errors.substr(0, sound)};
  for (; count >= max_failures; --count) {
    failure_view oldest;
    if (!read_failure(in, oldest)) break;
  }
  const std::string_view kept = in.rest();
  append(out, kept.size() + 3 * field_overhead + worker.size() + text.size(), [&](writer& to) {
    to.raw(kept);
    to.fixed(static_cast<std::uint64_t>(at.time_since_epoch().count()));
    to.sized(worker);
    to.sized(text);
  });
}

std::vector<failure> decode_failures(std::string_view raw) {
  std::vector<failure> out;
  byte_reader in{raw};
  while (!in.empty()) {
    failure_view f;
    if (!read_failure(in, f)) break;
    out.push_back({.at = as_time(f.at), .worker = std::string{f.worker}, .error = std::string{f.text}});
  }
  return out;
}

job_info info_of(const record& what, std::uint64_t key, std::string_view queue, job_state state) {
  job_info out;
  out.id = make_job_id(what.serial != 0 ? what.serial : key, what.custom_id);
  out.queue = queue;
  out.kind = what.kind;
  out.state = state;
  out.payload = what.payload;
  for (const header& h : decode_headers(what.raw_headers)) out.headers.emplace_back(h.name, h.value);
  out.failures = what.failures;
  out.losses = what.losses;
  out.max_retries = what.max_retries;
  out.timeout = what.timeout;
  out.deadline = what.deadline;
  out.enqueued_at = what.enqueued_at;
  if (state == job_state::completed && what.ending) out.result = std::string{*what.ending};
  out.errors = decode_failures(what.raw_errors);
  out.retention = what.retention;
  out.keep_result = what.keep_result;
  out.unique_key = what.unique_key;
  return out;
}

delivery delivery_of(const record& what, std::uint64_t key, lease_token lease, std::string_view queue) noexcept {
  delivery out;
  out.lease = lease;
  out.fit = what.fit;
  out.suspect = rules::is_suspect(what);
  out.queue = queue;
  out.kind = what.kind;
  out.payload = what.payload;
  out.failures = what.failures;
  out.losses = what.losses;
  out.max_retries = what.max_retries;
  out.timeout = what.timeout;
  out.deadline = what.deadline;
  out.enqueued_at = what.enqueued_at;
  out.keeps_result = what.keep_result.count() > 0 || what.retention.count() > 0;
  out.raw_headers = what.raw_headers;
  out.serial = what.serial != 0 ? what.serial : key;
  out.custom_id = what.custom_id;
  return out;
}

void deliver(const record& what, std::uint64_t key, lease_token lease, std::string_view queue, delivery_batch& batch) {
  delivery out = delivery_of(what, key, lease, queue);
  // Jobs of one queue come one after another: its name is kept once.
  const bool same_queue = !batch.jobs.empty() && batch.jobs.back().queue == queue;
  out.queue = same_queue ? batch.jobs.back().queue : batch.keep(queue);
  out.kind = batch.keep(what.kind);
  out.payload = batch.keep(what.payload);
  out.raw_headers = batch.keep(what.raw_headers);
  out.custom_id = batch.keep(what.custom_id);
  batch.jobs.push_back(out);
}

}  // namespace ergon
