// A job as the store gives it: a flat list of fields (scripts/lib/fields.lua names them), as views into a reply.
#pragma once

#include <cstdint>
#include <string_view>

#include <ergon/redis/reply.hpp>

#include "broker/record.hpp"

namespace ergon::redis_store {

struct entry {
  std::string_view record{};
  /// Empty for a plain job: then it is the id of its entry.
  std::string_view serial{};
  std::string_view own_id{};
  std::string_view unique_key{};
  std::string_view errors{};
  std::string_view state{};
  std::string_view ending{};
  std::uint32_t failures = 0;
  std::uint32_t losses = 0;
  std::uint32_t marked_losses = 0;
  std::uint64_t ended_ms = 0;
  /// It has nothing but a record: no other transition than `settle` need know it.
  bool is_plain = true;
};

/// Never fails: what is no entry of ours has an empty record, and fields that are damaged are as if they were not there.
[[nodiscard]] entry read_entry(redis::value fields);

/// The record with what the store keeps beside it, as views into both. Bytes that are no record come back as garbage.
[[nodiscard]] record record_of(const entry& of) noexcept;

}  // namespace ergon::redis_store
