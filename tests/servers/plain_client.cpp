#include "servers/plain_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <ergon/base/error.hpp>

namespace ergon::test {

plain_client::plain_client(std::uint16_t port, std::chrono::milliseconds patience)
    : patience_(patience), socket_(begin_connect(port)) {
  finish_connect("127.0.0.1:" + std::to_string(port));
}

plain_client::plain_client(const std::string& path, std::chrono::milliseconds patience)
    : patience_(patience), socket_(begin_connect(path)) {
  finish_connect(path);
}

void plain_client::finish_connect(const std::string& to) {
  if (!socket_) throw error(errc::unavailable, "the test kit: " + to + " takes no connection");
  if (!wait_for(socket_.get(), POLLOUT, deadline{patience_})) throw error(errc::timed_out, "the test kit: connecting to " + to);
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) {
    errno = failure;
    throw_errno("connecting to " + to);
  }
}

void plain_client::send(std::string_view bytes) {
  deadline const until{patience_};
  while (!bytes.empty()) {
    transfer const sent = write_now(socket_.get(), bytes.data(), bytes.size());
    if (sent.what == transfer::state::failed) throw error(errc::connection_lost, "the test kit: the other side is gone");
    bytes.remove_prefix(sent.bytes);
    if (sent.what == transfer::state::would_block && !wait_for(socket_.get(), POLLOUT, until)) {
      throw error(errc::timed_out, "the test kit: the other side takes no more bytes; not sent: " + std::to_string(bytes.size()));
    }
  }
}

transfer plain_client::read_more() {
  deadline const until{patience_};
  std::array<char, 16'384> part;
  for (;;) {
    transfer const came = read_now(socket_.get(), part.data(), part.size());
    if (came.what != transfer::state::would_block) {
      unread_.append(part.data(), came.bytes);
      return came;
    }
    if (!wait_for(socket_.get(), POLLIN, until)) {
      throw error(errc::timed_out, "the test kit: nothing came; before it: " + printable(unread_));
    }
  }
}

std::string plain_client::read(std::size_t size) {
  while (unread_.size() < size) {
    if (read_more().what != transfer::state::moved) {
      throw error(errc::connection_lost, "the test kit: the connection ended after " + printable(unread_));
    }
  }
  std::string found = unread_.substr(0, size);
  unread_.erase(0, size);
  return found;
}

std::string plain_client::read_some() {
  if (unread_.empty() && read_more().what != transfer::state::moved) {
    throw error(errc::connection_lost, "the test kit: the connection ended");
  }
  return std::exchange(unread_, {});
}

reply plain_client::command(const command_words& words) {
  send(encode(words));
  return read_reply();
}

reply plain_client::read_reply() {
  for (;;) {
    if (std::optional<reply> found = take_reply(unread_)) return *std::move(found);
    if (read_more().what != transfer::state::moved) {
      throw error(errc::connection_lost, "the test kit: the connection ended before the answer, after " + printable(unread_));
    }
  }
}

plain_client::ending plain_client::read_to_end() {
  for (;;) {
    transfer const came = read_more();
    if (came.what == transfer::state::moved) continue;
    return {.text = std::exchange(unread_, {}), .was_reset = came.what == transfer::state::failed};
  }
}

bool plain_client::is_readable() const {
  pollfd one{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return !unread_.empty() || ::poll(&one, 1, 0) > 0;
}

void plain_client::shutdown_send() { ::shutdown(socket_.get(), SHUT_WR); }
void plain_client::close() { socket_.close(); }
void plain_client::reset() { test::reset(socket_); }

}  // namespace ergon::test
