// What came of it all, for people and for programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "files.hpp"

namespace demo {

struct report {
  selection input;
  std::string broker;
  unsigned workers = 0;

  /// Of the files that were digested.
  std::uint64_t lines = 0;
  std::uint64_t words = 0;

  /// From the first enqueue to the last completion.
  std::chrono::nanoseconds elapsed{0};
  std::chrono::nanoseconds checking{0};

  /// The worker that was killed, and how many jobs were under its leases at that moment.
  unsigned killed = 0;
  unsigned replacement = 0;
  std::uint64_t held = 0;

  /// Jobs that were taken over from a lost worker: as the jobs count it, and as the queue does.
  std::uint64_t redelivered = 0;
  std::uint64_t reclaimed = 0;
  std::uint64_t completed = 0;
  /// Jobs that ended, but not well.
  std::uint64_t failed = 0;
  /// Jobs that the store does not know any more, or never ended.
  std::uint64_t lost = 0;
  std::uint64_t mismatches = 0;
  /// Files that somebody wrote to or removed while the demo ran: they prove nothing.
  std::uint64_t changed = 0;
  /// The first few things that went wrong, each a sentence.
  std::vector<std::string> faults;

  /// Notes a fault unless there are many already.
  void blame(std::string sentence);
  [[nodiscard]] bool good() const noexcept;
  [[nodiscard]] double jobs_per_second() const noexcept;
};

/// The table, and the verdict below it.
void print_table(const report& what, bool colour);
/// One JSON document on a line.
void print_json(const report& what);

}  // namespace demo
