// Middleware after middleware, and the handler at the end. Lives in the frame of `run_around`.
#pragma once

#include <cstddef>
#include <vector>

#include <ergon/queue/middleware.hpp>
#include <ergon/runtime/task.hpp>

#include "queue/attempt.hpp"

namespace ergon::detail {

struct middleware_chain {
  const std::vector<middleware>& around;
  attempt& at;

  [[nodiscard]] task<ergon::outcome> call(std::size_t index);
};

/// Runs an attempt with all middleware around its handler; the end is in `at.end`.
[[nodiscard]] task<void> run_around(attempt& at);

}  // namespace ergon::detail
