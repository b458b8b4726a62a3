// Bytes from a server → replies. Sans-IO: whoever has bytes feeds them, cut anywhere; each byte is looked at once. Owns what it has of a
// line that is not whole yet and the list of aggregates that are open; the values go into the caller's `reply`. It believes nothing: what a
// length promises takes no memory before it has come. Not thread-safe.
//
// RESP3: https://redis.io/docs/latest/develop/reference/protocol-spec/
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/redis/reply.hpp>

namespace ergon::redis {

/// What one reply may be. Lengths and counts are capped at 2^32 - 1.
struct reply_limits {
  /// How deep aggregates stand in each other.
  std::size_t depth = 32;
  /// The bytes of one bulk, verbatim or error text; Redis itself has no longer ones.
  std::size_t text = std::size_t{512} << 20U;
  /// The values of a whole reply, aggregates counted too.
  std::size_t elements = std::size_t{16} << 20U;
  /// The bytes of a line; at least 64.
  std::size_t line = std::size_t{64} << 10U;
  /// The bytes of a whole reply as they came.
  std::size_t total = std::size_t{1} << 30U;
  /// The values in all attributes of a reply, which are dropped.
  std::size_t attribute_elements = std::size_t{4} << 10U;
  /// The bytes of all attributes of a reply.
  std::size_t attribute_bytes = std::size_t{1} << 20U;
};

/// Understands all of RESP2 and RESP3. Attributes are dropped wherever they stand. Streamed strings and aggregates (`$?`, `*?`), which Redis
/// never sends, are refused.
class ERGON_EXPORT reply_parser {
 public:
  explicit reply_parser(const reply_limits& limits = {});

  /// Takes bytes until one reply is whole, and says how many it took: all of them while the reply is not. A reply begins with `into`
  /// empty and goes on with the same `into`, untouched; else `errc::invalid_argument`.
  ///
  /// What is no reply, or breaks a limit, is `errc::bad_reply`; the text says at which byte of the stream, what stood there and what was
  /// expected, and is the same however the bytes were cut. From then on every call fails so: nobody knows where the next reply begins.
  std::size_t feed(std::span<const char> bytes, reply& into);

  /// True if the last `feed` ended a reply; the next one begins another.
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  /// True if a reply has begun that is not whole.
  [[nodiscard]] bool midway() const noexcept { return midway_; }
  /// True if garbage came.
  [[nodiscard]] bool broken() const noexcept { return !broken_.empty(); }
  /// How many bytes it took since it was made or reset.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

  /// For the first byte of a new connection.
  void reset() noexcept;

 private:
  // An aggregate or an attribute whose children are still coming.
  struct frame {
    std::size_t left;
    // Where its node stands; for an attribute, which has none, where its first child's does.
    std::size_t node;
    // Where an attribute's texts begin in the reply's.
    std::size_t texts;
    bool attribute;
  };
  // What a step came to.
  enum class step : std::uint8_t { more, whole };

  std::size_t run(std::span<const char> bytes, reply& into);
  step take_line(std::string_view line, std::uint64_t at, reply& into);
  step take_text_line(reply_type type, std::string_view line, std::uint64_t at, reply& into);
  step begin_bulk(reply_type type, std::string_view line, std::uint64_t length, std::uint64_t at, reply& into);
  step begin_aggregate(reply_type type, std::string_view line, std::uint64_t count, std::uint64_t at, reply& into);
  step begin_attribute(std::string_view line, std::uint64_t pairs, std::uint64_t at, reply& into);
  const char* take_payload(const char* from, const char* end, reply& into);
  step end_bulk(reply& into);
  step end_value(reply& into);
  step put(reply::node value, std::uint64_t at, reply& into);
  void check_room(std::size_t line_size, std::uint64_t payload, std::uint64_t at);
  std::uint64_t length_in(std::string_view line, std::uint64_t at, std::string_view what);
  [[noreturn]] void fail(std::uint64_t at, std::string_view wrong, std::string_view there);

  reply_limits limits_;
  std::vector<frame> frames_;
  // What has come of a line that is not whole.
  std::string line_;
  // The texts of errors: set once, the first for good.
  std::string broken_;
  // Bytes taken before the current call, and when the reply began.
  std::uint64_t offset_ = 0;
  std::uint64_t began_ = 0;
  // Of the bulk that is coming: where it stands in the stream and in the reply, and how much is to come, the end of its line included.
  std::uint64_t bulk_at_ = 0;
  std::uint64_t bulk_left_ = 0;
  std::size_t bulk_texts_ = 0;
  reply_type bulk_type_ = reply_type::bulk;
  // What the reply held when the last call ended.
  std::size_t nodes_before_ = 0;
  std::size_t texts_before_ = 0;
  // Attributes that are open, and what has come in attributes since the reply began.
  std::size_t attributes_open_ = 0;
  std::size_t attribute_elements_ = 0;
  std::uint64_t attribute_bytes_ = 0;
  bool in_bulk_ = false;
  bool whole_ = false;
  bool midway_ = false;
};

}  // namespace ergon::redis
