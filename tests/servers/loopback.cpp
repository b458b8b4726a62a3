#include "servers/loopback.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <ergon/base/error.hpp>

namespace ergon::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

descriptor tcp_socket() {
  descriptor made{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!made) throw_errno("socket");
  return made;
}

void set(int fd, int level, int option) {
  int const on = 1;
  if (::setsockopt(fd, level, option, &on, sizeof on) != 0) throw_errno("setsockopt");
}

/// A free port; it is the system that picks it.
std::uint16_t bind_any(int fd) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) throw_errno("bind to 127.0.0.1");
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) throw_errno("getsockname");
  return ntohs(address.sin_port);
}

descriptor connecting(descriptor socket, const sockaddr* address, socklen_t size) {
  if (::connect(socket.get(), address, size) != 0 && errno != EINPROGRESS && errno != EAGAIN) socket.close();
  return socket;
}

}  // namespace

void descriptor::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

int deadline::left_ms() const {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(end_ - clock::system().steady());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

// SO_REUSEADDR comes after the bind: the system must find a port that nobody at all has.
reserved_port::reserved_port() : socket_(tcp_socket()), number_(bind_any(socket_.get())) {
  set(socket_.get(), SOL_SOCKET, SO_REUSEADDR);
}

listener::listener() : socket_(tcp_socket()), port_(bind_any(socket_.get())) {
  if (::listen(socket_.get(), SOMAXCONN) != 0) throw_errno("listen");
}

descriptor listener::accept() const {
  descriptor accepted{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (accepted) set(accepted.get(), IPPROTO_TCP, TCP_NODELAY);
  return accepted;
}

descriptor begin_connect(std::uint16_t port) {
  descriptor socket = tcp_socket();
  set(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  sockaddr_in const address = loopback(port);
  return connecting(std::move(socket), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

descriptor begin_connect(const std::string& path) {
  descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) throw_errno("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw error(errc::invalid_argument, "the path of a unix socket is too long, shorten TMPDIR: " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return connecting(std::move(socket), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

transfer read_now(int fd, char* to, std::size_t size) {
  for (;;) {
    ssize_t const n = ::recv(fd, to, size, 0);
    if (n > 0) return {transfer::state::moved, static_cast<std::size_t>(n)};
    if (n == 0) return {transfer::state::ended};
    if (errno == EINTR) continue;
    // ENOTCONN: it is still being connected.
    bool const later = errno == EAGAIN || errno == ENOTCONN;
    return {later ? transfer::state::would_block : transfer::state::failed};
  }
}

transfer write_now(int fd, const char* from, std::size_t size) {
  for (;;) {
    ssize_t const n = ::send(fd, from, size, MSG_NOSIGNAL);
    if (n >= 0) return {transfer::state::moved, static_cast<std::size_t>(n)};
    if (errno == EINTR) continue;
    return {errno == EAGAIN ? transfer::state::would_block : transfer::state::failed};
  }
}

void hang_up(descriptor& socket) {
  if (!socket) return;
  std::array<char, 16'384> rest;
  // Bounded, for the other side may write faster than this reads.
  for (int i = 0; i < 1000 && read_now(socket.get(), rest.data(), rest.size()).what == transfer::state::moved; ++i) {
  }
  socket.close();
}

void reset(descriptor& socket) {
  if (!socket) return;
  linger const now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  socket.close();
}

bool wait_for(int fd, short events, const deadline& until) {
  for (;;) {
    pollfd one{.fd = fd, .events = events, .revents = 0};
    int const n = ::poll(&one, 1, until.left_ms());
    if (n > 0) return true;
    if (n == 0 && until.over()) return false;
    if (n < 0 && errno != EINTR) throw_errno("poll");
  }
}

void throw_errno(const std::string& what) {
  throw error(errc::unavailable, "the test kit: " + what + ": " + std::system_category().message(errno));
}

}  // namespace ergon::test
