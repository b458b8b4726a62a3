// `redis_server`: a real server for one test, with a folder and a port of its own on 127.0.0.1. It dies with the test, also when the test
// is killed. One thread at a time.
//
// Which program: the environment's ERGON_TEST_REDIS, else redis-server in PATH, else redis-check-rdb in PATH, which is the same program
// and looks at the name it is called by: Debian's package redis-tools ships it under that name, and starts no service. A test without a
// server fails and says what to install; it is not skipped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "servers/certificates.hpp"
#include "servers/loopback.hpp"
#include "servers/plain_client.hpp"
#include "servers/resp.hpp"

namespace ergon::test {

/// Throws `errc::not_found` with what to install.
[[nodiscard]] std::filesystem::path redis_program();
/// The environment's ERGON_TEST_VALKEY; nothing if it is not set. Throws `errc::not_found` if it is no program.
[[nodiscard]] std::optional<std::filesystem::path> valkey_program();

/// Readable for poll(2) once that process has ended; empty if there is none.
[[nodiscard]] descriptor watch_process(pid_t pid);

class redis_server {
 public:
  struct options {
    /// What was acknowledged survives `kill`: it is written before the answer, though not synced.
    bool append_only = false;
    /// Snapshots by Redis's own rules.
    bool save = false;
    bool unix_socket = true;
    /// Listens on a second port with TLS, and trusts the clients of `certs().authority`.
    bool tls = false;
    /// With TLS: refuses clients that show no certificate.
    bool tls_client_certificates = false;
    /// `requirepass`; `command` knows it.
    std::string password = {};
    /// Further arguments: {"--maxmemory", "10mb"}.
    std::vector<std::string> extra = {};
    /// Empty: `redis_program()`.
    std::filesystem::path program = {};
    /// How long starting, stopping and each command may take.
    std::chrono::milliseconds patience = default_patience;
  };

  redis_server();
  /// Returns once it answers. Throws `errc::unavailable` with the end of its log if it does not.
  explicit redis_server(options wanted);
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;
  ~redis_server();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }
  /// redis://127.0.0.1:PORT
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::string socket_path() const { return folder_ / "redis.sock"; }
  [[nodiscard]] std::uint16_t tls_port() const noexcept { return tls_port_->number(); }
  /// rediss://127.0.0.1:PORT
  [[nodiscard]] std::string tls_url() const;
  /// With TLS only.
  [[nodiscard]] const certificates& certs() const noexcept { return *certificates_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] std::string log() const;
  /// False also for one that ended by itself.
  [[nodiscard]] bool is_running() const;

  /// Sends a command on a connection that is kept from call to call. Throws if it cannot be sent or is not answered.
  reply command(const command_words& words);

  /// SIGKILL, and waits for its end. Does nothing if it does not run.
  void kill();
  /// SIGTERM, and waits for its end; thaws it first. Throws `errc::timed_out` if it does not end by itself, and kills it.
  void stop();
  /// On the same port and folder, after `kill`, `stop` or its own end. Throws `errc::wrong_state` if it runs.
  void start();
  /// SIGSTOP: it keeps its connections, and more are accepted by the system, but nobody answers. In force on return.
  void freeze();
  void thaw();

 private:
  enum class outcome { ready, port_taken, failed };

  [[nodiscard]] std::vector<std::string> arguments() const;
  [[nodiscard]] plain_client connect() const;
  void launch();
  outcome wait_until_it_answers(const deadline& until);
  bool answers(std::chrono::milliseconds patience);
  void reap();
  [[nodiscard]] std::string log_tail() const;

  options options_;
  std::filesystem::path program_;
  std::filesystem::path folder_;
  std::optional<certificates> certificates_;
  reserved_port port_;
  std::optional<reserved_port> tls_port_;
  std::optional<plain_client> client_;
  // The process: a child of ours until it is reaped, so its id is nobody else's.
  pid_t pid_ = 0;
  descriptor process_;
  // Clients may know the port.
  bool has_started_ = false;
  // Where in the log the present process began.
  std::uintmax_t log_start_ = 0;
};

}  // namespace ergon::test
