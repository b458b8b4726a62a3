// The seam between the queue and its stores. A `broker` keeps jobs and moves them between states; a `consumer` is one
// worker's membership in it and the owner of that worker's leases. Neither knows handlers.
//
// Every member that returns a task may be awaited from any task of the runtime that the broker was opened with. Transitions
// (`enqueue`, `settle`, `mark`, `cancel`, …) are short and finish even if the awaiting task is cancelled; waits (`fetch`,
// `news`, `maintain`, `wait`) end at once when it is. Nothing is acknowledged before it is stored.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/broker/batch.hpp>
#include <ergon/broker/job.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// A queue that a worker takes from.
struct queue_share {
  std::string name{};
  /// Weighted: its part of what is fetched while several queues have jobs. Strict: higher is served first. 1 to 1000.
  std::uint32_t weight = 1;
};

/// How a worker presents itself to the store.
struct consumer_options {
  std::vector<queue_share> queues{};
  /// False: counts are shared out by weight. True: a queue is read only while all of higher weight are empty.
  bool strict = false;
  std::uint32_t concurrency = 1;
};

/// What a consumer learns without having asked.
struct consumer_news {
  /// Leases that are not this consumer's any more: cancelled, or taken after a silence. Their handlers must stop, and
  /// nothing about them may be settled.
  std::vector<lease_token> lost{};
};

/// One worker's membership. Destroying it without `leave` is what a crash looks like: the leases stay until they run out.
class ERGON_EXPORT consumer {
 public:
  consumer() = default;
  consumer(const consumer&) = delete;
  consumer& operator=(const consumer&) = delete;
  virtual ~consumer();

  /// The worker's id in the store, unique per process start.
  [[nodiscard]] virtual const std::string& id() const noexcept = 0;

  /// Waits until a job is ready in one of the queues and leases up to `max` (at least 1) into `out`, which is empty before.
  /// Counts are shared out as the options say. Stops early at about a megabyte of records. Paused queues give nothing. One
  /// call at a time.
  virtual task<void> fetch(std::size_t max, delivery_batch& out) = 0;

  /// Ends attempts, each in one step with everything that depends on it: locks, results, counters. `out` has the size of
  /// `what`. Throws `errc::store_full` where even a full store could not take it; nothing was changed then.
  virtual task<void> settle(std::span<const settlement> what, std::span<settled> out) = 0;

  /// Says that a suspect starts now: only a loss after this counts against it. False: the lease is lost.
  virtual task<bool> mark(lease_token lease) = 0;

  /// What a handler reports while it runs, for the inspector; `done` is 0 to 1. Losing a report is no error.
  virtual task<void> report(lease_token lease, double done, std::string_view note) = 0;

  /// Waits for news. One call at a time.
  virtual task<consumer_news> news() = 0;

  /// Keeps the store in order for as long as it is awaited: promotes what is due, takes over from dead workers, expires
  /// what was kept long enough. Every worker runs it; any number may. Ends only by cancellation or an error.
  virtual task<void> maintain() = 0;

  /// Hands back every lease it still holds, uncounted, and leaves. The consumer takes no other call afterwards.
  virtual task<void> leave() = 0;

  /// Stops all that keeps its leases alive, as SIGKILL would, without a word to the store. For tests.
  virtual void abandon() noexcept = 0;
};

/// A place in a listing. Empty at the start; empty again when there is no more.
struct job_page {
  std::vector<job_info> jobs{};
  std::string next{};
};

struct job_filter {
  /// Empty: every queue.
  std::string queue{};
  std::optional<job_state> state{};
  /// Empty: every kind.
  std::string kind{};
};

/// Keeps jobs. Thread-safe. Make one with `open_broker`.
class ERGON_EXPORT broker {
 public:
  broker() = default;
  broker(const broker&) = delete;
  broker& operator=(const broker&) = delete;
  virtual ~broker();

