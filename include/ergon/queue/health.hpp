// How a worker is, as plain values: for a probe, a dashboard, a log line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ergon/base/export.hpp>

namespace ergon {

/// What a worker has done with one kind since it started.
struct kind_statistics {
  std::string kind;
  std::uint64_t completed = 0;
  /// Attempts that failed: retried, buried, timed out.
  std::uint64_t failed = 0;
  /// Called off by the handler or from outside.
  std::uint64_t cancelled = 0;
  /// Time in the handler, summed over the attempts that ended.
  std::chrono::nanoseconds total{0};
  std::chrono::nanoseconds longest{0};
  /// From a histogram: at most a quarter too high.
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p95{0};
  std::chrono::nanoseconds p99{0};
};

/// A handler that was told to stop and has not.
struct overdue_handler {
  std::string id;
  std::string kind;
  std::string queue;
  std::uint32_t attempt = 1;
  /// Since it was told to stop.
  std::chrono::nanoseconds since{0};
  /// The job has been settled without it; the slot stays taken.
  bool given_up = false;
};

struct worker_health {
  /// It has joined its broker, takes jobs, and is not shutting down.
  bool ready = false;
  /// It makes progress, or waits for something that is right to wait for. False: restart the process.
  bool live = true;
  /// Neither is wrong with it: `reasons` is empty.
  [[nodiscard]] bool healthy() const noexcept { return live && reasons.empty(); }
  /// What a person should look at, each a sentence: a store that does not answer, kinds that nobody handles here, records of a
  /// newer release, handlers that do not stop.
  std::vector<std::string> reasons;

  std::uint32_t concurrency = 0;
  /// Handlers that have started and not returned.
  std::uint32_t running = 0;
  /// Held but not started.
  std::uint32_t waiting = 0;
  /// Ended, and not yet acknowledged by the store.
  std::uint32_t settling = 0;
  std::vector<overdue_handler> overdue;

  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  /// Buried by this worker or by the broker after this worker's settlement.
  std::uint64_t buried = 0;
  std::uint64_t discarded = 0;
  std::uint64_t handed_back = 0;
  /// Leases that ran out or were cancelled from outside while this worker held them.
  std::uint64_t lost = 0;
  std::vector<kind_statistics> kinds;
};

}  // namespace ergon
