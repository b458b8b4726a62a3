// The stored form of a job, the same in every broker: a format byte, then fields of (tag, value), absent where they have their
// default. A field that this release does not know is carried along unchanged, so that an older worker never strips what a
// newer client wrote (promise 12). Views point into the bytes that were decoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/broker/batch.hpp>
#include <ergon/broker/job.hpp>

namespace ergon {

struct record {
  /// Named by the first byte. A reader of format n hands back what names a greater one.
  static constexpr std::uint8_t current_format = 1;

  record_fit fit = record_fit::readable;
  /// The first byte, kept when the record is written again.
  std::uint8_t format = current_format;
  std::string_view kind{};
  std::string_view payload{};
  std::string_view custom_id{};
  std::string_view unique_key{};
  /// As `encode_headers` made them.
  std::string_view raw_headers{};
  /// As `add_failure` made them.
  std::string_view raw_errors{};
  /// The job's identity where it is not the key that the record is stored under; nought otherwise.
  std::uint64_t serial = 0;
  wall_time enqueued_at{};
  std::uint32_t failures = 0;
  /// Times that a worker was lost with it since it last failed by itself.
  std::uint32_t losses = 0;
  /// Of these, the ones that it was alone for (promise 4).
  std::uint32_t marked_losses = 0;
  std::uint32_t max_retries = 25;
  std::chrono::milliseconds timeout{std::chrono::minutes{30}};
  std::optional<wall_time> deadline{};
  std::chrono::milliseconds retention{0};
  std::chrono::milliseconds keep_result{0};
  /// How long a new life of the job may hold `unique_key`.
  std::chrono::milliseconds unique_for{0};
  /// Why the job ended, or its result. Only in the records of ended jobs.
  std::optional<std::string_view> ending{};
  /// Fields of a newer release, verbatim.
  std::string_view unknown{};
};

/// Appends the record's bytes to `out`. Views in `what` must not point into `out`.
void encode_record(const record& what, std::string& out);

/// Never fails: bytes that are no record come back as `record_fit::garbage`, with what could be read. `record_fit::newer` has
/// the fields that this release understands.
[[nodiscard]] record decode_record(std::string_view bytes) noexcept;

/// The record of a job that is put in now.
[[nodiscard]] record record_of(const new_job& job, wall_time now, std::string_view raw_headers) noexcept;

/// What a store keeps of bytes that are no record, once it has to write them down: a job of the kind `unreadable` with the bytes as its
/// payload.
[[nodiscard]] record record_of_garbage(std::string_view bytes, wall_time now) noexcept;

void encode_headers(std::span<const header> headers, std::string& out);
/// Stops at the first damage.
[[nodiscard]] std::vector<header> decode_headers(std::string_view raw);

/// `raw_errors` with one more failure, appended to `out`; the oldest go once there are more than ten.
void add_failure(std::string_view raw_errors, wall_time at, std::string_view worker, std::string_view text, std::string& out);
[[nodiscard]] std::vector<failure> decode_failures(std::string_view raw);

/// The job as the inspector shows it; `key` is what the record is stored under.
[[nodiscard]] job_info info_of(const record& what, std::uint64_t key, std::string_view queue, job_state state);

/// The job as a worker gets it, with the views of `what`.
[[nodiscard]] delivery delivery_of(const record& what, std::uint64_t key, lease_token lease, std::string_view queue) noexcept;

/// The same, added to `batch`, with the views copied into it.
void deliver(const record& what, std::uint64_t key, lease_token lease, std::string_view queue, delivery_batch& batch);

}  // namespace ergon
