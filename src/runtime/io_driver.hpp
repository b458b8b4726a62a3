// What a worker does with sockets, as the scheduler sees it: it looks for what has ended between its turns, and sleeps here while one of its
// sockets is waited for. A worker without sockets has none and sleeps on a word.
#pragma once

#include <cstddef>
#include <memory>

#include <ergon/base/clock.hpp>

namespace ergon::detail {

class io_driver {
 public:
  io_driver() = default;
  io_driver(const io_driver&) = delete;
  io_driver& operator=(const io_driver&) = delete;
  virtual ~io_driver() = default;

  // The worker's own:

  /// True while an operation is under way.
  [[nodiscard]] virtual bool waits() const noexcept = 0;
  /// Ends what is ready to end, a bounded number, without waiting.
  virtual void poll() noexcept = 0;
  /// Waits until something ends, until `until` (the machine's steady clock), or until it is interrupted, then as `poll`.
  virtual void wait(steady_time until) noexcept = 0;

  /// From any thread: ends a `wait`, or the next one at once.
  virtual void interrupt() noexcept = 0;
};

[[nodiscard]] std::unique_ptr<io_driver> make_io_driver();

}  // namespace ergon::detail
