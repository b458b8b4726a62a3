// Ctrl-C and the other ways of asking the demo to end: they set a flag, so that everything can be put away.
#pragma once

#include <chrono>

namespace demo {

/// SIGINT, SIGTERM and SIGHUP set the flag from now on, and cut sleeps short.
void catch_interrupts();
[[nodiscard]] bool interrupted() noexcept;
/// Sleeps, or less if a signal arrives.
void nap(std::chrono::milliseconds span) noexcept;

/// Thrown where the flag ends a piece of work.
struct interruption {};

}  // namespace demo
