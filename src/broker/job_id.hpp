// Public ids. A job without an id of its own is named by its serial number; one with an own id by both, so that two lives of one
// id stay apart: `order-42@0g400000000a1`. Nobody outside the brokers takes them to pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

/// `%`, `@` and control bytes of the own id are escaped as %XX.
[[nodiscard]] std::string make_job_id(std::uint64_t serial, std::string_view custom_id);
/// The same for a store whose serial numbers have 128 bits: `high` is not nought. Its ids have 26 characters instead of 13.
[[nodiscard]] std::string make_job_id(std::uint64_t high, std::uint64_t low, std::string_view custom_id);

struct job_name {
  /// The life that is meant; nothing means the youngest of `custom_id`.
  std::optional<std::uint64_t> serial{};
  /// Empty for a job without an own id.
  std::string custom_id{};
};

/// What an id given by a person may mean: a text without `@` may be an own id, or a serial number; then both are set and
/// `ambiguous` lookups try the own id first.
[[nodiscard]] job_name parse_job_id(std::string_view text);

struct wide_serial {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};
struct wide_job_name {
  std::optional<wide_serial> serial{};
  std::string custom_id{};
};
/// The same where serial numbers have 128 bits.
[[nodiscard]] wide_job_name parse_wide_job_id(std::string_view text);

}  // namespace ergon
