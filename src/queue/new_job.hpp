// From options to what the broker takes. Views in the result point into the arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ergon/broker/job.hpp>
#include <ergon/queue/job_options.hpp>

namespace ergon::detail {

/// What a job is unique by when it names no key of its own.
[[nodiscard]] std::string unique_key_of(std::string_view kind, std::string_view payload);

/// `headers` holds what the result's headers point to. A job with `unique_for` and no key still needs `unique_key_of`. Throws
/// `errc::invalid_argument` for options that contradict each other; ranges are the broker's to check.
[[nodiscard]] new_job job_of(std::string_view kind, std::string_view payload, const job_options& options,
                             std::vector<header>& headers);

}  // namespace ergon::detail
