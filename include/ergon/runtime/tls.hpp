// TLS: `tls_stream`, a byte stream that encrypts what another carries (TCP or a unix socket). The other side's certificate is checked, its
// name included, unless that is turned off.
//
//   auto const trust = ergon::tls_context::client({.ca_file = "ca.pem"});
//   auto stream = co_await ergon::tls_stream::connect("db.example", 6380, trust, {.timeout = 5s});
//
// TLS 1.2 and 1.3. The end of a stream is announced inside the encryption: a connection that breaks off without is `errc::connection_lost`
// for who reads, since what came may be cut off.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/tcp.hpp>

namespace ergon {

/// Files are PEM.
struct tls_client_options {
  /// Who is trusted to sign certificates; those that the system trusts if empty.
  std::string ca_file = {};
  /// What this side shows of itself where the server asks for it; both or none.
  std::string certificate_file = {};
  std::string key_file = {};
  /// The name that the server's certificate must be for, and that is asked for; the host that is connected to if empty.
  std::string server_name = {};
  /// Without, anybody in between may read and change everything: for tests.
  bool verify = true;
};

struct tls_server_options {
  /// What this side shows of itself: its certificate, those between it and the root behind it, and its key.
  std::string certificate_file = {};
  std::string key_file = {};
  /// If given, a client must show a certificate that one of these has signed.
  std::string client_ca_file = {};
};

namespace detail {
class tls_settings;
}

/// What connections have in common; made once and shared. A value; any thread.
class ERGON_EXPORT tls_context {
 public:
  /// Read the files, which blocks. Throw `errc::invalid_argument` with the file's name and the reason where one cannot be used.
  [[nodiscard]] static tls_context client(tls_client_options options = {});
  [[nodiscard]] static tls_context server(tls_server_options options);

 private:
  friend class tls_stream;
  explicit tls_context(std::shared_ptr<const detail::tls_settings> settings) noexcept : settings_(std::move(settings)) {}
  std::shared_ptr<const detail::tls_settings> settings_;
};

/// A write that was stopped or timed out leaves half a record behind: later writes fail with `errc::connection_lost`.
class ERGON_EXPORT tls_stream : public byte_stream {
 public:
  tls_stream() = default;

  /// Connects and shakes hands; the timeout is for both. Throws as `tcp_stream::connect` and `handshake`.
  [[nodiscard]] static task<tls_stream> connect(std::string host, std::uint16_t port, tls_context context,
                                                tcp_connect_options options = {});

  /// Shakes hands over a connection, as the side that the context is for; a client checks the server for the context's `server_name`, else
  /// for `host`. Cancellable; the connection is closed where it fails. Throws `errc::not_trusted` with what is wrong with the
  /// certificate, `errc::unavailable` where the other side breaks off or speaks no TLS that is accepted, `errc::invalid_argument`
  /// without a name to check, or over a stream that is encrypted already.
  [[nodiscard]] static task<tls_stream> handshake(byte_stream over, tls_context context, std::string host = {},
                                                  io_options options = {});

  /// What was agreed on: `TLSv1.3`.
  [[nodiscard]] std::string protocol() const;

 private:
  explicit tls_stream(detail::stream_ref state) noexcept : byte_stream(std::move(state)) {}
  static task<tls_stream> connect_now(std::string host, std::uint16_t port, tls_context context, tcp_connect_options options);
};

}  // namespace ergon
