// TCP: `tcp_stream` and `tcp_listener`. What both sides of a connection can do stands in byte_stream.hpp.
//
//   auto listener = ergon::tcp_listener::bind({.port = 0});
//   ergon::spawn(serve(std::move(listener)));                        // … co_await listener.accept()
//   auto stream = co_await ergon::tcp_stream::connect("localhost", port, {.timeout = 5s});
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/endpoint.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

struct tcp_options {
  /// Sends small writes at once instead of waiting for more.
  bool no_delay = true;
  /// After so long without a byte the system asks whether the other side still lives, and ends the connection if it does not answer. In
  /// whole seconds; 0: it never asks.
  std::chrono::seconds keep_alive{0};
};

struct tcp_connect_options {
  /// For everything, the resolving included. No limit by default; the system gives up after about two minutes per address.
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  /// A host with several addresses: when the first has not answered for so long, or has failed, the next is tried beside it.
  std::chrono::nanoseconds next_address_after = std::chrono::milliseconds{250};
  tcp_options stream = {};
};

class ERGON_EXPORT tcp_stream : public byte_stream {
 public:
  tcp_stream() = default;

  /// Resolves the host and connects to the first of its addresses that answers, the two families in turn. Cancellable. Throws
  /// `errc::unavailable` with host, port and what each address answered, `errc::timed_out`, `errc::invalid_argument` for port 0.
  [[nodiscard]] static task<tcp_stream> connect(std::string host, std::uint16_t port, tcp_connect_options options = {});
  [[nodiscard]] static task<tcp_stream> connect(endpoint to, tcp_connect_options options = {});
  /// To the first of these that answers, in their order. `errc::invalid_argument` without any.
  [[nodiscard]] static task<tcp_stream> connect_any(std::vector<endpoint> to, tcp_connect_options options = {});

  /// Throws `errc::closed` after `close`.
  [[nodiscard]] endpoint local_endpoint() const;
  /// The same; `errc::connection_lost` if the other side is gone already.
  [[nodiscard]] endpoint remote_endpoint() const;

 private:
  friend class tcp_listener;
  explicit tcp_stream(detail::stream_ref state) noexcept : byte_stream(std::move(state)) {}
  static task<tcp_stream> connect_one(endpoint to, tcp_options options, std::string name);
  static task<tcp_stream> connect_first(std::vector<endpoint> to, std::string host, tcp_connect_options options);
  static task<tcp_stream> connect_host(std::string host, std::uint16_t port, tcp_connect_options options);
};

struct tcp_listen_options {
  /// Where connections are taken: only from this machine by default; `ip_address::any_v4()` takes all.
  ip_address address = ip_address::loopback_v4();
  /// 0: the system chooses one that is free.
  std::uint16_t port = 0;
  /// Connections that the system keeps until they are accepted.
  int backlog = 1024;
  /// Of each accepted stream.
  tcp_options stream = {};
};

/// Any number of tasks may use it in turn, one at a time. `close` may come from any thread.
class ERGON_EXPORT tcp_listener {
 public:
  tcp_listener() = default;
  /// Needs no runtime; it belongs to the first that waits here. Throws `errc::unavailable` with address and port if somebody else has
  /// the port or it may not be used.
  [[nodiscard]] static tcp_listener bind(tcp_listen_options options);

  class ERGON_EXPORT accept_operation : public detail::accept_wait {
   public:
    accept_operation(detail::stream_state& on, tcp_options options) noexcept : accept_wait(on), options_(options) {}
    ~accept_operation() = default;
    tcp_stream await_resume();

   private:
    tcp_options options_;
  };

  /// Waits for a connection; the streams are spread over the workers. Cancellable. Throws `errc::closed` after `close`, `errc::unavailable` if
  /// the process has no descriptor left: then wait a little, and go on.
  [[nodiscard]] accept_operation accept() { return {*state_, stream_}; }
  [[nodiscard]] auto accept(io_options options) { return detail::limited<accept_operation>{options.timeout, *state_, stream_}; }

  /// The address and the port that was chosen. Throws `errc::closed` after `close`.
  [[nodiscard]] endpoint local_endpoint() const;
  /// Frees the port. A task that waits here gets `errc::closed`.
  void close() noexcept {
    if (state_.get() != nullptr) {
      state_.get()->close();
    }
  }

 private:
  tcp_listener(detail::stream_ref state, tcp_options stream) noexcept : state_(std::move(state)), stream_(stream) {}
  detail::stream_ref state_;
  tcp_options stream_;
};

}  // namespace ergon
