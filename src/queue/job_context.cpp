// What a handler can ask and say.
#include <algorithm>
#include <cmath>
#include <utility>

#include <ergon/base/text.hpp>
#include <ergon/queue/job_context.hpp>

#include "queue/attempt.hpp"
#include "queue/worker_core.hpp"

namespace ergon {

namespace {
constexpr std::size_t longest_note = 256;
}  // namespace

const std::string& job_context::id() const {
  const std::scoped_lock lock{attempt_.told_lock};
  attempt_.told.store(true, std::memory_order_release);
  if (attempt_.id.empty()) attempt_.id = public_id(*attempt_.held.job);
  return attempt_.id;
}
std::string_view job_context::kind() const noexcept { return attempt_.held.job->kind; }
std::string_view job_context::queue() const noexcept { return attempt_.held.job->queue; }
std::string_view job_context::payload() const noexcept { return attempt_.held.job->payload; }
std::uint32_t job_context::attempt() const noexcept { return attempt_.held.job->failures + 1; }
std::uint32_t job_context::max_attempts() const noexcept {
  const std::uint32_t retries = attempt_.held.job->max_retries;
  return retries + (retries != UINT32_MAX ? 1 : 0);
}
std::vector<header> job_context::headers() const { return headers_of(*attempt_.held.job); }
std::optional<std::string_view> job_context::header(std::string_view name) const {
  for (const ergon::header& one : headers_of(*attempt_.held.job)) {
    if (one.name == name) return one.value;
  }
  return std::nullopt;
}
wall_time job_context::enqueued_at() const noexcept { return attempt_.held.job->enqueued_at; }
std::chrono::milliseconds job_context::timeout() const noexcept { return attempt_.held.job->timeout; }
std::optional<wall_time> job_context::deadline() const noexcept { return attempt_.held.job->deadline; }
bool job_context::keeps_result() const noexcept { return attempt_.held.job->keeps_result; }
const std::string& job_context::worker_id() const noexcept { return attempt_.worker.consumer_id(); }
clock& job_context::clock() const noexcept { return attempt_.worker.clock(); }

std::stop_token job_context::stop_token() const {
  const std::scoped_lock lock{attempt_.told_lock};
  attempt_.told.store(true, std::memory_order_release);
  attempt_.token_taken.store(true, std::memory_order_release);
  if (!attempt_.stop) {
    attempt_.stop.emplace();
    // Nobody has its token yet: no callback runs under the lock.
    if (stop_requested()) attempt_.stop->request_stop();
  }
  return attempt_.stop->get_token();
}

bool job_context::stop_requested() const noexcept {
  return attempt_.cause.load(std::memory_order_acquire) != detail::stop_cause::none;
}

void job_context::progress(double done, std::string_view note) {
  {
    const std::scoped_lock lock{attempt_.told_lock};
    attempt_.told.store(true, std::memory_order_release);
    attempt_.progress = std::isnan(done) ? 0.0 : std::clamp(done, 0.0, 1.0);
    note = note.substr(0, longest_note);
    attempt_.note.assign(note.substr(0, utf8_prefix(note)));
    attempt_.progressed = true;
  }
  attempt_.worker.progress_made();
}

const logger& job_context::logger() const {
  const std::scoped_lock lock{attempt_.told_lock};
  attempt_.told.store(true, std::memory_order_release);
  if (!attempt_.log) {
    const delivery& job = *attempt_.held.job;
    attempt_.log = attempt_.worker.logger().with(
        {{"job", public_id(job)}, {"kind", job.kind}, {"queue", job.queue}, {"attempt", log_number(job.failures + 1)}});
  }
  return *attempt_.log;
}

}  // namespace ergon
