// The greeting of a connection, without a connection: what to send first, and what the answers mean.
//
// HELLO 3 with name and password, the client's name, the database, `INFO server`, and a PING, which a server that is still loading does not
// answer: all in one round trip. A server that does not know HELLO is greeted again with AUTH, in RESP2.
#pragma once

#include <cstdint>
#include <string>

#include <ergon/base/export.hpp>
#include <ergon/redis/command.hpp>
#include <ergon/redis/options.hpp>
#include <ergon/redis/reply.hpp>

namespace ergon::redis {

/// What a server says of itself.
struct server_info {
  /// `7.0.15`.
  std::string version = {};
  /// Another one after each start of the server; empty where INFO is not permitted.
  std::string run_id = {};
  /// `master` or `slave`; empty where the server does not say.
  std::string role = {};
  /// `standalone`, `sentinel`, `cluster`.
  std::string mode = {};
  /// What the server calls this connection; 0 where it does not say.
  std::int64_t client_id = 0;
  /// Of the protocol: 2 or 3.
  int resp = 3;

  /// True if its version is at least this.
  [[nodiscard]] ERGON_EXPORT bool is_at_least(int major, int minor = 0) const noexcept;
};

/// One greeting. Not thread-safe.
class ERGON_EXPORT handshake {
 public:
  /// The options must outlive it.
  explicit handshake(const connection_options& options);

  /// What is to be sent now; as many answers belong to it as it has commands.
  [[nodiscard]] const commands& to_send() const noexcept { return out_; }
  /// Takes the next answer. True: all that was sent is answered; `done` says whether there is more to send. Throws `server_error` where the server
  /// refuses, `errc::bad_reply`.
  bool take(value answer);
  [[nodiscard]] bool done() const noexcept { return stage_ == stage::done; }
  /// Once it is done.
  [[nodiscard]] const server_info& server() const noexcept { return server_; }

 private:
  enum class stage : std::uint8_t { hello, plain, done };
  enum class question : std::uint8_t { hello, auth, name, database, info, ping, client_id, role };

  void ask(question what);
  void ask_for_the_rest();
  [[nodiscard]] bool has_credentials() const noexcept { return !options_->password.empty() || !options_->user.empty(); }
  void read_info(std::string_view text);

  const connection_options* options_;
  stage stage_ = stage::hello;
  commands out_;
  question asked_[8] = {};
  std::size_t count_ = 0;
  std::size_t answered_ = 0;
  bool greet_again_ = false;
  server_info server_;
};

}  // namespace ergon::redis
