// What a handler is told about the attempt that it runs, and how it talks back while it runs. Belongs to the worker, lives until
// the handler has returned; a handler may use it from any thread until then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>
#include <ergon/base/log.hpp>
#include <ergon/broker/job.hpp>

namespace ergon {

namespace detail {
struct attempt;
}  // namespace detail

class ERGON_EXPORT job_context {
 public:
  job_context(const job_context&) = delete;
  job_context& operator=(const job_context&) = delete;

  /// The public id, as `enqueue` returned it.
  [[nodiscard]] const std::string& id() const;
  /// As the job names it: an alias where it was put in under one.
  [[nodiscard]] std::string_view kind() const noexcept;
  [[nodiscard]] std::string_view queue() const noexcept;
  /// The bytes that the payload was decoded from.
  [[nodiscard]] std::string_view payload() const noexcept;

  /// 1 for the first. Together with `id()` it names this attempt: what to fence side effects with.
  [[nodiscard]] std::uint32_t attempt() const noexcept;
  /// `max_retries + 1`.
  [[nodiscard]] std::uint32_t max_attempts() const noexcept;
  /// Another failure would be the last.
  [[nodiscard]] bool last_attempt() const noexcept { return attempt() >= max_attempts(); }

  [[nodiscard]] std::vector<ergon::header> headers() const;
  /// The value of the first header of that name.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;

  [[nodiscard]] wall_time enqueued_at() const noexcept;
  /// How long this attempt may take; nought means without limit.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;
  /// When the job as a whole has to be done.
  [[nodiscard]] std::optional<wall_time> deadline() const noexcept;
  /// Somebody may wait for the result.
  [[nodiscard]] bool keeps_result() const noexcept;
  [[nodiscard]] const std::string& worker_id() const noexcept;
  /// The worker's clock: what a handler measures by if its tests are to own time.
  [[nodiscard]] ergon::clock& clock() const noexcept;

  /// Stop is requested when the attempt's time is up, the deadline has passed, the job was cancelled or its lease lost, or the
  /// worker's grace time is over. A coroutine need not look: its wait ends by itself. A handler that took the token and returns
  /// after the request is taken to have stopped early: what it returns is no success.
  [[nodiscard]] std::stop_token stop_token() const;
  [[nodiscard]] bool stop_requested() const noexcept;

  /// Tells the inspector how far it is: `done` from 0 to 1 (clamped), and a note of at most 256 bytes. Cheap: only the latest of
  /// about half a second is sent. Losing one is no error.
  void progress(double done, std::string_view note = {});

  /// The worker's logger with the job's id, kind, queue and attempt bound.
  [[nodiscard]] const ergon::logger& logger() const;

 private:
  friend struct detail::attempt;
  explicit job_context(detail::attempt& of) noexcept : attempt_(of) {}
  detail::attempt& attempt_;
};

}  // namespace ergon
