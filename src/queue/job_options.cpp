// From options to what the broker takes.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/queue/job_options.hpp>

#include "queue/new_job.hpp"

namespace ergon {

job_options merged(job_options options, const job_options& defaults) {
  const auto fill = [](auto& mine, const auto& theirs) {
    if (!mine) mine = theirs;
  };
  fill(options.queue, defaults.queue);
  fill(options.id, defaults.id);
  fill(options.max_retries, defaults.max_retries);
  if (!options.process_in && !options.process_at) {
    options.process_in = defaults.process_in;
    options.process_at = defaults.process_at;
  }
  fill(options.timeout, defaults.timeout);
  fill(options.deadline, defaults.deadline);
  fill(options.unique_for, defaults.unique_for);
  fill(options.unique_key, defaults.unique_key);
  fill(options.retention, defaults.retention);
  fill(options.keep_result, defaults.keep_result);
  auto headers = defaults.headers;
  for (auto& [name, value] : options.headers) {
    const auto same = std::ranges::find(headers, name, [](const auto& h) -> const auto& { return h.first; });
    if (same != headers.end()) {
      same->second = std::move(value);
    } else {
      headers.emplace_back(std::move(name), std::move(value));
    }
  }
  options.headers = std::move(headers);
  return options;
}

namespace detail {

std::string unique_key_of(std::string_view kind, std::string_view payload) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(payload.data(), payload.size(), XXH3_64bits(kind.data(), kind.size()));
  return fmt::format("{}#{:016x}{:016x}", kind, hash.high64, hash.low64);
}

new_job job_of(std::string_view kind, std::string_view payload, const job_options& options, std::vector<header>& headers) {
  new_job job{.kind = kind, .payload = payload};
  if (options.queue) job.queue = *options.queue;
  if (options.id) {
    if (options.id->empty())
      throw error{errc::invalid_argument, "the id of a job is empty; leave it out and the store makes one"};
    job.id = *options.id;
  }
  if (options.process_in && options.process_at) {
    throw error{errc::invalid_argument, fmt::format("job options name both process_in = {} and process_at; give one of them",
                                                    format_duration(*options.process_in))};
  }
  job.delay = options.process_in;
  job.due = options.process_at;
  if (options.max_retries) job.max_retries = *options.max_retries;
  if (options.timeout) job.timeout = *options.timeout;
  job.deadline = options.deadline;
  if (options.unique_key && options.unique_key->empty()) {
    throw error{errc::invalid_argument, "the unique key of a job is empty; leave it out to go by kind and payload"};
  }
  if (options.unique_key) job.unique_key = *options.unique_key;
  if (options.unique_for) {
    if (options.unique_for->count() <= 0) {
      throw error{errc::invalid_argument,
                  fmt::format("unique_for is {}; it must be longer than nought",
                              format_duration(std::max<std::chrono::nanoseconds>(*options.unique_for, -longest_duration)))};
    }
    job.unique_for = *options.unique_for;
  } else if (options.unique_key) {
    job.unique_for = std::chrono::duration_cast<std::chrono::milliseconds>(longest_duration);
  }
  if (options.retention) job.retention = *options.retention;
  if (options.keep_result) job.keep_result = *options.keep_result;
  headers.clear();
  for (const auto& [name, value] : options.headers) headers.push_back({.name = name, .value = value});
  job.headers = headers;
  return job;
}

}  // namespace detail
}  // namespace ergon
