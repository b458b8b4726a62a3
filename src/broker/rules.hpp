// What the end of an attempt means for a job: the decisions that every broker takes in the same way, free of any storage. A
// broker reads a record, asks here, and stores the answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <ergon/broker/job.hpp>

#include "broker/record.hpp"

namespace ergon::rules {

/// Losses of its worker after which a job is a suspect: it runs alone from then on.
inline constexpr std::uint32_t suspect_after = 2;
/// Losses while it ran alone after which a suspect is buried.
inline constexpr std::uint32_t buried_after = 2;
/// How long dead letters are kept, and how many in a queue.
inline constexpr std::chrono::milliseconds dead_kept_for = std::chrono::days{90};
inline constexpr std::uint64_t dead_kept = 100'000;
/// How long a trace of cancelled and discarded jobs is kept, and how many in a queue.
inline constexpr std::chrono::milliseconds gone_kept_for = std::chrono::days{1};
inline constexpr std::uint64_t gone_kept = 10'000;
/// An error text is cut to this many bytes.
inline constexpr std::size_t max_error_text = 4096;
[[nodiscard]] std::string_view cut_error(std::string_view text) noexcept;

/// Counts a failed attempt in `job` (failures, error history in `scratch`, suspicion cleared). True: that was one too many.
[[nodiscard]] bool count_failure(record& job, wall_time now, std::string_view worker, std::string_view error,
                                 std::string& scratch);

/// Counts a lost worker in `job`; `marked` says that the job had been marked as running alone. True: bury it, with
/// `loss_reason`.
[[nodiscard]] bool count_loss(record& job, bool marked) noexcept;
[[nodiscard]] std::string loss_reason(const record& job);

[[nodiscard]] inline bool is_suspect(const record& job) noexcept { return job.losses >= suspect_after; }

/// How long a job that ended so stays visible; nought means that it is forgotten at once.
[[nodiscard]] std::chrono::milliseconds kept_for(job_state end, const record& job) noexcept;

/// A new life for an ended or parked job: a full budget, no history of failures but the errors.
void renew(record& job) noexcept;

}  // namespace ergon::rules
