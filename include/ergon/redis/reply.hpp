// One reply of a Redis server, as a flat tape: the values in the order in which they came, each a node of 16 bytes, and all texts in
// one piece of memory. A reply owns both; a `value` is a view into it. A reply that is cleared and filled again allocates nothing.
// Not thread-safe; a reply that nobody changes may be read by many.
//
// RESP3: https://redis.io/docs/latest/develop/reference/protocol-spec/
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/export.hpp>

namespace ergon::redis {

class reply;

enum class reply_type : std::uint8_t {
  /// `_`, and RESP2's `$-1` and `*-1`.
  null,
  /// `+`: one line of text.
  simple,
  /// `-` and `!`: the server refused; the text's first word is the error's code.
  error,
  /// `:`
  integer,
  /// `$`: any bytes.
  bulk,
  /// `*`
  array,
  /// `,`
  real,
  /// `#`
  boolean,
  /// `(`: an integer of any size, as text.
  big_number,
  /// `=`: text that says which format it has.
  verbatim,
  /// `%`: keys and values take turns as children.
  map,
  /// `~`
  set,
  /// `>`: no answer to a command: the server speaks by itself. Only whole replies are pushes.
  push,
};

/// One value of a reply and, if it holds others, all that is in it. Valid as long as the reply is not changed, moved or destroyed; cheap to
/// copy. Where a value is asked for what it is not, `errc::bad_reply` says what was wanted and what is there.
class ERGON_EXPORT value {
 public:
  [[nodiscard]] reply_type type() const noexcept;
  [[nodiscard]] bool is_null() const noexcept { return type() == reply_type::null; }
  [[nodiscard]] bool is_error() const noexcept { return type() == reply_type::error; }
  /// True for texts: simple, error, bulk, verbatim, big number.
  [[nodiscard]] bool is_text() const noexcept;
  /// True for what has children: array, map, set, push.
  [[nodiscard]] bool is_aggregate() const noexcept;

  /// The text of a simple string, an error, a bulk or verbatim string (without the format), or a big number.
  [[nodiscard]] std::string_view text() const;
  /// The three letters that name a verbatim string's format: `txt`, `mkd`.
  [[nodiscard]] std::string_view format() const;
  /// An integer, or a text that is a decimal number within 64 bits.
  [[nodiscard]] std::int64_t integer() const;
  /// A real, an integer, or a text that is a decimal number, `inf`, `-inf` or `nan`: RESP2 has no reals of its own.
  [[nodiscard]] double real() const;
  /// A boolean, or the integer 0 or 1: RESP2 has no booleans of its own.
  [[nodiscard]] bool boolean() const;

  /// How many children an aggregate has. A map of n pairs has 2n.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  /// The child at `index`. At once if no child has children of its own, else it steps over those before it. An index past the end is
  /// `errc::bad_reply`: the server sent less than the command has.
  [[nodiscard]] value operator[](std::size_t index) const;

  /// The value that follows the text `key` in a map, or in an array of keys and values in turn, which is how RESP2 sends a map. Nothing if
  /// no key is that. Looks at one after the other.
  [[nodiscard]] std::optional<value> find(std::string_view key) const;

  /// Steps over the children of an aggregate, each in constant time.
  class iterator;
  [[nodiscard]] iterator begin() const;
  [[nodiscard]] iterator end() const;

  /// What it is, for an error text: `array of 3: "ab", 7, …`. Printable, at most 100 bytes.
  [[nodiscard]] std::string describe() const;

 private:
  friend class reply;
  value() noexcept = default;
  value(const reply* whole, std::size_t at) noexcept : whole_(whole), at_(at) {}

  [[noreturn]] void refuse(std::string_view wanted) const;
  void check_aggregate() const;
  // Where the value begins that follows this one and all that is in it.
  [[nodiscard]] std::size_t past() const noexcept;

  const reply* whole_ = nullptr;
  std::size_t at_ = 0;
};

class value::iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = value;
  using difference_type = std::ptrdiff_t;
  using pointer = const value*;
  using reference = const value&;

  iterator() noexcept = default;
  reference operator*() const noexcept { return now_; }
  pointer operator->() const noexcept { return &now_; }
  iterator& operator++() noexcept {
    now_.at_ = now_.past();
    return *this;
  }
  iterator operator++(int) noexcept {
    iterator const before = *this;
    ++*this;
    return before;
  }
  /// Of one and the same aggregate.
  friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.now_.at_ == b.now_.at_; }

 private:
  friend class value;
  explicit iterator(value now) noexcept : now_(now) {}
  value now_;
};

/// Filled by a `reply_parser`.
class ERGON_EXPORT reply {
 public:
  /// True until a parser has put something in.
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  /// The whole reply. Throws `errc::invalid_argument` if there is none.
  [[nodiscard]] value root() const;

  /// Makes it empty. The memory stays for the next reply, but a buffer of more than `keep_bytes` is given back.
  void clear(std::size_t keep_bytes = std::size_t{1} << 20U) noexcept;
  /// The bytes of memory that it holds, in use or not.
  [[nodiscard]] std::size_t memory() const noexcept { return nodes_.capacity() * sizeof(node) + texts_.capacity(); }

  /// The same values of the same types in the same order; reals are compared bit by bit.
  friend bool operator==(const reply&, const reply&) = default;

 private:
  friend class value;
  friend class reply_parser;

  struct node {
    reply_type type = reply_type::null;
    // Texts: how many bytes. Aggregates: how many children.
    std::uint32_t size = 0;
    // Texts: where in `texts_`. Aggregates: how many nodes it is with all that is in it. Numbers and booleans: the bits of the value.
    std::uint64_t bits = 0;
    friend bool operator==(const node&, const node&) = default;
  };

  std::vector<node> nodes_;
  std::string texts_;
};

inline reply_type value::type() const noexcept { return whole_->nodes_[at_].type; }

inline bool value::is_text() const noexcept {
  switch (type()) {
    case reply_type::simple:
    case reply_type::error:
    case reply_type::bulk:
    case reply_type::big_number:
    case reply_type::verbatim:
      return true;
    default:
      return false;
  }
}

inline bool value::is_aggregate() const noexcept {
  reply_type const is = type();
  return is == reply_type::array || is == reply_type::map || is == reply_type::set || is == reply_type::push;
}

inline std::size_t value::past() const noexcept {
  return at_ + (is_aggregate() ? static_cast<std::size_t>(whole_->nodes_[at_].bits) : 1);
}

inline std::string_view value::text() const {
  if (!is_text()) refuse("a text");
  const reply::node& it = whole_->nodes_[at_];
  return {whole_->texts_.data() + it.bits, it.size};
}

inline void value::check_aggregate() const {
  if (!is_aggregate()) refuse("an array, map, set or push");
}

inline std::size_t value::size() const {
  check_aggregate();
  return whole_->nodes_[at_].size;
}

inline value::iterator value::begin() const {
  check_aggregate();
  return iterator{value{whole_, at_ + 1}};
}

inline value::iterator value::end() const {
  check_aggregate();
  return iterator{value{whole_, past()}};
}

}  // namespace ergon::redis
