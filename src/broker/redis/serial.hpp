// What a job on Redis is called. Its serial is the id of the entry that it was put in as (`1893456000000-7`), or, where it needed more than an
// entry from the beginning, the time of its birth and a number of the partition's (`1893456000000+7`). Serials belong to a partition;
// a public id names the queue besides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/clock.hpp>

#include "broker/job_id.hpp"

namespace ergon::redis_store {

struct serial {
  std::uint64_t ms = 0;
  std::uint64_t number = 0;
  /// Not the id of an entry.
  bool is_own = false;

  friend bool operator==(const serial&, const serial&) = default;

  [[nodiscard]] wall_time born() const noexcept { return wall_time{std::chrono::milliseconds{ms}}; }
};

/// Nothing, if it is none, or does not fit a public id.
[[nodiscard]] std::optional<serial> parse_serial(std::string_view text) noexcept;
[[nodiscard]] std::string to_text(const serial& of);

/// The two halves that stand in a public id: 16 bits for the queue and 48 of milliseconds; one that says `is_own`, 7 that are nought, 56 of the
/// number.
[[nodiscard]] wide_serial widen(std::uint32_t queue, const serial& of) noexcept;
[[nodiscard]] std::string public_id_of(std::uint32_t queue, const serial& of, std::string_view own_id);

struct job_address {
  std::uint32_t queue = 0;
  serial which;
};
/// What `name` says, if it is a public id of a store on Redis.
[[nodiscard]] std::optional<job_address> address_in(const wide_job_name& name) noexcept;

}  // namespace ergon::redis_store
