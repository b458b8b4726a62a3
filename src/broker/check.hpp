// Refuses a job that no store should hold, before anything is stored: names, sizes, spans (errc::invalid_argument, errc::too_large).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <ergon/broker/job.hpp>

namespace ergon {

/// The jobs of one enqueue; the error's text says which of several is wrong.
void check_new_jobs(std::span<const new_job> jobs, std::size_t max_payload);

/// 1 to 128 bytes of letters, digits and `-_.:/`.
void check_queue_name(std::string_view name);

}  // namespace ergon
