// What a job may look like, in the words that a person who got it wrong can use.
#include "broker/check.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace ergon {

namespace {

constexpr std::size_t max_id = 256;
constexpr std::size_t max_unique_key = 1024;
constexpr std::size_t max_header_name = 256;

/// Where the first control character (C0, DEL, C1) stands in well-formed UTF-8; the size of `text` if there is none.
std::size_t control_at(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return i;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return i;
  }
  return text.size();
}

void check_text(std::string_view what, std::string_view text, std::size_t most) {
  if (text.empty()) return;
  if (text.size() > most) {
    throw error{errc::invalid_argument,
                fmt::format("the {} {} has {} bytes; at most {} are allowed", what, quoted(text), text.size(), most)};
  }
  if (const auto at = utf8_prefix(text); at != text.size()) {
    throw error{errc::invalid_argument, fmt::format("the {} {} is not UTF-8 from byte {} on", what, quoted(text), at)};
  }
  if (const auto at = control_at(text); at != text.size()) {
    throw error{errc::invalid_argument,
                fmt::format("the {} {} has a control character at byte {}; none is allowed", what, quoted(text), at)};
  }
}

void check_span(std::string_view what, std::chrono::milliseconds span) {
  // An absurd number of milliseconds has no nanoseconds; any value past the limit gets the same answer.
  constexpr std::chrono::milliseconds past =
      std::chrono::duration_cast<std::chrono::milliseconds>(longest_duration) + std::chrono::milliseconds{1};
  check_duration(what, std::chrono::nanoseconds{std::min(std::max(span, -past), past)});
}

void check_names(const new_job& job) {
  check_queue_name(job.queue);
  check_name("kind", job.kind);
}

void check_all_but_names(const new_job& job, std::size_t max_payload) {
  if (job.payload.size() > max_payload) {
    throw error{errc::too_large, fmt::format("the payload has {} bytes; this store takes at most {} (option max_payload)",
                                             job.payload.size(), max_payload)};
  }
  check_text("id", job.id, max_id);
  check_text("unique key", job.unique_key, max_unique_key);

  if (job.delay && job.due) throw error{errc::invalid_argument, "the job has both a delay and a due time; give one of them"};
  if (job.delay) check_duration("delay", *job.delay);
  check_span("timeout", job.timeout);
  check_span("retention", job.retention);
  check_span("keep_result", job.keep_result);
  check_span("unique_for", job.unique_for);
  if (!job.unique_key.empty() && job.unique_for.count() == 0) {
    throw error{errc::invalid_argument, "the job has a unique key and no unique_for; say how long the key is locked at most"};
  }
  if (job.unique_key.empty() && job.unique_for.count() != 0) {
    throw error{errc::invalid_argument, "the job has unique_for and no unique key; say what is locked"};
  }

  if (job.headers.empty()) return;
  std::size_t headers = 0;
  for (const header& h : job.headers) {
    if (h.name.empty()) throw error{errc::invalid_argument, "a header has no name"};
    check_text("header name", h.name, max_header_name);
    headers += h.name.size() + h.value.size();
  }
  if (headers > max_payload) {
    throw error{errc::too_large,
                fmt::format("the headers have {} bytes; this store takes at most {} (option max_payload)", headers, max_payload)};
  }
}

/// The same bytes at the same place: the jobs of a batch share their names.
bool same_names(const new_job& a, const new_job& b) noexcept {
  return a.queue.data() == b.queue.data() && a.queue.size() == b.queue.size() && a.kind.data() == b.kind.data() &&
         a.kind.size() == b.kind.size();
}

}  // namespace

void check_queue_name(std::string_view name) { check_name("queue name", name); }

void check_new_jobs(std::span<const new_job> jobs, std::size_t max_payload) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    try {
      if (i == 0 || !same_names(jobs[i], jobs[i - 1])) check_names(jobs[i]);
      check_all_but_names(jobs[i], max_payload);
    } catch (const error& wrong) {
      if (jobs.size() == 1) throw;
      throw error{wrong.reason(), fmt::format("job {} of the batch: {}", i, wrong.what())};
    }
  }
}

}  // namespace ergon
