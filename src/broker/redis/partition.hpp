// The part of a queue that lies in one slot: all of its keys share the hash tag `{<namespace>:<queue>:<number>}`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ergon::redis_store {

struct partition {
  /// In the order in which every script takes them (scripts/lib/keys.lua).
  enum key : std::uint8_t {
    ready,
    front,
    due,
    again,
    body,
    loc,
    ids,
    tomb,
    done,
    dead,
    cancelled,
    discarded,
    unique,
    unique_ends,
    stats,
    meta,
    notes,
    key_count,
  };

  partition(std::string_view name_space, std::string_view queue_name, std::uint32_t queue_number);

  std::string queue;
  /// What public ids call the queue.
  std::uint32_t number;
  std::array<std::string, key_count> keys;

  /// What is said where a job of this serial ends, if somebody may wait for it.
  [[nodiscard]] std::string end_channel(std::string_view serial) const;
};

}  // namespace ergon::redis_store
