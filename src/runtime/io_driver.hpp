// What a worker does with sockets, as the scheduler sees it: it looks for what has become ready between its turns, and sleeps here while
// sockets are watched. A worker without sockets has none and sleeps on a word.
//
// A driver only says when a descriptor has become ready. The calls that move bytes are made by whoever waits for them (socket.hpp), so that a
// wait can be left at any moment and nothing is lost.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon::detail {

/// Why a simulation makes no driver.
inline constexpr std::string_view no_sockets_here =
    "a simulated runtime has no sockets: give what is tested a transport of its own";

struct io_change {
  bool readable = false;
  bool writable = false;
  /// The other side has ended its sending, or the connection has failed: what is read next may be the end.
  bool ended = false;
};

/// Who is told about one descriptor.
class io_listener {
 public:
  /// It has become ready since it was last found not to be; on the driver's worker. It may be told for no reason.
  virtual void ready(io_change change) noexcept = 0;
  /// Once, after `close`, from any thread: nothing more is told.
  virtual void forgotten() noexcept = 0;

 protected:
  ~io_listener() = default;
};

/// One descriptor that a driver watches.
class io_descriptor {
 public:
  io_descriptor() = default;
  io_descriptor(const io_descriptor&) = delete;
  io_descriptor& operator=(const io_descriptor&) = delete;
  virtual ~io_descriptor() = default;

  /// Has told anew what is ready by now.
  virtual void renew() noexcept = 0;
  /// Closes it. Once, from any thread, of `here` true if that is the driver's worker. Destroyed after `forgotten`, which may be called in here.
  virtual void close(bool here) noexcept = 0;
};

class io_driver {
 public:
  io_driver() = default;
  io_driver(const io_driver&) = delete;
  io_driver& operator=(const io_driver&) = delete;
  virtual ~io_driver() = default;

  // The worker's own:

  /// True while something is watched.
  [[nodiscard]] bool waits() const noexcept { return watched_.load(std::memory_order_seq_cst) != 0; }
  /// Tells what has become ready, a bounded number, without waiting.
  virtual void poll() noexcept = 0;
  /// Waits until something is ready, until `until` (the machine's steady clock), or until it is interrupted, then as `poll`.
  virtual void wait(steady_time until) noexcept = 0;

  // From any thread:

  /// Ends a `wait`, or the next one at once.
  virtual void interrupt() noexcept = 0;
  /// Watches a descriptor from here on, which the result closes; what is ready already is told as well. Throws `std::system_error`, and then
  /// it is still the caller's. `first`: nothing else was watched, and the worker may sleep elsewhere (see `visit`).
  [[nodiscard]] virtual std::unique_ptr<io_descriptor> watch(int descriptor, io_listener& listener, bool& first) = 0;

  /// What brings the worker here when it has run. Null: that is on its way.
  [[nodiscard]] work* visit() noexcept { return visit_.on_the_way.exchange(true, std::memory_order_seq_cst) ? nullptr : &visit_; }

 protected:
  std::atomic<std::size_t> watched_{0};

 private:
  struct visit_item final : work {
    void run() noexcept override { on_the_way.store(false, std::memory_order_seq_cst); }
    std::atomic<bool> on_the_way{false};
  };
  visit_item visit_;
};

/// Throws `std::system_error` where the process has no descriptor left.
[[nodiscard]] std::unique_ptr<io_driver> make_io_driver();

}  // namespace ergon::detail
