// Binary records: a writer that appends to a string, and a reader that believes nothing. Inline, because records are written
// and read for every job. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ergon {

/// Appends to `out`, which must outlive the writer. Numbers are little-endian base 128 (LEB128): seven bits a byte, the
/// top bit says that more follow.
class byte_writer {
 public:
  explicit byte_writer(std::string& out) noexcept : out_(&out) {}

  void u8(std::uint8_t value) { out_->push_back(static_cast<char>(value)); }

  void varint(std::uint64_t value) {
    char text[10];
    std::size_t size = 0;
    while (value >= 0x80) {
      text[size++] = static_cast<char>(static_cast<std::uint8_t>(value) | 0x80U);
      value >>= 7U;
    }
    text[size++] = static_cast<char>(value);
    out_->append(text, size);
  }

  /// Small in either direction is short: 0, -1, 1, -2, … become 0, 1, 2, 3, …
  void zigzag(std::int64_t value) { varint((static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63)); }

  /// Eight bytes, little-endian.
  void fixed64(std::uint64_t value) {
    char text[8];
    for (char& c : text) {
      c = static_cast<char>(value & 0xFFU);
      value >>= 8U;
    }
    out_->append(text, sizeof text);
  }

  /// The length as a varint, then the bytes.
  void bytes(std::string_view value) {
    varint(value.size());
    out_->append(value);
  }

  /// The bytes alone.
  void raw(std::string_view value) { out_->append(value); }

 private:
  std::string* out_;
};

/// Takes from the front of `bytes`, which must outlive the reader and the views that it gives. Each member returns false,
/// changes nothing and leaves the rest where it was, if what it should read is not there or is not the shortest form.
class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) noexcept : left_(bytes) {}

  [[nodiscard]] bool u8(std::uint8_t& value) noexcept {
    if (left_.empty()) return false;
    value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return true;
  }

  [[nodiscard]] bool varint(std::uint64_t& value) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < left_.size() && i < 10; ++i) {
      const auto byte = static_cast<std::uint8_t>(left_[i]);
      // The tenth byte holds bit 63 alone; a last byte of nought would be a longer form of the same number.
      if (i == 9 && byte > 1) return false;
      sum |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
      if ((byte & 0x80U) == 0) {
        if (byte == 0 && i > 0) return false;
        value = sum;
        left_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool zigzag(std::int64_t& value) noexcept {
    std::uint64_t folded = 0;
    if (!varint(folded)) return false;
    value = static_cast<std::int64_t>((folded >> 1U) ^ (~(folded & 1U) + 1U));
    return true;
  }

  [[nodiscard]] bool fixed64(std::uint64_t& value) noexcept {
    if (left_.size() < 8) return false;
    std::uint64_t sum = 0;
    for (std::size_t i = 8; i-- > 0;) sum = (sum << 8U) | static_cast<std::uint8_t>(left_[i]);
    value = sum;
    left_.remove_prefix(8);
    return true;
  }

  [[nodiscard]] bool bytes(std::string_view& value) noexcept {
    const std::string_view before = left_;
    std::uint64_t size = 0;
    if (!varint(size)) return false;
    if (size > left_.size()) {
      left_ = before;
      return false;
    }
    value = left_.substr(0, static_cast<std::size_t>(size));
    left_.remove_prefix(static_cast<std::size_t>(size));
    return true;
  }

  [[nodiscard]] bool raw(std::size_t size, std::string_view& value) noexcept {
    if (size > left_.size()) return false;
    value = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  [[nodiscard]] std::string_view rest() const noexcept { return left_; }

 private:
  std::string_view left_;
};

}  // namespace ergon
