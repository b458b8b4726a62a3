// One of a worker's places for a running handler: the job that it runs now, how it ended, what the handler reported meanwhile.
// Used again for job after job, so that a job allocates nothing.
//
// Who touches what. The worker's lock guards everything but what is marked; while a job runs, `job`, `entry`, `started` do not
// change, and `end` belongs to the handler. `told_lock` guards what the handler may ask for or say from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include <ergon/base/log.hpp>
#include <ergon/broker/batch.hpp>
#include <ergon/queue/handler.hpp>
#include <ergon/queue/job_context.hpp>
#include <ergon/runtime/root.hpp>

#include "queue/kind_entry.hpp"

namespace ergon::detail {

class worker_core;
class parking;

/// A fetched batch and how many of its jobs are not settled yet.
struct held_batch {
  delivery_batch batch;
  std::size_t open = 0;
};

/// A job that the worker holds.
struct held_job {
  const delivery* job = nullptr;
  held_batch* batch = nullptr;
  kind_entry* entry = nullptr;
  steady_time since{};
  /// A suspect: it has been marked, nothing else runs, and somebody waits for its settlement.
  bool alone = false;
};

/// Why a handler was told to stop.
enum class stop_cause : std::uint8_t { none, timed_out, past_deadline, lost, shutdown };

struct attempt {
  explicit attempt(worker_core& of) noexcept : context(*this), worker(of) {}

  job_context context;
  worker_core& worker;

  held_job held;
  std::chrono::milliseconds timeout{0};
  bool running = false;
  /// Its job has been settled without it.
  bool given_up = false;
  /// A look at the calendar decides whether `due` is the deadline's.
  bool due_by_deadline = false;
  steady_time started{};
  steady_time due = steady_time::max();
  steady_time stopped_at{};
  /// Written under the worker's lock, read anywhere.
  std::atomic<stop_cause> cause{stop_cause::none};
  /// The root that runs here; the runner puts it in.
  root_ref<task_root> root;
  /// The wait for the next job, while there is one.
  parking* parked = nullptr;
  /// Was woken to go on with the chain of wake-ups.
  bool woken = false;

  attempt_end end;

  // Under told_lock.
  std::mutex told_lock;
  /// Something below was made or said, and has to be cleared before the next job. Also read without the lock once the handler is over.
  std::atomic<bool> told{false};
  std::atomic<bool> token_taken{false};
  std::string id;
  std::optional<std::stop_source> stop;
  std::optional<ergon::logger> log;
  double progress = 0;
  std::string note;
  bool progressed = false;

  void forget_told() noexcept {
    if (!told.load(std::memory_order_acquire)) return;
    const std::scoped_lock lock{told_lock};
    told.store(false, std::memory_order_relaxed);
    token_taken.store(false, std::memory_order_relaxed);
    id.clear();
    stop.reset();
    log.reset();
    note.clear();
    progressed = false;
  }
};

}  // namespace ergon::detail
