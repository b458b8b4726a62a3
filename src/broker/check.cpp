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

/// Says which job of a batch is wrong; made only when one is.
std::string of_job(std::size_t index, std::string_view why) { return fmt::format("job {} of the batch: {}", index, why); }

[[noreturn]] void refuse(errc code, std::size_t index, std::string_view why) { throw error{code, of_job(index, why)}; }

/// Where the first control character (C0, DEL, C1) stands in well-formed UTF-8; the size of `text` if there is none.
std::size_t control_at(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return i;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return i;
  }
  return text.size();
}

void check_text(std::size_t index, std::string_view what, std::string_view text, std::size_t most) {
  if (text.empty()) return;
  if (text.size() > most) {
    refuse(errc::invalid_argument, index,
           fmt::format("the {} {} has {} bytes; at most {} are allowed", what, quoted(text), text.size(), most));
  }
  if (const auto at = utf8_prefix(text); at != text.size()) {
    refuse(errc::invalid_argument, index, fmt::format("the {} {} is not UTF-8 from byte {} on", what, quoted(text), at));
  }
  if (const auto at = control_at(text); at != text.size()) {
    refuse(errc::invalid_argument, index,
           fmt::format("the {} {} has a control character at byte {}; none is allowed", what, quoted(text), at));
  }
}

void check_span(std::size_t index, std::string_view what, std::chrono::nanoseconds span) {
  if (span.count() >= 0 && span <= longest_duration) return;
  try {
    check_duration(what, span);
  } catch (const error& wrong) {
    refuse(wrong.reason(), index, wrong.what());
  }
}

void check_span(std::size_t index, std::string_view what, std::chrono::milliseconds span) {
  // An absurd number of milliseconds has no nanoseconds; any value past the limit gets the same answer.
  constexpr std::chrono::milliseconds past =
      std::chrono::duration_cast<std::chrono::milliseconds>(longest_duration) + std::chrono::milliseconds{1};
  check_span(index, what, std::chrono::nanoseconds{std::min(std::max(span, -past), past)});
}

void check_name_of(std::size_t index, std::string_view what, std::string_view name) {
  if (is_name(name)) return;
  try {
    check_name(what, name);
  } catch (const error& wrong) {
    refuse(wrong.reason(), index, wrong.what());
  }
}

}  // namespace

void check_queue_name(std::string_view name) { check_name("queue name", name); }

void check_new_job(const new_job& job, std::size_t index, std::size_t max_payload) {
  check_name_of(index, "queue name", job.queue);
  check_name_of(index, "kind", job.kind);
  if (job.payload.size() > max_payload) {
    refuse(errc::too_large, index,
           fmt::format("the payload has {} bytes; this store takes at most {} (option max_payload)", job.payload.size(),
                       max_payload));
  }
  check_text(index, "id", job.id, max_id);
  check_text(index, "unique key", job.unique_key, max_unique_key);

  if (job.delay && job.due) refuse(errc::invalid_argument, index, "it has both a delay and a due time; give one of them");
  if (job.delay) check_span(index, "delay", *job.delay);
  check_span(index, "timeout", job.timeout);
  check_span(index, "retention", job.retention);
  check_span(index, "keep_result", job.keep_result);
  check_span(index, "unique_for", job.unique_for);
  if (!job.unique_key.empty() && job.unique_for.count() == 0) {
    refuse(errc::invalid_argument, index, "it has a unique key and no unique_for; say how long the key is locked at most");
  }
  if (job.unique_key.empty() && job.unique_for.count() != 0) {
    refuse(errc::invalid_argument, index, "it has unique_for and no unique key; say what is locked");
  }

  if (job.headers.empty()) return;
  std::size_t headers = 0;
  for (const header& h : job.headers) {
    if (h.name.empty()) refuse(errc::invalid_argument, index, "a header has no name");
    check_text(index, "header name", h.name, max_header_name);
    headers += h.name.size() + h.value.size();
  }
  if (headers > max_payload) {
    refuse(errc::too_large, index,
           fmt::format("the headers have {} bytes; this store takes at most {} (option max_payload)", headers, max_payload));
  }
}

void check_new_jobs(std::span<const new_job> jobs, std::size_t max_payload) {
  for (std::size_t i = 0; i < jobs.size(); ++i) check_new_job(jobs[i], i, max_payload);
}

}  // namespace ergon
