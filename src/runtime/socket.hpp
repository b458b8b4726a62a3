// What a stream or a listener is, behind its handle: a descriptor that does not block, and for each direction the one operation that waits.
//
// An operation tries its system call first, on whichever thread its task runs. What would block stands in its direction's place; when the
// driver of the socket's home worker says that the descriptor has become ready, that worker makes the call and wakes the task. So a cancel
// takes an operation out of its place and is done: bytes are moved only by an operation that nobody can take out any more.
//
// The driver tells changes, once. `exhausted` says that a call found nothing left and no change came since: only then may an operation wait.
//
// Locking. Each direction has a mutex, held over its system call, so a descriptor is never closed under one; who closes, or has a driver
// watch, holds both. With a filter (TLS), whose two directions share their state, the first serves both. Order: a root's lock,
// a mutex, a timer store's lock. What ends is woken after the mutex was given back.
//
// The home worker is chosen when something waits for the first time, and stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <ergon/runtime/byte_stream.hpp>

#include "runtime/io_driver.hpp"

namespace ergon::detail {

class scheduler;

/// What became of an operation's attempt.
enum class io_step : std::uint8_t {
  ended,
  /// It has work left that does not block, and others come first.
  again,
  /// It goes on when there is something to read, or room to write.
  wants_read,
  wants_write,
};

/// Stands between a socket and its operations, under the socket's lock.
class stream_filter {
 public:
  stream_filter() = default;
  stream_filter(const stream_filter&) = delete;
  stream_filter& operator=(const stream_filter&) = delete;
  virtual ~stream_filter() = default;

  virtual io_step perform(stream_operation& op, int descriptor) noexcept = 0;
  /// The descriptor is about to be closed; must not wait.
  virtual void closing(int descriptor) noexcept = 0;
  /// Of an operation whose failure is `see_state`.
  [[noreturn]] virtual void fail(const stream_operation& op, const std::string& name) const = 0;
};

class socket final : public stream_state, private io_listener {
 public:
  /// Takes the descriptor over, which must not block. `spread`: its home is any worker, else the one that waits first.
  socket(int descriptor, bool spread, std::string name) noexcept
      : descriptor_(descriptor), spread_(spread), name_(std::move(name)) {}
  ~socket() override;

  bool attempt(stream_operation& op) noexcept override;
  bool enter(stream_operation& op) noexcept override;
  bool leave(stream_operation& op) noexcept override;
  void close() noexcept override;
  void look_out(std::chrono::nanoseconds span) noexcept override;
  [[noreturn]] void fail(const stream_operation& op) const override;
  [[nodiscard]] std::string name() const override { return name_; }

  /// While no operation is under way.
  void set_filter(std::unique_ptr<stream_filter> filter) noexcept;
  [[nodiscard]] stream_filter* filter() const noexcept { return filter_.get(); }
  void set_name(std::string name) noexcept { name_ = std::move(name); }

  /// Calls `f(descriptor)` while it cannot be closed. False: it is.
  template <class F>
  bool with_descriptor(F&& f) {
    std::lock_guard const guard(sides_[0].mutex);
    if (closed_) {
      return false;
    }
    std::forward<F>(f)(descriptor_);
    return true;
  }

 private:
  struct side {
    std::mutex mutex;
    stream_operation* waiting = nullptr;
    bool exhausted = false;
  };

  [[nodiscard]] side& side_of(const stream_operation& op) noexcept;
  [[nodiscard]] std::unique_lock<std::mutex> lock_for(side& of) noexcept;

  io_step step(stream_operation& op) noexcept;
  io_step perform_plain(stream_operation& op) const noexcept;
  bool find_home(stream_operation& op) noexcept;
  stream_operation* go_on(side& of) noexcept;

  void ready(io_change change) noexcept override;
  void forgotten() noexcept override { release(); }

  int descriptor_;
  bool closed_ = false;
  bool spread_;
  /// What is read next may be the end, which is no change of its own.
  bool ended_ = false;
  // To read and to write.
  std::array<side, 2> sides_;
  std::unique_ptr<stream_filter> filter_;
  scheduler* runs_on_ = nullptr;
  std::size_t home_ = 0;
  std::unique_ptr<io_descriptor> watched_;
  std::string name_;
};

/// What the number of an error says.
[[nodiscard]] std::string system_text(int number);
/// Throws `errc::unavailable`: `what` was not done, for the reason that the number says.
[[noreturn]] void refuse(const std::string& what, int number);

}  // namespace ergon::detail