  /// The URL it was opened with, without secrets.
  [[nodiscard]] virtual const std::string& url() const noexcept = 0;
  /// The largest payload, result or set of headers in bytes.
  [[nodiscard]] virtual std::size_t max_payload() const noexcept = 0;
  [[nodiscard]] virtual ergon::clock& clock() const noexcept = 0;
  [[nodiscard]] virtual ergon::runtime& runtime() const noexcept = 0;

  /// Stores all of them or none (on Redis, of each run of jobs of one queue, unless all are plain); `out` has the size of `jobs`. Within one call an id or unique key taken by an earlier
  /// element counts as taken. Throws `errc::invalid_argument` and `errc::too_large` (naming the element), `errc::store_full`.
  virtual task<void> enqueue(std::span<const new_job> jobs, std::span<enqueued> out) = 0;

  /// Becomes a member. Queues that do not exist yet are made.
  virtual task<std::unique_ptr<consumer>> join(consumer_options options) = 0;

  /// Waits for the end of a job that was enqueued with `keep_result`, and returns it. `errc::not_found` where no such job is
  /// or was, or its result was kept long enough; `errc::no_result` where it keeps none.
  virtual task<job_end> wait(std::string id) = 0;

  /// The job, or nothing. `id` is a public id, or an own id (then the youngest life in `queue`).
  virtual task<std::optional<job_info>> find(std::string id, std::string queue = "default") = 0;
  /// A page of at most `limit` (1 to 1000) jobs, in no promised order but stable between pages. Looks at a bounded number of
  /// jobs per call: a page may be short or empty and still have a `next`.
  virtual task<job_page> list(job_filter filter, std::string cursor, std::size_t limit) = 0;
  virtual task<std::vector<queue_info>> queues() = 0;
  /// The last `hours` (1 to 2160) of a queue, oldest first; hours in which nothing happened are left out. Empty where the
  /// queue does not exist.
  virtual task<std::vector<hour_stats>> stats(std::string queue, std::uint32_t hours) = 0;
  virtual task<std::vector<worker_info>> workers() = 0;

  /// Final (promise 8): not retried; a running handler is told. `errc::wrong_state` where it has ended already,
  /// `errc::not_found`. Returns the state it was in.
  virtual task<job_state> cancel(std::string id, std::string queue = "default") = 0;
  /// Makes a scheduled, retrying, dead, completed or cancelled job ready now, with a full retry budget; a job that had ended
  /// starts a new life: the returned id is that life's. `errc::wrong_state` while it is ready or active, or while another live job holds its id or
  /// unique key.
  virtual task<std::string> run(std::string id, std::string queue = "default") = 0;
  /// Forgets a job that is not active: a live one counts as discarded, and leaves no trace but that. `errc::wrong_state` while
  /// it is active.
  virtual task<void> remove(std::string id, std::string queue = "default") = 0;

  /// A paused queue takes jobs in and gives none out. `errc::not_found` where the queue does not exist.
  virtual task<void> pause(std::string queue) = 0;
  virtual task<void> resume(std::string queue) = 0;
};

struct broker_options {
  /// The process's default runtime unless given. It must outlive the broker.
  ergon::runtime* runtime = nullptr;
  /// The runtime's clock unless given. It must outlive the broker.
  ergon::clock* clock = nullptr;
};

/// Opens `memory:`, `memory:NAME`, `sqlite:PATH` (relative to the working directory), `redis://HOST`, `rediss://HOST` or `unix:PATH`, with options
/// as a query: `sqlite:jobs.db?synchronous=full`. `docs/brokers.md` lists them. Blocks while it opens the store. Throws `errc::bad_url`,
/// `errc::unknown_scheme`, and what the store says (`errc::not_a_store`, `errc::unavailable`, …).
[[nodiscard]] ERGON_EXPORT std::shared_ptr<broker> open_broker(std::string_view url, broker_options options = {});

}  // namespace ergon
