#include <ergon/redis/link.hpp>

#include <span>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/tcp.hpp>
#include <ergon/runtime/tls.hpp>
#include <ergon/runtime/unix_socket.hpp>

namespace ergon::redis {

namespace {

constexpr std::size_t read_buffer = std::size_t{64} * 1024;

task<byte_stream> connect(const connection_options& options) {
  if (!options.socket_path.empty()) {
    co_return co_await unix_stream::connect(options.socket_path);
  }
  if (options.tls) {
    // Reads files, a few and small.
    const auto context = tls_context::client(*options.tls);
    co_return co_await tls_stream::connect(options.host, options.port, context);
  }
  co_return co_await tcp_stream::connect(options.host, options.port);
}

}  // namespace

task<link> link::open(connection_options options) {
  const std::string name = options.shown();
  const auto limit = options.connect_timeout;
  try {
    co_return co_await timeout(limit, open_now(std::move(options)));
  } catch (const error& e) {
    if (e.reason() != errc::timed_out) throw;
    throw error{errc::timed_out, fmt::format("{} did not answer within {} ms", name,
                                             std::chrono::duration_cast<std::chrono::milliseconds>(limit).count())};
  }
}

task<link> link::open_now(connection_options options) {
  link made;
  made.name_ = options.shown();
  made.stream_ = co_await connect(options);
  made.buffer_.resize(read_buffer);
  handshake greeting{options};
  reply answer;
  while (!greeting.done()) {
    co_await made.send(greeting.to_send());
    do {
      answer.clear();
      co_await made.receive(answer);
    } while (!greeting.take(answer.root()));
  }
  made.server_ = greeting.server();
  co_return made;
}

task<void> link::receive(reply& into, io_options options) {
  for (;;) {
    if (begin_ == end_) co_await read_more(options);
    begin_ += parser_.feed(unread(), into);
    if (parser_.whole()) co_return;
  }
}

task<void> link::read_more(io_options options) {
  const auto into = std::as_writable_bytes(std::span{buffer_});
  const std::size_t got = co_await stream_.read_some(into, options);
  if (got == 0) throw error{errc::connection_lost, fmt::format("{} has closed the connection", name_)};
  begin_ = 0;
  end_ = got;
}

}  // namespace ergon::redis
