// Ids that sort by the time they were made, and a fixed-width text form of 64-bit numbers. Both use Crockford's base 32 in
// lower case (no i, l, o, u): byte order of the text is the order of the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// Characters of `encode_u64`.
inline constexpr std::size_t u64_text_size = 13;

/// 13 characters that sort like the number.
[[nodiscard]] ERGON_EXPORT std::string encode_u64(std::uint64_t value);
/// The same, appended to `out`.
ERGON_EXPORT void encode_u64(std::uint64_t value, std::string& out);
/// The number that `encode_u64` wrote so. Nothing for any other text: wrong length, upper case, another alphabet, above 2^64-1.
[[nodiscard]] ERGON_EXPORT std::optional<std::uint64_t> decode_u64(std::string_view text) noexcept;

/// Makes 128-bit ids in the layout of ULID (48 bits of milliseconds, 80 of randomness) as 26 characters. Each id of one
/// source sorts after the one before, also when the calendar is set back. Thread-safe; a forked child draws anew.
class ERGON_EXPORT id_source {
 public:
  static constexpr std::size_t text_size = 26;

  /// Randomness from the kernel. The clock must outlive the source.
  explicit id_source(ergon::clock& clock = ergon::clock::system());
  /// Repeatable ids for tests and simulation.
  id_source(ergon::clock& clock, std::uint64_t seed);
  id_source(const id_source&) = delete;
  id_source& operator=(const id_source&) = delete;
  ~id_source();

  [[nodiscard]] std::string next();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ergon
