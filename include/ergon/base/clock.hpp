// The one source of time. Nothing else in ergon asks the system for it: everything is given a `clock`, so that a test or the
// simulator can own time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <ergon/base/export.hpp>

namespace ergon {

/// Civil time, as a calendar shows it. Somebody may set it: never use it to measure a span.
using wall_time = std::chrono::sys_time<std::chrono::nanoseconds>;
/// CLOCK_MONOTONIC: never set, stands still while the machine is suspended. Timers and leases.
using steady_time = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// Three readings of time and the boot that two of them belong to. All members may be called from any thread.
class ERGON_EXPORT clock {
 public:
  using listener = std::function<void()>;

  clock() = default;
  clock(const clock&) = delete;
  clock& operator=(const clock&) = delete;
  virtual ~clock();

  [[nodiscard]] virtual wall_time wall() const noexcept = 0;
  [[nodiscard]] virtual steady_time steady() const noexcept = 0;
  /// Time since boot, suspended time included (CLOCK_BOOTTIME): what a delay of five minutes is measured by.
  [[nodiscard]] virtual std::chrono::nanoseconds boot() const noexcept = 0;
  /// Names the boot that `steady()` and `boot()` count from.
  [[nodiscard]] virtual std::string boot_id() const = 0;
  /// False for the system's clock. True where time moves only when somebody moves it: whoever sleeps must then
  /// `listen` instead of waiting in the kernel.
  [[nodiscard]] virtual bool is_manual() const noexcept = 0;

  /// Calls `f` after each move of a manual clock, on the mover's thread, until the returned token is destroyed; destroying
  /// it waits for a call under way, so it must not happen inside `f`. The system's clock never calls. `f` must not throw.
  [[nodiscard]] virtual std::shared_ptr<void> listen(listener f) = 0;

  /// The machine's clock.
  [[nodiscard]] static clock& system() noexcept;
  /// The machine's steady clock as it stood at its last tick, up to ten milliseconds ago. For a few nanoseconds it tells whether some time
  /// has passed.
  [[nodiscard]] static steady_time last_tick() noexcept;
};

/// A clock that stands still until a test moves it. Starts at 2030-01-01T00:00:00Z, a day after boot.
class ERGON_EXPORT manual_clock final : public clock {
 public:
  manual_clock();
  ~manual_clock() override;

  [[nodiscard]] wall_time wall() const noexcept override;
  [[nodiscard]] steady_time steady() const noexcept override;
  [[nodiscard]] std::chrono::nanoseconds boot() const noexcept override;
  [[nodiscard]] std::string boot_id() const override;
  [[nodiscard]] bool is_manual() const noexcept override { return true; }
  [[nodiscard]] std::shared_ptr<void> listen(listener f) override;

  /// Time passes: all three readings move. `by` must not be negative (`errc::invalid_argument`).
  void advance(std::chrono::nanoseconds by);
  /// Somebody sets the calendar clock, forward or back: only `wall()` moves.
  void set_wall(wall_time to);
  /// The machine sleeps: `wall()` and `boot()` move, `steady()` does not. `by` must not be negative.
  void suspend(std::chrono::nanoseconds by);
  /// The machine restarts after `off`: a new boot id, `steady()` and `boot()` start again from nought.
  void reboot(std::chrono::nanoseconds off);

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace ergon
