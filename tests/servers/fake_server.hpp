// `fake_server`: a server that follows a script, for what no real server does on demand: answers in the wrong place, in pieces, late, or
// not at all. It speaks bytes; it reads commands as arrays of bulk strings, which is what clients send.
//
// One thread of its own serves all connections at once, each by the script of its number. The members may be called from any thread.
//
//   fake_server server({{expect({"HELLO", "3"}), send("+OK\r\n"), hang_up()},  // the first connection
//                       {expect_any(), hold(), send("+PONG\r\n")}});           // the second
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "servers/loopback.hpp"
#include "servers/poll_thread.hpp"
#include "servers/resp.hpp"

namespace ergon::test {

/// One thing that the server does on a connection. Made by the functions in `steps`.
struct step {
  enum class kind { expect, send, hang_up, reset, hold, expect_end };
  kind what;
  /// The bytes to send, or what a command is expected to be, for people.
  std::string text = {};
  std::function<bool(const command_words&)> accepts = {};
  /// Bytes per write; 0 for as many as go.
  std::size_t piece = 0;
};
using script = std::vector<step>;

namespace steps {
/// The next command is this one, word by word. Anything else is a problem, and ends the connection.
[[nodiscard]] step expect(command_words command);
/// The next command is one that `accepts`; `what` says for people which that is.
[[nodiscard]] step expect(std::string what, std::function<bool(const command_words&)> accepts);
/// Any command.
[[nodiscard]] step expect_any();
[[nodiscard]] step send(std::string bytes);
/// `size` bytes per write.
[[nodiscard]] step send_in_pieces(std::string bytes, std::size_t size);
/// Closes. What the client sent without being asked is no problem: it may well send on until it sees the end.
[[nodiscard]] step hang_up();
/// Closes with a reset.
[[nodiscard]] step reset();
/// Neither reads nor writes until the test calls `release`.
[[nodiscard]] step hold();
/// The client closes, and sends nothing before.
[[nodiscard]] step expect_end();
}  // namespace steps

inline void fail_test(const std::string& problem) { ADD_FAILURE() << problem; }

struct fake_server_options {
  /// For every connection after those that have a script. Without it such a connection is a problem, and closed.
  std::optional<script> others = {};
  /// How long the members below wait.
  std::chrono::milliseconds patience = default_patience;
  /// Told of each problem by the destructor, unless `finish` was called.
  std::function<void(const std::string& problem)> on_problem = fail_test;
};

class fake_server {
 public:
  /// The first connection is served by the first script, and so on. After its last step a connection stays open, and whatever the
  /// client sends is a problem.
  explicit fake_server(std::vector<script> scripts, fake_server_options options = {});
  fake_server(const fake_server&) = delete;
  fake_server& operator=(const fake_server&) = delete;
  ~fake_server();

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port(); }
  /// redis://127.0.0.1:PORT
  [[nodiscard]] std::string url() const;

  /// One more script, for the first connection that has none.
  void serve(script next);
  /// Lets the first connection that comes to a `hold`, or stands at one, go on.
  void release();
  /// Lets this connection go on, now or once it comes to a `hold`. Connections count from 0.
  void release(std::size_t connection);

  struct seen {
    std::size_t connection;
    command_words words;
  };
  /// All commands so far in the order in which they were read, the unexpected included.
  [[nodiscard]] std::vector<seen> commands() const;
  [[nodiscard]] std::size_t connections() const;

  // These wait; false at the end of the patience.
  bool wait_for_connections(std::size_t count);
  bool wait_for_commands(std::size_t count);
  /// Until connections have come to a `hold` so many times in all.
  bool wait_for_holds(std::size_t count);
  /// Until every script has been followed to its end, or stands at a `hold`.
  bool wait_until_followed();

  /// Waits until every script has been followed or a problem is there, closes everything, and tells the problems. A script may end
  /// in a `hold` that nobody releases. Idempotent.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  struct connection {
    std::size_t number;
    descriptor socket;
    script steps;
    std::size_t at = 0;
    std::string unread = {};
    // Of the bytes of a `send`.
    std::size_t sent = 0;
    bool counted_hold = false;
    // Something went wrong here, so its script has no further claims.
    bool failed = false;

    [[nodiscard]] bool at_end() const { return at == steps.size(); }
    [[nodiscard]] bool holds() const { return !at_end() && steps[at].what == step::kind::hold; }
    [[nodiscard]] bool followed() const { return failed || at_end() || (holds() && at + 1 == steps.size()); }
  };
  enum class came { command, nothing, end };

  // All on the thread.
  void watch(std::vector<pollfd>& watched) const;
  void turn();
  void accept_all();
  void advance(connection& c);
  /// False if it has to wait.
  bool do_step(connection& c);
  bool do_expect(connection& c, const step& wanted);
  bool do_send(connection& c, const step& wanted);
  bool do_hold(connection& c);
  bool expect_silence(connection& c);
  came next_command(connection& c, command_words& words);
  void report(connection& c, const std::string& what);
  void publish();
  void end_all();

  template <class Condition>
  bool wait_until(Condition holds);

  fake_server_options options_;
  listener listener_;

  // The thread's.
  std::vector<script> scripts_;
  std::list<connection> connections_;
  std::size_t permits_ = 0;
  std::map<std::size_t, std::size_t> permits_of_;

  mutable std::mutex lock_;
  std::condition_variable changed_;
  // Under the lock.
  std::vector<seen> seen_;
  std::vector<std::string> problems_;
  std::size_t accepted_ = 0;
  std::size_t holds_ = 0;
  bool settled_ = false;

  bool finished_ = false;
  // Last: it uses all of the above.
  poll_thread thread_;
};

}  // namespace ergon::test
