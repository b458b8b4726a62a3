// What a worker does with sockets, as the scheduler sees it: it looks for what has ended between its turns, and sleeps here while one of its
// sockets is waited for. A worker without sockets has none and sleeps on a word.
//
// A driver only says when a descriptor is ready. The calls that move bytes are made by whoever waits for them (socket.hpp), so that a wait
// can be left at any moment and nothing is lost.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon::detail {

enum class direction : std::uint8_t { read, write };

/// Who is told that a descriptor is ready. For each `arm` one of the two is called, on the driver's worker.
class io_listener {
 public:
  /// It is ready, or was closed. A wait may also end for no reason.
  virtual void ready(direction way) noexcept = 0;
  /// The driver ends.
  virtual void dropped(direction way) noexcept = 0;

 protected:
  ~io_listener() = default;
};

/// One descriptor that a driver watches. Any thread, one at a time. Destroyed when nothing is armed.
class io_descriptor {
 public:
  io_descriptor() = default;
  io_descriptor(const io_descriptor&) = delete;
  io_descriptor& operator=(const io_descriptor&) = delete;
  virtual ~io_descriptor() = default;

  /// Has the listener told when it is ready, also if it is already. At most one for each direction at a time. True: nothing else of
  /// this driver is armed, and its worker may sleep elsewhere.
  virtual bool arm(direction way) noexcept = 0;
  /// Closes the descriptor; what is armed ends soon.
  virtual void close() noexcept = 0;
};

class io_driver {
 public:
  io_driver() = default;
  io_driver(const io_driver&) = delete;
  io_driver& operator=(const io_driver&) = delete;
  virtual ~io_driver() = default;

  // The worker's own:

  /// True while something is armed.
  [[nodiscard]] bool waits() const noexcept { return armed_.load(std::memory_order_seq_cst) != 0; }
  /// Ends what is ready to end, a bounded number, without waiting.
  virtual void poll() noexcept = 0;
  /// Waits until something ends, until `until` (the machine's steady clock), or until it is interrupted, then as `poll`.
  virtual void wait(steady_time until) noexcept = 0;

  // From any thread:

  /// Ends a `wait`, or the next one at once.
  virtual void interrupt() noexcept = 0;
  /// Watches a descriptor from here on, which the result closes. Throws `std::system_error`, and then it is still the caller's.
  [[nodiscard]] virtual std::unique_ptr<io_descriptor> watch(int descriptor, io_listener& listener) = 0;

  /// For whoever armed something from outside while the worker may sleep elsewhere: has it come by. Null: that is on its way.
  [[nodiscard]] work* visit() noexcept {
    return visit_.on_the_way.exchange(true, std::memory_order_seq_cst) ? nullptr : &visit_;
  }

 protected:
  /// Counts what is armed; true for the first.
  bool add_armed() noexcept { return armed_.fetch_add(1, std::memory_order_seq_cst) == 0; }
  void drop_armed() noexcept { armed_.fetch_sub(1, std::memory_order_seq_cst); }

 private:
  struct visit_item final : work {
    void run() noexcept override { on_the_way.store(false, std::memory_order_seq_cst); }
    std::atomic<bool> on_the_way{false};
  };

  std::atomic<std::size_t> armed_{0};
  visit_item visit_;
};

[[nodiscard]] std::unique_ptr<io_driver> make_io_driver();

}  // namespace ergon::detail
