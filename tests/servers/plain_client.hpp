// `plain_client`: a client of poll(2) and bytes, by which the kit and its tests see what really goes over the wire. One thread at a time.
// Every wait is bounded and throws `errc::timed_out` at the end of the patience.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "servers/loopback.hpp"
#include "servers/resp.hpp"

namespace ergon::test {

class plain_client {
 public:
  /// Connects to 127.0.0.1. Throws `errc::unavailable` if that is refused.
  explicit plain_client(std::uint16_t port, std::chrono::milliseconds patience = default_patience);
  /// Connects to a unix socket.
  explicit plain_client(const std::string& path, std::chrono::milliseconds patience = default_patience);

  /// Throws `errc::connection_lost` if the other side is gone.
  void send(std::string_view bytes);
  /// Exactly so many bytes; throws `errc::connection_lost` if the other side ends before.
  [[nodiscard]] std::string read(std::size_t size);
  /// What comes within one read.
  [[nodiscard]] std::string read_some();
  /// Sends a command and reads its answer.
  reply command(const command_words& words);
  /// Reads one answer.
  [[nodiscard]] reply read_reply();

  struct ending {
    std::string text;
    bool was_reset = false;
  };
  /// Everything until the other side ends the connection.
  [[nodiscard]] ending read_to_end();

  /// Whether something can be read now: bytes, or the end.
  [[nodiscard]] bool is_readable() const;
  /// Nothing more will be sent; reading goes on.
  void shutdown_send();
  void close();
  /// Closes with a reset.
  void reset();

 private:
  void finish_connect(const std::string& to);
  // The state of what came; bytes are appended to `unread_`.
  transfer read_more();

  std::chrono::milliseconds patience_;
  descriptor socket_;
  std::string unread_;
};

}  // namespace ergon::test
