// `timer_callback`: a timer without a task, for who has so many that even a sleeping coroutine is too much: connections that expire, entries
// of a cache. It lies in the object that it is for and costs 40 bytes there and nothing else:
//
//   struct session : ergon::timer_callback {
//     void expired() noexcept override { close(); }
//   };
//   s.start(runtime, 30s);    s.stop();
//
// Timers go by the runtime's clock and never fire early. Starting and stopping take constant time, and allocate nothing.
#pragma once

#include <chrono>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {

class runtime;

class ERGON_EXPORT timer_callback : private detail::timer {
 public:
  timer_callback() noexcept = default;
  timer_callback(const timer_callback&) = delete;
  timer_callback& operator=(const timer_callback&) = delete;

  /// Has `expired` called once after `span`, at once where that is not positive. From any thread. The timer must not be set: it was never
  /// started, `stop` gave true, or `expired` was called; else the program ends with a message. It must be stopped before the runtime goes.
  void start(runtime& on, std::chrono::nanoseconds span) noexcept;
  /// True: it was set, and `expired` will not be called. False: it is being called, was called, or the timer never was started. From any
  /// thread, but not while another starts it.
  bool stop() noexcept;

 protected:
  /// A timer that is still set when it goes ends the program with a message.
  ~timer_callback();

  /// Called on a worker of the runtime, between two turns: it must not block. It may start the timer again, or destroy it.
  virtual void expired() noexcept = 0;

 private:
  void run() noexcept final { expired(); }
  bool arm() noexcept final { return false; }
  bool disarm() noexcept final { return false; }
};

}  // namespace ergon
