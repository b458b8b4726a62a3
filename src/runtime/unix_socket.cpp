// See unix_socket.hpp.
#include <ergon/runtime/unix_socket.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "runtime/named_timeout.hpp"
#include "runtime/owned_descriptor.hpp"
#include "runtime/socket.hpp"

namespace ergon {

namespace {

struct unix_address {
  ::sockaddr_un bytes{};
  ::socklen_t size = 0;
  [[nodiscard]] const ::sockaddr* get() const noexcept { return reinterpret_cast<const ::sockaddr*>(&bytes); }
};

unix_address address_of(const std::string& path) {
  unix_address made;
  std::size_t const most = sizeof made.bytes.sun_path - 1;
  if (path.empty() || path.size() > most || path.find('\0') != std::string::npos) {
    throw error(errc::invalid_argument, "the path of a unix socket, \"" + path + "\", has " + std::to_string(path.size()) +
                                            " bytes; it must have 1 to " + std::to_string(most) + ", none of them zero");
  }
  made.bytes.sun_family = AF_UNIX;
  std::memcpy(made.bytes.sun_path, path.data(), path.size());
  made.size = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + path.size() + 1);
  return made;
}

detail::owned_descriptor make_socket(const std::string& what) {
  int const made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) {
    detail::refuse(what, errno);
  }
  return detail::owned_descriptor{made};
}

detail::stream_ref stream_on(detail::owned_descriptor& descriptor, bool spread, std::string name) {
  detail::stream_ref made{new detail::socket(descriptor.get(), spread, std::move(name))};
  descriptor.release();
  return made;
}

// Who connects while the listener's queue is full is told nothing when there is room again.
constexpr std::chrono::milliseconds shortest_pause{1};
constexpr std::chrono::milliseconds longest_pause{50};

}  // namespace

task<unix_stream> unix_stream::connect_now(std::string path) {
  unix_address const address = address_of(path);
  std::string const what = "connecting to unix " + path + " failed";
  auto pause = shortest_pause;
  for (;;) {
    detail::owned_descriptor made = make_socket(what);
    int failed = ::connect(made.get(), address.get(), address.size) == 0 ? 0 : errno;
    if (failed == 0) {
      co_return unix_stream{stream_on(made, true, "unix " + path)};
    }
    if (failed != EAGAIN && failed != EINTR) {
      detail::refuse(what, failed);
    }
    co_await sleep_for(pause);
    pause = std::min(2 * pause, longest_pause);
  }
}

task<unix_stream> unix_stream::connect(std::string path, io_options options) {
  std::string what = "connecting to unix " + path;
  return detail::named_timeout(options.timeout, std::move(what), connect_now(std::move(path)));
}

std::pair<unix_stream, unix_stream> unix_stream::pair() {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0) {
    detail::refuse("a pair of unix sockets cannot be made", errno);
  }
  detail::owned_descriptor one{both[0]};
  detail::owned_descriptor other{both[1]};
  unix_stream first{stream_on(one, true, "unix, one of a pair")};
  return {std::move(first), unix_stream{stream_on(other, true, "unix, one of a pair")}};
}

unsigned unix_stream::peer_user() const {
  ::ucred who{};
  ::socklen_t size = sizeof who;
  if (!static_cast<detail::socket&>(state()).with_descriptor(
          [&](int descriptor) { ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &size); })) {
    throw error(errc::closed, name() + " has no peer any more: it was closed on this side");
  }
  return who.uid;
}

unix_listener unix_listener::bind(std::string path, unix_listen_options options) {
  unix_address const address = address_of(path);
  std::string const what = "listening at unix " + path + " failed";
  struct ::stat found{};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) {
      throw error(errc::unavailable, what + ": the path is taken by something that is no socket; remove it, or choose another");
    }
    // Whoever died left it; who lives answers, or has a full queue.
    detail::owned_descriptor const probe = make_socket(what);
    if (::connect(probe.get(), address.get(), address.size) == 0 || errno == EAGAIN) {
      throw error(errc::unavailable, what + ": another process listens there");
    }
    if (errno != ECONNREFUSED) {
      detail::refuse(what, errno);
    }
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      detail::refuse(what + ": a socket that nobody listens at cannot be removed", errno);
    }
  }
  detail::owned_descriptor made = make_socket(what);
  // The mode that the file gets: nobody may connect between its making and its permissions.
  ::fchmod(made.get(), 0600);
  if (::bind(made.get(), address.get(), address.size) != 0) {
    detail::refuse(what, errno);
  }
  if (::lstat(path.c_str(), &found) != 0) {
    detail::refuse(what, errno);
  }
  unix_listener listener{
      stream_on(made, false, "unix " + path),
      path,
      {.device = static_cast<unsigned long>(found.st_dev), .number = static_cast<unsigned long>(found.st_ino)}};
  int failed = ::chmod(path.c_str(), options.mode) == 0 ? 0 : errno;
  if (failed == 0) {
    static_cast<detail::socket&>(*listener.state_).with_descriptor([&](int descriptor) {
      failed = ::listen(descriptor, options.backlog) == 0 ? 0 : errno;
    });
  }
  if (failed != 0) {
    detail::refuse(what, failed);
  }
  return listener;
}

void unix_listener::close() noexcept {
  if (state_.get() == nullptr || !made_.number) {
    return;
  }
  // First the name: who connects afterwards is told that nobody listens, not left in a queue.
  struct ::stat found{};
  if (::lstat(path_.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) && found.st_dev == made_.device &&
      found.st_ino == made_.number) {
    ::unlink(path_.c_str());
  }
  made_ = {};
  state_.get()->close();
}

unix_stream unix_listener::accept_operation::await_resume() {
  detail::owned_descriptor taken{take()};
  return unix_stream{stream_on(taken, true, state().name())};
}

}  // namespace ergon
