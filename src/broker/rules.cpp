// The decisions of rules.hpp. Everything here is a function of a record and a few facts.
#include "broker/rules.hpp"

#include <algorithm>
#include <limits>

namespace ergon::rules {

namespace {

void count_up(std::uint32_t& counter) noexcept {
  if (counter != std::numeric_limits<std::uint32_t>::max()) ++counter;
}

}  // namespace

std::string_view cut_error(std::string_view text) noexcept {
  if (text.size() <= max_error_text) return text;
  // No UTF-8 sequence is torn; where it is none, at most three bytes are given up for nothing.
  std::size_t end = max_error_text;
  while (end > max_error_text - 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

bool count_failure(record& job, wall_time now, std::string_view worker, std::string_view error, std::string& scratch) {
  scratch.clear();
  add_failure(job.raw_errors, now, worker, cut_error(error), scratch);
  job.raw_errors = scratch;
  count_up(job.failures);
  // It failed by itself, with its worker alive to tell: whatever killed the workers before was not this job.
  job.losses = 0;
  job.marked_losses = 0;
  return job.failures > job.max_retries;
}

bool count_loss(record& job, bool marked) noexcept {
  count_up(job.losses);
  if (marked) count_up(job.marked_losses);
  return job.marked_losses >= buried_after;
}

std::string loss_reason(const record& job) {
  return "its worker was lost " + std::to_string(job.losses) + " times with this job, " + std::to_string(job.marked_losses) +
         " of them while it ran alone";
}

std::chrono::milliseconds kept_for(job_state end, const record& job) noexcept {
  switch (end) {
    case job_state::completed:
      return std::max(job.retention, job.keep_result);
    case job_state::dead:
      return std::max(dead_kept_for, job.keep_result);
    case job_state::cancelled:
    case job_state::discarded:
      return std::max(gone_kept_for, job.keep_result);
    default:
      return std::chrono::milliseconds{0};
  }
}

void renew(record& job) noexcept {
  job.failures = 0;
  job.losses = 0;
  job.marked_losses = 0;
  job.ending.reset();
}

}  // namespace ergon::rules
