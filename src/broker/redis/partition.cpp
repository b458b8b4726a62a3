#include "broker/redis/partition.hpp"

#include <fmt/format.h>

namespace ergon::redis_store {

namespace {

constexpr std::array<std::string_view, partition::key_count> names{"ready", "front", "due",   "again", "body",      "loc",
                                                                   "ids",   "tomb",  "done",  "dead",  "cancelled", "discarded",
                                                                   "uniq",  "uniqx", "stats", "meta",  "notes"};

}  // namespace

partition::partition(std::string_view name_space, std::string_view queue_name, std::uint32_t queue_number)
    : queue{queue_name}, number{queue_number} {
  // A queue that had braces in its name would choose another tag; names may not have any (check.hpp).
  for (std::size_t i = 0; i < names.size(); ++i) keys[i] = fmt::format("{{{}:{}:0}}:{}", name_space, queue_name, names[i]);
}

std::string partition::end_channel(std::string_view serial) const { return fmt::format("{}:end:{}", keys[ready], serial); }

}  // namespace ergon::redis_store
