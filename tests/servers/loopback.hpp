// Ports and plain sockets on 127.0.0.1: what the kit's servers, proxies and clients stand on. Nothing here is ergon's runtime, so that
// a bug in its sockets cannot hide itself. Each object belongs to one thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <ergon/base/clock.hpp>

namespace ergon::test {

/// How long anything in the kit waits before it calls the wait hopeless.
inline constexpr std::chrono::milliseconds default_patience{10'000};

/// A file descriptor and the duty to close it.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() { close(); }

  void close() noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// When a wait becomes hopeless.
class deadline {
 public:
  explicit deadline(std::chrono::milliseconds from_now) : end_(clock::system().steady() + from_now) {}
  [[nodiscard]] bool over() const { return clock::system().steady() >= end_; }
  /// For poll(2): at least 0.
  [[nodiscard]] int left_ms() const;

 private:
  steady_time end_;
};

/// A free port that stays ours while nobody listens on it: a socket is bound to it and never listens. Whoever is told the port may
/// bind it too, with SO_REUSEADDR; the system gives it to nobody else, neither to who asks for any port nor as the near end of a
/// connection. Without that, a client which tries a dead server again and again connects to itself in the end.
class reserved_port {
 public:
  reserved_port();
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

 private:
  descriptor socket_;
  std::uint16_t number_ = 0;
};

/// Listens on a free port of 127.0.0.1. Its calls never block.
class listener {
 public:
  listener();
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// The next connection, with TCP_NODELAY; an empty one if none waits.
  [[nodiscard]] descriptor accept() const;

 private:
  descriptor socket_;
  std::uint16_t port_ = 0;
};

/// Begins to connect to a port of 127.0.0.1, with TCP_NODELAY, without blocking. Empty if it was refused at once.
[[nodiscard]] descriptor begin_connect(std::uint16_t port);
/// As above, to a unix socket.
[[nodiscard]] descriptor begin_connect(const std::string& path);

/// What a read or a write that never blocks has come to.
struct transfer {
  enum class state { moved, would_block, ended, failed };
  state what = state::would_block;
  std::size_t bytes = 0;
};
[[nodiscard]] transfer read_now(int fd, char* to, std::size_t size);
[[nodiscard]] transfer write_now(int fd, const char* from, std::size_t size);

/// Closes with a FIN: what has come and nobody has read is read first, because otherwise the system would answer it with a reset.
void hang_up(descriptor& socket);
/// Closes with a reset.
void reset(descriptor& socket);

/// Waits for events of poll(2), or the deadline: false.
bool wait_for(int fd, short events, const deadline& until);

/// Throws `errc::unavailable` with what the system said about its last error.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace ergon::test
