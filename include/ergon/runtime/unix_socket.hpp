// Connections within one machine through a path of the file system: `unix_stream` and `unix_listener`. What both sides of a connection can
// do stands in byte_stream.hpp.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

class ERGON_EXPORT unix_stream : public byte_stream {
 public:
  unix_stream() = default;

  /// Connects to who listens at `path`; while its queue is full, waits. Cancellable. Throws `errc::unavailable` with the path if nobody
  /// does, `errc::timed_out`, `errc::invalid_argument` for a path that is empty or longer than 107 bytes.
  [[nodiscard]] static task<unix_stream> connect(std::string path, io_options options = {});

  /// Two streams that are connected with each other, for two tasks of this process or for a child. Throws `errc::unavailable` if the process
  /// has no descriptor left.
  [[nodiscard]] static std::pair<unix_stream, unix_stream> pair();

  /// The user whose process opened the other side. Throws `errc::closed` after `close`.
  [[nodiscard]] unsigned peer_user() const;

 private:
  friend class unix_listener;
  explicit unix_stream(detail::stream_ref state) noexcept : byte_stream(std::move(state)) {}
  static task<unix_stream> connect_now(std::string path);
};

struct unix_listen_options {
  /// Who may connect, as the permissions of a file: only the same user by default.
  unsigned mode = 0600;
  /// Connections that the system keeps until they are accepted.
  int backlog = 1024;
};

/// Any number of tasks may use it in turn, one at a time. `close` may come from any thread.
class ERGON_EXPORT unix_listener {
 public:
  unix_listener() = default;
  /// A socket that nobody listens at any more is replaced; anything else that has the path is left alone. Needs no runtime. Throws
  /// `errc::unavailable` if somebody listens there, if the path is taken by what is no socket, or if it cannot be made;
  /// `errc::invalid_argument` as `unix_stream::connect`.
  [[nodiscard]] static unix_listener bind(std::string path, unix_listen_options options = {});
  unix_listener(unix_listener&&) noexcept = default;
  unix_listener& operator=(unix_listener&& other) noexcept {
    if (this != &other) {
      close();
      path_ = std::exchange(other.path_, {});
      made_ = other.made_;
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~unix_listener() { close(); }

  class ERGON_EXPORT accept_operation : public detail::accept_wait {
   public:
    explicit accept_operation(detail::stream_state& on) noexcept : accept_wait(on) {}
    ~accept_operation() = default;
    unix_stream await_resume();
  };

  /// As `tcp_listener::accept`.
  [[nodiscard]] accept_operation accept() { return accept_operation{*state_}; }
  [[nodiscard]] auto accept(io_options options) { return detail::limited<accept_operation>{options.timeout, *state_}; }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Removes the socket from the file system, if it is still this one. A task that waits here gets `errc::closed`.
  void close() noexcept;

 private:
  // Which file was made, so that no other is removed.
  struct file {
    unsigned long device = 0;
    unsigned long number = 0;
  };
  unix_listener(detail::stream_ref state, std::string path, file made) noexcept
      : state_(std::move(state)), path_(std::move(path)), made_(made) {}
  detail::stream_ref state_;
  std::string path_;
  file made_;
};

}  // namespace ergon
