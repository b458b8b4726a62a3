// `interval`: a beat that does not drift.
//
//   ergon::interval every{1s};
//   for (;;) {
//     co_await every.tick();   // at once, then each second
//     report();
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// What becomes of ticks that were due while nobody awaited them.
enum class missed_ticks : std::uint8_t {
  /// Left out; the next falls where the beat says.
  skip,
  /// Made up for, one after the other without a pause.
  burst,
  /// The beat begins anew from when the late one was taken.
  delay,
};

/// Belongs to one task at a time.
class ERGON_EXPORT interval {
 public:
  /// The first tick is due at once, or at `first` by the runtime's clock. Throws `errc::invalid_argument` for a period that is not
  /// positive or longer than ten years.
  explicit interval(std::chrono::nanoseconds period, missed_ticks missed = missed_ticks::skip,
                    std::optional<steady_time> first = {});

  /// Waits for the next tick and gives when it was due. Cancellable: then it is due still. On a task of a runtime.
  task<steady_time> tick();
  [[nodiscard]] std::chrono::nanoseconds period() const noexcept { return period_; }

 private:
  std::chrono::nanoseconds period_;
  missed_ticks missed_;
  std::optional<steady_time> next_;
};

}  // namespace ergon
