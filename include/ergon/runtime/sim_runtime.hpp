// `sim_runtime`: a runtime for tests of concurrent code. One thread, time of its own, and an order of what is ready that a seed decides:
//
//   for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
//     ergon::sim_runtime sim{seed};
//     sim.block_on(test());             // fails under some orders; throws `errc::deadlock` where nothing can go on
//   }
//
// The same seed plays the same order again, so a failure can be looked at as often as one likes. Time stands still while anything can run and
// jumps to the next timer when nothing can: an hour of sleeping takes no time. What never has to wait gives way at random too.
//
// It runs while somebody is in `block_on` or `shutdown`, and stands still in between; what was spawned goes on with the next `block_on`.
// A simulation is only as repeatable as what it runs: no other threads, no real clock, no addresses as keys. `blocking(f)` calls `f` on the
// simulation's thread at a moment that the seed decides. Sockets are refused with `errc::not_supported`.
#pragma once

#include <cstdint>

#include <ergon/base/export.hpp>
#include <ergon/runtime/runtime.hpp>

namespace ergon {

class ERGON_EXPORT sim_runtime final : public runtime {
 public:
  /// The same order for the same seed. Time begins as that of a `manual_clock`; `clock()` shows it.
  explicit sim_runtime(std::uint64_t seed);
  ~sim_runtime();

  /// How many times a task, or another item, had its turn.
  [[nodiscard]] std::uint64_t turns() const noexcept;
  /// A digest of every choice so far: equal for equal runs.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
};

}  // namespace ergon
