// Puts jobs in, waits for their ends, and looks at what a store holds. Thread-safe; copies share one broker. The tasks own what
// they need: neither client, payload nor options have to outlive the call.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/queue/job_options.hpp>
#include <ergon/queue/payload.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// Jobs that go into a store together, of any kinds. May be filled again after `clear`, which keeps the memory. Not thread-safe.
class ERGON_EXPORT job_batch {
 public:
  job_batch() = default;
  job_batch(job_batch&&) noexcept = default;
  job_batch& operator=(job_batch&&) noexcept = default;

  /// Throws `errc::duplicate_kind`, `errc::invalid_argument` (options that contradict each other).
  template <class Payload>
  job_batch& add(const Payload& payload, const job_options& options = {}) {
    scratch_.clear();
    detail::encode_payload(payload, scratch_);
    add_encoded(detail::claimed_kind<Payload>(), scratch_, options, detail::kind_defaults<Payload>());
    return *this;
  }
  /// A job whose kind and payload are given as they are stored. Throws as above.
  job_batch& add_raw(std::string_view kind, std::string_view payload, const job_options& options = {}) {
    add_encoded(kind, payload, options, nullptr);
    return *this;
  }

  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  /// Bytes of payloads, names and headers.
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_.size_bytes(); }
  void clear() noexcept;

  /// As the broker takes them; good until the batch is changed.
  [[nodiscard]] std::span<const new_job> jobs() const noexcept { return jobs_; }

 private:
  void add_encoded(std::string_view kind, std::string_view payload, const job_options& options, const job_options* defaults);

  std::vector<new_job> jobs_;
  delivery_batch bytes_;
  std::deque<std::vector<header>> headers_;
  std::string scratch_;
};

struct wait_options {
  /// Nothing: as long as it takes.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

class ERGON_EXPORT client {
 public:
  /// Opens a broker: `memory:`, `memory:NAME`, `sqlite:PATH`, `redis://HOST`. Throws as `open_broker` does.
  explicit client(std::string_view url, broker_options options = {});
  /// Uses one that is open. Throws `errc::invalid_argument` for a null pointer.
  explicit client(std::shared_ptr<ergon::broker> where);

  /// Puts one job in. `created` is false where a live job holds the id or the unique key: the id is then that job's. Throws
  /// `errc::duplicate_kind`, `errc::invalid_argument`, `errc::too_large`, `errc::store_full`, and what the store says.
  /// Finishes even if the awaiting task is cancelled.
  template <class Payload>
  [[nodiscard]] task<enqueued> enqueue(const Payload& payload, const job_options& options = {}) const {
    return put_one(detail::claimed_kind<Payload>(), detail::encoded(payload), options, detail::kind_defaults<Payload>());
  }
  /// A job whose kind and payload are given as they are stored.
  [[nodiscard]] task<enqueued> enqueue_raw(std::string_view kind, std::string payload, const job_options& options = {}) const {
    return put_one(kind, std::move(payload), options, nullptr);
  }

  /// Puts all of a range in with the same options: all of them or none, in one step of the store. The answers are in the
  /// range's order. Throws as `enqueue`; the text names the element. Thousands at a time are fine, a hundred are as fast.
  template <std::ranges::input_range Payloads>
  [[nodiscard]] task<std::vector<enqueued>> enqueue_all(const Payloads& payloads, const job_options& options = {}) const {
    job_batch batch;
    for (const auto& payload : payloads) batch.add(payload, options);
    return put_all(std::move(batch));
  }
  /// The same for jobs of several kinds.
  [[nodiscard]] task<std::vector<enqueued>> enqueue_all(job_batch&& batch) const { return put_all(std::move(batch)); }
  /// For producers that count allocations: the batch must stay as it is until the answer is there, and may then be cleared and
  /// filled again; `answers` gets the batch's size.
  [[nodiscard]] task<void> enqueue_all(const job_batch& batch, std::vector<enqueued>& answers) const;

  /// Waits for the end of a job that was put in with `keep_result`, and gives its result. Throws `errc::job_failed` with the
  /// last error where it ended without success, `errc::timed_out`, `errc::no_result`, `errc::not_found`, `errc::bad_payload`
  /// where the result is no `Result`. `wait<void>` only waits.
  template <class Result = void>
  [[nodiscard]] task<Result> wait(std::string id, wait_options options = {}) const {
    return result_of<Result>(wait_text(std::move(id), options));
  }

  /// Puts a job in and waits for its result: `co_await jobs.call<int>(add{1, 2})`. Keeps the result for an hour unless the
  /// options say how long. After `errc::timed_out` the job goes on.
  template <class Result = void, class Payload>
  [[nodiscard]] task<Result> call(const Payload& payload, const job_options& options = {}, wait_options waiting = {}) const {
    return result_of<Result>(
        call_text(detail::claimed_kind<Payload>(), detail::encoded(payload), options, detail::kind_defaults<Payload>(), waiting));
  }

  /// The job, or nothing. `id` is a public id, or an own id (then its youngest life in `queue`).
  [[nodiscard]] task<std::optional<job_info>> find(std::string id, std::string queue = "default") const;
  /// A page of at most `limit` (1 to 1000) jobs; begin with an empty cursor, go on with `job_page::next` until it is empty.
  [[nodiscard]] task<job_page> list(job_filter filter = {}, std::string cursor = {}, std::size_t limit = 100) const;
  [[nodiscard]] task<std::vector<queue_info>> queues() const;
  /// What happened in the last `hours` (1 to 2160) of a queue, oldest first.
  [[nodiscard]] task<std::vector<hour_stats>> stats(std::string queue = "default", std::uint32_t hours = 24) const;
  [[nodiscard]] task<std::vector<worker_info>> workers() const;

  /// Calls a job off for good; a running handler is told. Gives the state it was in. Throws `errc::not_found`, `errc::wrong_state`.
  [[nodiscard]] task<job_state> cancel(std::string id, std::string queue = "default") const;
  /// Makes a job that waits for its time, or has ended, ready now with a full retry budget; gives its id from now on. Throws
  /// `errc::not_found`, `errc::wrong_state`.
  [[nodiscard]] task<std::string> run(std::string id, std::string queue = "default") const;
  /// Forgets a job that is not active. Throws `errc::not_found`, `errc::wrong_state`.
  [[nodiscard]] task<void> remove(std::string id, std::string queue = "default") const;
  /// A paused queue takes jobs in and gives none out. Throws `errc::not_found`.
  [[nodiscard]] task<void> pause(std::string queue) const;
  [[nodiscard]] task<void> resume(std::string queue) const;

  [[nodiscard]] const std::shared_ptr<ergon::broker>& broker() const noexcept { return broker_; }
  [[nodiscard]] ergon::runtime& runtime() const noexcept { return broker_->runtime(); }

 private:
  [[nodiscard]] task<enqueued> put_one(std::string_view kind, std::string payload, const job_options& options,
                                       const job_options* defaults) const;
  [[nodiscard]] task<std::vector<enqueued>> put_all(job_batch batch) const;
  [[nodiscard]] task<std::string> wait_text(std::string id, wait_options options) const;
  [[nodiscard]] task<std::string> call_text(std::string_view kind, std::string payload, const job_options& options,
                                            const job_options* defaults, wait_options waiting) const;

  template <class Result>
  static task<Result> result_of(task<std::string> text) {
    if constexpr (std::is_void_v<Result>) {
      co_await std::move(text);
    } else {
      const std::string bytes = co_await std::move(text);
      co_return detail::decode_result<Result>(bytes);
    }
  }

  std::shared_ptr<ergon::broker> broker_;
};

}  // namespace ergon
