// When a failed job is tried again. A policy is a function; these make the usual ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include <ergon/base/backoff.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

/// Called after a failed attempt with the number of failures so far (1 after the first) and the error's text; answers how long to
/// wait before the next. Called from any thread of the runtime, by several at once. What is negative counts as nought, what is
/// longer than ten years as ten years; if it throws, the default policy answers.
using retry_policy = std::function<std::chrono::nanoseconds(std::uint32_t failures, std::string_view error)>;

/// Exponential back-off. The default of every worker is `exponential_backoff()`: with 25 retries a job is given up after about
/// a day and a half on average, three at most.
[[nodiscard]] ERGON_EXPORT retry_policy exponential_backoff(backoff_options options = {});
/// The same wait each time.
[[nodiscard]] ERGON_EXPORT retry_policy fixed_backoff(std::chrono::nanoseconds wait);

}  // namespace ergon
