// `byte_stream`: a connection that bytes are read from and written to, whatever carries them. `tcp_stream`, `unix_stream` and `tls_stream`
// are byte streams with more to say; code that only reads and writes takes a `byte_stream` and is given any of them:
//
//   ergon::task<void> echo(ergon::byte_stream peer) {
//     std::array<std::byte, 4096> buffer;
//     while (std::size_t const n = co_await peer.read_some(buffer)) {
//       co_await peer.write_all(std::span{buffer}.first(n));
//     }
//   }
//
// Two tasks may use a stream at the same time, one to read and one to write; `close` may come from any thread. A second reader (or writer)
// is refused with `errc::invalid_argument`. Moving or destroying the object while others use it is a race, like with any other object.
//
// Cancellation. A waiting operation ends at once. What a `read_some` has got is never lost: then it gives the bytes, and the next wait
// stops. A `read_exact` or `write_all` that is stopped or runs out of time has moved an unknown part: all that is left to do with
// that direction is to close.
//
// Errors are `ergon::error`: `closed` (this side closed the stream), `connection_lost` (the other side or the network did), `timed_out`
// (`io_options`). A stream serves one runtime, and must be closed or destroyed before that runtime is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {

struct io_options {
  /// The operation ends with `errc::timed_out` if it has not ended when it has lasted so long. No limit by default.
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
};

namespace detail {

class stream_operation;

/// What stands behind a stream or a listener, counted: its handle and the operations under way each hold a reference. All members may
/// be called from any thread.
class ERGON_EXPORT stream_state {
 public:
  stream_state() = default;
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }

  /// True: the operation has ended, well or not; it did not wait.
  virtual bool attempt(stream_operation& op) noexcept = 0;
  /// Has the operation wait, and calls its `entered`, under a lock that `leave` takes too. False: it has ended.
  virtual bool enter(stream_operation& op) noexcept = 0;
  /// Takes it out. False: it stands there no more, for it is being ended.
  virtual bool leave(stream_operation& op) noexcept = 0;
  /// Ends what waits with `errc::closed`. Idempotent.
  virtual void close() noexcept = 0;
  /// See `byte_stream::look_out`.
  virtual void look_out(std::chrono::nanoseconds span) noexcept = 0;
  /// Throws the error of an operation that failed.
  [[noreturn]] virtual void fail(const stream_operation& op) const = 0;
  /// For messages: `tcp 192.0.2.1:80`.
  [[nodiscard]] virtual std::string name() const = 0;

 protected:
  virtual ~stream_state() = default;

 private:
  std::atomic<std::uint32_t> references_{1};
};

enum class stream_action : std::uint8_t { read_some, read_exact, write_all, shutdown_send, accept, connect, handshake };

/// One operation on a stream; lies in the waiting frame.
class ERGON_EXPORT stream_operation : public operation {
 public:
  stream_operation(const stream_operation&) = delete;

  // What the state works with. Whoever ends it has taken it out of its place first, or was never let see it there.
  const stream_action action;
  /// It would not block, but gave way to others.
  bool unfinished = false;
  /// A filter's: it has taken some of the bytes and is to be given them again.
  bool begun = false;
  // Beyond the numbers of errno.
  static constexpr int closed = -1;
  static constexpr int timed_out = -2;
  static constexpr int in_use = -3;
  static constexpr int ended_early = -4;
  static constexpr int see_state = -5;
  static constexpr int not_here = -6;
  int failure = 0;
  std::byte* data = nullptr;
  std::size_t size = 0;
  /// Bytes that were moved; the number of the descriptor that was accepted, and one.
  std::size_t done = 0;

  /// The task that waits.
  [[nodiscard]] task_root& waiter() const noexcept { return root(); }
  /// Called under the state's lock.
  virtual void entered() noexcept {}
  /// Ends the wait of an operation that was taken out of its place. No lock is held; the object may be gone afterwards.
  void end() noexcept {
    if (may_wake()) {
      wake();
    }
  }

 protected:
  stream_operation(stream_state& on, stream_action what, std::byte* first, std::size_t count) noexcept
      : action(what), data(first), size(count), state_(&on) {
    on.retain();
  }
  ~stream_operation() { state_->release(); }

