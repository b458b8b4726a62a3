// From a URL to a broker.
#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/base/url.hpp>
#include <ergon/broker/broker.hpp>

#include "broker/memory/memory_broker.hpp"
#include "broker/redis/redis_broker.hpp"
#include "broker/sqlite/sqlite_broker.hpp"

namespace ergon {

std::shared_ptr<broker> open_broker(std::string_view text, broker_options options) {
  const url where = parse_url(text);
  if (where.scheme == "memory") return open_memory(where, options);
  if (where.scheme == "sqlite") return open_sqlite(where, options);
  if (where.scheme == "redis" || where.scheme == "rediss" || where.scheme == "unix") return open_redis(where, options);
  throw error{errc::unknown_scheme,
              fmt::format("the broker URL {} has the scheme {}; known are memory:, sqlite:, redis:, rediss: and unix:",
                          where.shown, quoted(where.scheme))};
}

}  // namespace ergon
