// `timeout` whose error says what did not end.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::detail {

/// No limit where `span` is the largest there is.
template <class T>
task<T> named_timeout(std::chrono::nanoseconds span, std::string what, task<T> body) {
  if (span == std::chrono::nanoseconds::max()) {
    co_return co_await std::move(body);
  }
  try {
    co_return co_await timeout(span, std::move(body));
  } catch (const error& e) {
    if (e.reason() != errc::timed_out) {
      throw;
    }
  }
  throw error(errc::timed_out, what + ": " + timeout_text(span));
}

}  // namespace ergon::detail