  [[nodiscard]] stream_state& state() const noexcept { return *state_; }
  void check() const {
    if (failure != 0) [[unlikely]] {
      state_->fail(*this);
    }
  }

  bool try_now() noexcept override { return state_->attempt(*this); }
  bool arm() noexcept override { return state_->enter(*this); }
  bool disarm() noexcept override { return state_->leave(*this); }
  virtual bool may_wake() noexcept { return true; }

 private:
  stream_state* state_;
};

/// Waits for a connection at a listener; what nobody takes is closed.
class ERGON_EXPORT accept_wait : public stream_operation {
 protected:
  explicit accept_wait(stream_state& on) noexcept : stream_operation(on, stream_action::accept, nullptr, 0) {}
  ~accept_wait();
  /// The descriptor, which is the caller's from here on. Throws what the wait ended with.
  [[nodiscard]] int take();
};

/// Gives an operation an end in time.
template <class Operation>
class limited final : public Operation {
 public:
  template <class... A>
  explicit limited(std::chrono::nanoseconds span, A&&... a) noexcept : Operation(std::forward<A>(a)...), limit_(*this, span) {}
  ~limited() = default;

 private:
  // Who ends the wait takes the timer back. If it has expired by then and did not run yet, then its `run` comes last and wakes.
  class limit final : public timer {
   public:
    limit(limited& of, std::chrono::nanoseconds span) noexcept : of_(&of), span_(span) {}
    ~limit() = default;
    void start() noexcept {
      if (span_ != std::chrono::nanoseconds::max()) {
        start_timer(*this, of_->root(), span_);
      }
    }
    bool take_back() noexcept { return span_ == std::chrono::nanoseconds::max() || take_back_timer(*this, of_->root()); }
    /// True: it has run and touches nothing more.
    bool leave_to_run() noexcept { return (passed_.fetch_or(ended, std::memory_order_acq_rel) & ran) != 0; }

   private:
    static constexpr unsigned char ended = 1;
    static constexpr unsigned char ran = 2;

    bool arm() noexcept override { return false; }
    bool disarm() noexcept override { return false; }
    void run() noexcept override {
      limited& op = *of_;
      if (op.state().leave(op)) {
        op.failure = stream_operation::timed_out;
        op.wake();
      } else if ((passed_.fetch_or(ran, std::memory_order_acq_rel) & ended) != 0) {
        op.wake();
      }
    }

    limited* of_;
    std::chrono::nanoseconds span_;
    std::atomic<unsigned char> passed_{0};
  };

  void entered() noexcept override { limit_.start(); }
  bool may_wake() noexcept override { return limit_.take_back() || limit_.leave_to_run(); }
  bool disarm() noexcept override {
    if (!this->state().leave(*this)) {
      return false;
    }
    if (limit_.take_back()) {
      return true;
    }
    this->stop_when_woken();
    return limit_.leave_to_run();
  }

  limit limit_;
};

class ERGON_EXPORT read_operation : public stream_operation {
 public:
  read_operation(stream_state& on, stream_action what, std::span<std::byte> into) noexcept
      : stream_operation(on, what, into.data(), into.size()) {}
  ~read_operation() = default;
  std::size_t await_resume() const {
    check();
    return done;
  }
};

class ERGON_EXPORT write_operation : public stream_operation {
 public:
  write_operation(stream_state& on, stream_action what, std::span<const std::byte> from) noexcept
      : stream_operation(on, what, const_cast<std::byte*>(from.data()), from.size()) {}
  ~write_operation() = default;
  void await_resume() const { check(); }
};

