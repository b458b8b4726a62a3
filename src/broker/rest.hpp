// How upkeep sleeps.
#pragma once

#include <chrono>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// Waits for the event, for so long at most; at once where that is nought or less.
[[nodiscard]] task<void> rest(event& until, std::chrono::nanoseconds at_most);

}  // namespace ergon
