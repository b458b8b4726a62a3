// `link`: one connection to one server, greeted and ready. Commands go out, replies come back in their order; nothing is repeated, and nothing
// is shared: for blocking reads, for subscriptions, and under `client` (client.hpp), which shares one between many.
//
//   auto with = co_await ergon::redis::link::open(options);
//   co_await with.send(asked);
//   co_await with.receive(answer);     // once for each command
//
// One task may send while another receives. A wait that is cancelled or runs out of time leaves the link between two replies: whoever is not sure
// that nothing is owed closes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/redis/command.hpp>
#include <ergon/redis/handshake.hpp>
#include <ergon/redis/options.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/redis/reply_parser.hpp>
#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::redis {

class ERGON_EXPORT link {
 public:
  link() = default;

  /// Connects and greets, within `connect_timeout`. Cancellable. Throws `errc::unavailable` where nobody answers, `errc::timed_out`, `errc::not_trusted`,
  /// `server_error` where the server refuses the greeting; each with the server's name in its text.
  [[nodiscard]] static task<link> open(connection_options options);

  /// Writes the commands; they and the link must stay until it has ended. Throws `errc::connection_lost`, `errc::closed`.
  [[nodiscard]] auto send(std::string_view commands) { return stream_.write_all(commands); }
  [[nodiscard]] auto send(const commands& these) { return stream_.write_all(these.bytes()); }
  /// Waits for the next whole reply, a push among them. Throws `errc::connection_lost`, `errc::closed`, `errc::bad_reply`, `errc::timed_out`.
  [[nodiscard]] task<void> receive(reply& into, io_options options = {});

  /// An answer is due within about so long; see `byte_stream::look_out`.
  void look_out(std::chrono::nanoseconds span) noexcept { stream_.look_out(span); }

  /// Ends what is under way. From any thread.
  void close() noexcept { stream_.close(); }
  [[nodiscard]] const server_info& server() const noexcept { return server_; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(stream_); }

 private:
  friend class multiplexer;

  [[nodiscard]] static task<link> open_now(connection_options options);
  /// What has come and was not parsed.
  [[nodiscard]] std::span<const char> unread() const noexcept { return {buffer_.data() + begin_, end_ - begin_}; }
  /// Waits for more bytes; nothing is unread. Throws `errc::connection_lost` where there is no more.
  [[nodiscard]] task<void> read_more(io_options options = {});

  byte_stream stream_;
  server_info server_;
  reply_parser parser_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string name_;
};

}  // namespace ergon::redis
