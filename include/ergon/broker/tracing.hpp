// A broker that tells somebody before and after each call that reaches the broker behind it. Crash tests find their kill points by it:
// what a job's life calls is what they must cover.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <ergon/base/export.hpp>
#include <ergon/broker/broker.hpp>

namespace ergon {

enum class trace_point : std::uint8_t {
  /// The call has been made and nothing has happened yet.
  before,
  /// The call has given its value or thrown; not where a wait was cancelled.
  after,
};

/// `call` is `broker.enqueue`, `consumer.fetch` and so on; it has static storage. Called on the thread of the task that makes the call, from many
/// at once. May throw: the call then throws the same, after it has happened where the point is `after`.
using trace_hook = std::function<void(std::string_view call, trace_point at)>;

/// Passes everything on to `inner`, consumers included (`consumer.abandon` is told around a call that cannot throw, so the hook must not
/// throw there).
[[nodiscard]] ERGON_EXPORT std::shared_ptr<broker> traced_broker(std::shared_ptr<broker> inner, trace_hook hook);

}  // namespace ergon
