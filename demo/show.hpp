// The demo from beginning to end: choose files, start workers, put one job in for each file, kill a worker half-way, wait, check.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace demo {

struct show_options {
  std::vector<std::string> folders;
  /// At most so many files.
  std::size_t files = 20'000;
  /// Worker processes; at least 2, or the death of one would stop the work.
  unsigned workers = 2;
  /// Handlers at once in each.
  unsigned concurrency = 2;
  /// Empty: a SQLite store in a folder of its own, which is removed at the end.
  std::string broker;
  bool keep = false;
  bool json = false;
};

/// Returns the exit code: 0 where every digest is right and the killed worker held leases, else 1; 130 after an interrupt. Throws
/// `ergon::error` and `std::runtime_error`.
[[nodiscard]] int run_show(const show_options& options);

}  // namespace demo
