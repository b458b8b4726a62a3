// Where a Redis server is and how to talk to it.
//
//   redis://[user:password@]host[:port][/db][?option=value…]     TCP
//   rediss://…                                                    TLS, the server's certificate is checked
//   unix:/path/to/socket[?db=n&user=u&password=p…]                a unix socket
//
// Options of the URL: `tls_ca`, `tls_cert`, `tls_key` (files, PEM), `tls_name`, `tls_verify`, `connect_timeout`, `response_timeout`, `patience`,
// `look_out`, `connections`, `client_name`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/backoff.hpp>
#include <ergon/base/export.hpp>
#include <ergon/base/url.hpp>
#include <ergon/runtime/tls.hpp>

namespace ergon::redis {

struct connection_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  /// A unix socket; then host and port do not count.
  std::string socket_path = {};
  /// Over TLS if there is a value.
  std::optional<tls_client_options> tls = {};

  /// Of Redis 6 and later; `default` where only a password is given.
  std::string user = {};
  std::string password = {};
  std::uint32_t database = 0;
  /// What `CLIENT LIST` shows.
  std::string client_name = "ergon";

  /// From the first byte to a connection that is ready: names, TCP, TLS, greeting.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// A server that owes an answer for so long counts as gone; the connection is closed and made anew.
  std::chrono::nanoseconds response_timeout = std::chrono::seconds{5};
  /// Commands wait for so long for a server that is away; then they fail, and nothing of them was sent.
  std::chrono::nanoseconds patience = std::chrono::seconds{5};
  /// While an answer is due and came sooner than this lately, its worker looks for it rather than goes to sleep: being woken takes longer than a round
  /// trip to a server nearby. A server farther away and a busy machine turn that off by themselves; 0 turns it off for good.
  std::chrono::nanoseconds look_out = std::chrono::microseconds{100};
  /// Between attempts to connect: drawn from half of the bound to all of it.
  backoff_options reconnect = {.base = std::chrono::milliseconds{50}, .factor = 2.0, .cap = std::chrono::seconds{10}};

  /// Connections that commands are spread over. Each has its own order of commands.
  std::uint32_t connections = 1;
  /// Commands that wait for their answers on one connection; who comes then waits for room.
  std::size_t most_in_flight = 16'384;
  /// The same in bytes that are not yet sent.
  std::size_t most_unsent = std::size_t{64} << 20U;

  /// For messages: `redis 127.0.0.1:6379`. Without secrets.
  [[nodiscard]] ERGON_EXPORT std::string shown() const;
};

/// Throws `errc::bad_url` for an option or a value that is none, `errc::unknown_scheme` for another scheme.
[[nodiscard]] ERGON_EXPORT connection_options read_options(const url& from, option_reader& options);
/// The same for a URL that holds nothing but what is said above.
[[nodiscard]] ERGON_EXPORT connection_options read_options(std::string_view from);

}  // namespace ergon::redis