/// The reference of a handle; closes what it stands for when it goes.
class ERGON_EXPORT stream_ref {
 public:
  stream_ref() = default;
  /// Takes over one reference.
  explicit stream_ref(stream_state* adopted) noexcept : state_(adopted) {}
  stream_ref(stream_ref&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  stream_ref& operator=(stream_ref&& other) noexcept {
    stream_ref gone{std::exchange(state_, std::exchange(other.state_, nullptr))};
    return *this;
  }
  ~stream_ref() { reset(); }
  void reset() noexcept {
    if (state_ != nullptr) {
      state_->close();
      std::exchange(state_, nullptr)->release();
    }
  }
  [[nodiscard]] stream_state* get() const noexcept { return state_; }
  /// Throws `errc::closed` where there is none.
  stream_state& operator*() const {
    if (state_ == nullptr) [[unlikely]] {
      refuse();
    }
    return *state_;
  }

 private:
  [[noreturn]] static void refuse();
  stream_state* state_ = nullptr;
};

}  // namespace detail

class ERGON_EXPORT byte_stream {
 public:
  /// Every operation throws `errc::closed` until a stream is moved in.
  byte_stream() = default;
  explicit byte_stream(detail::stream_ref state) noexcept : state_(std::move(state)) {}
  byte_stream(byte_stream&&) noexcept = default;
  byte_stream& operator=(byte_stream&&) noexcept = default;
  /// As `close`.
  ~byte_stream() = default;

  /// Waits for the next bytes, at least one, and gives how many were put into `into`; 0 when the other side has ended its sending, or
  /// for an empty buffer. The buffer must live until the wait has ended. Cancellable.
  [[nodiscard]] detail::read_operation read_some(std::span<std::byte> into) {
    return {*state_, detail::stream_action::read_some, into};
  }
  [[nodiscard]] auto read_some(std::span<std::byte> into, io_options options) {
    return detail::limited<detail::read_operation>{options.timeout, *state_, detail::stream_action::read_some, into};
  }

  /// Fills the whole buffer and gives its size. Throws `errc::connection_lost` if the other side ends its sending before. Cancellable.
  [[nodiscard]] detail::read_operation read_exact(std::span<std::byte> into) {
    return {*state_, detail::stream_action::read_exact, into};
  }
  [[nodiscard]] auto read_exact(std::span<std::byte> into, io_options options) {
    return detail::limited<detail::read_operation>{options.timeout, *state_, detail::stream_action::read_exact, into};
  }

  /// Writes everything, which waits while the other side reads slower. The bytes must live until the wait has ended; that they were
  /// written says nothing about their arrival. Cancellable.
  [[nodiscard]] detail::write_operation write_all(std::span<const std::byte> from) {
    return {*state_, detail::stream_action::write_all, from};
  }
  [[nodiscard]] auto write_all(std::span<const std::byte> from, io_options options) {
    return detail::limited<detail::write_operation>{options.timeout, *state_, detail::stream_action::write_all, from};
  }
  [[nodiscard]] detail::write_operation write_all(std::string_view from) { return write_all(std::as_bytes(std::span{from})); }
  [[nodiscard]] auto write_all(std::string_view from, io_options options) {
    return write_all(std::as_bytes(std::span{from}), options);
  }

  /// Ends the sending: the other side reads 0 after the last byte, and may go on to send. Cancellable.
  [[nodiscard]] detail::write_operation shutdown_send() { return {*state_, detail::stream_action::shutdown_send, {}}; }

  /// Operations under way end with `errc::closed`, later ones fail with it. What was written is still delivered. Idempotent.
  void close() noexcept {
    if (state_.get() != nullptr) {
      state_.get()->close();
    }
  }

  /// Something is due here within about `span`, sooner than a sleeping thread is woken: until then the worker that is home to the stream looks for it
  /// rather than goes to sleep, which costs a processor that long. From the second wait on; for who knows what is due, such as the client of a
  /// server nearby.
  void look_out(std::chrono::nanoseconds span) noexcept {
    if (state_.get() != nullptr) {
      state_.get()->look_out(span);
    }
  }

  /// False where it was moved from or never had a connection; a closed one is still true.
  explicit operator bool() const noexcept { return state_.get() != nullptr; }
  /// For messages: `tcp 192.0.2.1:80`.
  [[nodiscard]] std::string name() const { return (*state_).name(); }

 protected:
  [[nodiscard]] detail::stream_state& state() const { return *state_; }

 private:
  friend class tls_stream;
  detail::stream_ref state_;
};

}  // namespace ergon
