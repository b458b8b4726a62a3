// What a handler may say instead of a result.
#include <ergon/base/duration.hpp>
#include <ergon/queue/outcome.hpp>

namespace ergon {

outcome::~outcome() = default;

outcome retry_in(std::chrono::nanoseconds delay, std::string reason) {
  check_duration("the delay of retry_in", delay);
  return {outcome::how::retry, std::move(reason), delay};
}

outcome fail(std::string reason) { return {outcome::how::fail, std::move(reason)}; }

outcome cancelled(std::string reason) { return {outcome::how::cancel, std::move(reason)}; }

}  // namespace ergon
