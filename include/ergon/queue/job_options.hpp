// What a client may ask for when it puts a job in. Plain data; the caller's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// Options of one job. What is not set comes from the kind (`static ergon::job_options defaults()` of the payload struct), and
/// then from the default that is stated here.
struct job_options {
  /// 1 to 128 bytes of letters, digits and `-_.:/`. Default `default`.
  std::optional<std::string> queue = std::nullopt;
  /// The caller's own id, at most 256 bytes of UTF-8 without control characters: while a job of this id lives in the queue,
  /// another enqueue stores nothing and says `created = false`.
  std::optional<std::string> id = std::nullopt;
  /// Failed attempts that are forgiven: a job runs at most `max_retries + 1` times to a failure. Default 25.
  std::optional<std::uint32_t> max_retries = std::nullopt;
  /// Starts no earlier than after this span, nought to ten years, suspended time included. Not together with `process_at`.
  std::optional<std::chrono::nanoseconds> process_in = std::nullopt;
  /// Starts no earlier than the calendar says so. In the past means at once.
  std::optional<wall_time> process_at = std::nullopt;
  /// How long one attempt may take; nought means without limit. Default 30 minutes.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// After this the job is not started any more, and a running attempt is stopped and the job buried.
  std::optional<wall_time> deadline = std::nullopt;
  /// For this long, while the job lives, no other of the same kind and payload (or `unique_key`) enters the queue: its enqueue
  /// stores nothing and says `created = false` with this job's id.
  std::optional<std::chrono::milliseconds> unique_for = std::nullopt;
  /// What uniqueness goes by instead of kind and payload. Without `unique_for` it holds for as long as the job lives.
  std::optional<std::string> unique_key = std::nullopt;
  /// How long a completed job stays visible. Default nought.
  std::optional<std::chrono::milliseconds> retention = std::nullopt;
  /// How long the result, or the last error, is kept after the end, so that somebody can `wait` for it. Default nought: nobody can.
  std::optional<std::chrono::milliseconds> keep_result = std::nullopt;
  /// Names and values that travel with the job. Those of the kind's defaults come first; a name given here replaces theirs.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// `options` where set, `defaults` elsewhere.
[[nodiscard]] ERGON_EXPORT job_options merged(job_options options, const job_options& defaults);

}  // namespace ergon
