// What a broker stores and hands out: the job as a client puts it in, as a worker gets it, and how a worker ends it.
// Plain data. String views point into memory of the caller (`new_job`, `settlement`) or of the batch (`delivery`).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// A name and a value that travel with a job: trace context, tenant, content type.
struct header {
  std::string_view name{};
  std::string_view value{};

  friend bool operator==(const header&, const header&) = default;
};

/// Where a job is in its life. The last four are terminal.
enum class job_state : std::uint8_t {
  /// Waits for a worker.
  ready,
  /// Put in with a delay or a time that has not come.
  scheduled,
  /// Failed, or was handed back with a back-off, and waits for its next attempt.
  retry,
  /// Waits for its turn at a limit or an ordering key.
  waiting,
  /// Leased by a worker.
  active,
  /// Done. Kept only where `retention` or `keep_result` asked for it.
  completed,
  /// Out of attempts, failed for good, or killed its workers: kept until somebody looks, within the store's bound.
  dead,
  /// Cancelled by a person or a program.
  cancelled,
  /// Removed before it was done: deleted, or not started by its deadline.
  discarded,
};

[[nodiscard]] ERGON_EXPORT std::string_view to_string(job_state state) noexcept;
/// The state that `to_string` names so, or nothing.
[[nodiscard]] ERGON_EXPORT std::optional<job_state> job_state_of(std::string_view name) noexcept;
[[nodiscard]] constexpr bool is_terminal(job_state state) noexcept { return state >= job_state::completed; }

/// A job on its way into a broker.
struct new_job {
  /// 1 to 128 bytes of letters, digits and `-_.:/`.
  std::string_view queue = "default";
  /// What the job is, and so which handler takes it: 1 to 128 bytes of letters, digits and `-_.:/`.
  std::string_view kind{};
  /// Opaque to the broker; at most its `max_payload`.
  std::string_view payload{};
  /// The caller's own id, at most 256 bytes of UTF-8 without control characters; unique among the live jobs of its queue.
  /// Empty: the broker makes one.
  std::string_view id{};
  /// Becomes ready after this span, suspended time included. Not negative, at most ten years. Not together with `due`.
  std::optional<std::chrono::nanoseconds> delay{};
  /// Becomes ready when the calendar says so; in the past means at once.
  std::optional<wall_time> due{};
  /// Counted failures that are forgiven: a job runs at most `max_retries + 1` times to a failure.
  std::uint32_t max_retries = 25;
  /// How long one attempt may take; nought means no limit.
  std::chrono::milliseconds timeout = std::chrono::minutes{30};
  /// After this the job is not started any more (discarded), and a running attempt is stopped.
  std::optional<wall_time> deadline{};
  /// Only one live job of the queue may hold this key, at most 1024 bytes of UTF-8 without control characters; empty means that
  /// nothing is locked. Needs `unique_for`.
  std::string_view unique_key{};
  /// How long the lock lasts at most. A terminal state releases it earlier.
  std::chrono::milliseconds unique_for{0};
  /// How long a completed job stays visible.
  std::chrono::milliseconds retention{0};
  /// How long the result (or the last error) is kept after the end; nought means that nobody can wait for it.
  std::chrono::milliseconds keep_result{0};
  std::span<const header> headers{};
};

/// The answer to an enqueue.
struct enqueued {
  /// Public id: opaque, names this one life of the job, sorts by age among jobs of one queue that have no id of their own.
  std::string id{};
  /// False where a live job already held the id or the unique key: `id` is then that job's, and nothing was stored.
  bool created = true;
};

/// What proves that a worker owns a job. Opaque; meaningful only to the broker that gave it. A job that changes hands gets
/// another one, so that a former owner's token fits nothing.
struct lease_token {
  std::uint64_t where = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const lease_token&, const lease_token&) = default;
};

/// Which format the stored record has, seen from this release.
enum class record_fit : std::uint8_t {
  /// Everything in it was understood.
  readable,
  /// A newer release wrote it: hand it back.
  newer,
  /// Not a record at all: bury it.
  garbage,
};

