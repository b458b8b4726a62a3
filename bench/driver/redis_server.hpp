// A Redis server for the rows that need one: the driver's own, on a free port of 127.0.0.1, without persistence, in a folder of the run.
// It dies with the driver. Owned by the driver's only thread.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <filesystem>
#include <string>

namespace ergon::bench {

class redis_server {
 public:
  /// Returns once it answers. Throws `std::runtime_error` with what is missing or what it wrote.
  explicit redis_server(const std::filesystem::path& folder);
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;
  ~redis_server();

  /// redis://127.0.0.1:PORT
  [[nodiscard]] std::string url() const;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  /// What it was started with, for the record.
  [[nodiscard]] static std::string settings();

  /// Nothing of an earlier row is left in it, and the memory of it is given back. Throws where it does not answer.
  void clear();

 private:
  void start(const std::filesystem::path& program);
  bool answers();
  void stop() noexcept;
  /// Sends an inline command and returns the first `limit` bytes of the answer; empty if there was none.
  [[nodiscard]] std::string ask(const std::string& command, std::size_t limit) const;

  std::filesystem::path folder_;
  std::uint16_t port_ = 0;
  pid_t pid_ = 0;
  std::string version_;
};

}  // namespace ergon::bench
