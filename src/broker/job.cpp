// The names of job states, and what a delivery tells only when it is asked.
#include <ergon/broker/job.hpp>

#include <utility>

#include "broker/job_id.hpp"
#include "broker/record.hpp"

namespace ergon {

namespace {

constexpr std::array<std::pair<job_state, std::string_view>, 9> names{{{job_state::ready, "ready"},
                                                                       {job_state::scheduled, "scheduled"},
                                                                       {job_state::retry, "retry"},
                                                                       {job_state::waiting, "waiting"},
                                                                       {job_state::active, "active"},
                                                                       {job_state::completed, "completed"},
                                                                       {job_state::dead, "dead"},
                                                                       {job_state::cancelled, "cancelled"},
                                                                       {job_state::discarded, "discarded"}}};

}  // namespace

std::string_view to_string(job_state state) noexcept {
  for (const auto& [value, name] : names) {
    if (value == state) return name;
  }
  return "unknown";
}

std::optional<job_state> job_state_of(std::string_view name) noexcept {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::string public_id(const delivery& d) { return make_job_id(d.serial_high, d.serial, d.custom_id); }

std::vector<header> headers_of(const delivery& d) { return decode_headers(d.raw_headers); }

}  // namespace ergon