/// A job in a worker's hands. Views point into the `delivery_batch` that it came in.
struct delivery {
  lease_token lease{};
  record_fit fit = record_fit::readable;
  /// This job has lost workers before: start it only alone, and only after `consumer::mark` (promise 4).
  bool suspect = false;
  std::string_view queue{};
  std::string_view kind{};
  std::string_view payload{};
  /// Counted failures so far; the attempt that starts now is number `failures + 1`.
  std::uint32_t failures = 0;
  /// Times that a worker was lost with it.
  std::uint32_t losses = 0;
  std::uint32_t max_retries = 25;
  std::chrono::milliseconds timeout{0};
  std::optional<wall_time> deadline{};
  wall_time enqueued_at{};
  /// The end must be told with its result (somebody may wait for it).
  bool keeps_result = false;
  /// Decoded on demand: most handlers never look.
  std::string_view raw_headers{};
  /// For `public_id` and `headers`. Some stores have serial numbers of 128 bits.
  std::uint64_t serial_high = 0;
  std::uint64_t serial = 0;
  std::string_view custom_id{};
};

/// The id that `enqueue` returned for it.
[[nodiscard]] ERGON_EXPORT std::string public_id(const delivery& d);
[[nodiscard]] ERGON_EXPORT std::vector<header> headers_of(const delivery& d);

/// How an attempt ended.
enum class verdict : std::uint8_t {
  /// Done; `text` is the result.
  complete,
  /// Failed and counted; `text` is the error, `delay` the back-off. Past `max_retries` the broker buries it instead.
  retry,
  /// Failed for good; `text` is the reason.
  bury,
  /// Not started, or not this worker's to judge: back to the front, or after `delay`; not counted.
  hand_back,
  /// Its deadline came before it was started; `text` says so.
  discard,
  /// The handler itself called the job off; `text` is the reason.
  cancel,
};

struct settlement {
  lease_token lease{};
  verdict how = verdict::complete;
  std::string_view text{};
  std::chrono::nanoseconds delay{0};
};

/// What happened to one settlement.
enum class settled : std::uint8_t {
  /// Stored.
  yes,
  /// The lease was lost before: nothing was changed.
  lost,
  /// The failure was counted, and it was one too many: the job is dead.
  buried,
};

/// One attempt that failed.
struct failure {
  wall_time at{};
  std::string worker{};
  std::string error{};
};

/// A job as the inspector shows it. Owns its strings.
struct job_info {
  std::string id{};
  std::string queue{};
  std::string kind{};
  job_state state = job_state::ready;
  std::string payload{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::uint32_t failures = 0;
  std::uint32_t losses = 0;
  std::uint32_t max_retries = 0;
  std::chrono::milliseconds timeout{0};
  std::optional<wall_time> deadline{};
  wall_time enqueued_at{};
  /// When it becomes ready (scheduled, retry).
  std::optional<wall_time> due{};
  /// When it ended (terminal states).
  std::optional<wall_time> ended_at{};
  /// The worker that holds it (active).
  std::string worker{};
  /// Progress as the handler last reported it, 0 to 1, and a note.
  std::optional<double> progress{};
  std::string note{};
  std::optional<std::string> result{};
  /// The last failures, oldest first, at most ten.
  std::vector<failure> errors{};
  std::chrono::milliseconds retention{0};
  std::chrono::milliseconds keep_result{0};
  std::string unique_key{};
};

/// The end of a job that keeps its result.
struct job_end {
  job_state state = job_state::completed;
  /// The result where `state` is completed, else the last error.
  std::string text{};
};

struct queue_info {
  std::string name{};
  bool paused = false;
  std::uint64_t ready = 0;
  std::uint64_t scheduled = 0;
  std::uint64_t retry = 0;
  std::uint64_t waiting = 0;
  std::uint64_t active = 0;
  std::uint64_t completed = 0;
  std::uint64_t dead = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t discarded = 0;
  /// Age of the oldest ready job.
  std::optional<std::chrono::milliseconds> latency{};
};

/// What happened in one hour of one queue. Counters are flushed with the transactions that they describe; on Redis those of plain jobs that are put in
/// one by one a tenth of a second later at most.
struct hour_stats {
  wall_time hour{};
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t dead = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t discarded = 0;
  /// Taken from workers that were lost.
  std::uint64_t reclaimed = 0;
};

struct running_job {
  std::string id{};
  std::string queue{};
  std::string kind{};
};

struct worker_info {
  std::string id{};
  std::string host{};
  std::uint32_t pid = 0;
  std::uint32_t concurrency = 0;
  std::vector<std::pair<std::string, std::uint32_t>> queues{};
  wall_time started_at{};
  wall_time seen_at{};
  /// Jobs under its leases, at most a hundred listed.
  std::uint64_t leased = 0;
  std::vector<running_job> running{};
};

}  // namespace ergon
