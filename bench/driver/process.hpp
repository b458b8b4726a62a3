// Runs one program to its end and says what it printed and what it cost. One at a time, on the driver's only thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ergon::bench {

struct child_end {
  /// The exit code, or 128 + the signal.
  int code = 0;
  bool timed_out = false;
  /// The driver was asked to stop (SIGINT, SIGTERM) while it ran.
  bool interrupted = false;
  std::string out;
  /// The last 4 KB of what it wrote to standard error.
  std::string err;
  /// The most memory that the program or one of the processes that it waited for ever had, as the kernel accounts it.
  std::uint64_t peak_rss_kb = 0;
  /// Of the program and the processes that it waited for.
  double cpu_seconds = 0;
  double wall_seconds = 0;
};

/// Starts `program` in a process group of its own, waits for it and reaps it; past `limit` the group is killed. The program dies with
/// the driver. Throws `std::system_error` where it cannot be started.
[[nodiscard]] child_end run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  std::chrono::seconds limit);

/// From now on SIGINT and SIGTERM end the child under way and set `stop_requested`.
void catch_stop_signals();
[[nodiscard]] bool stop_requested() noexcept;

}  // namespace ergon::bench
