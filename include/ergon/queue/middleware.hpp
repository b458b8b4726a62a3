// What runs around every handler of a worker: measuring, tracing, tenants, a transaction. Nothing is spent where none is used.
#pragma once

#include <functional>

#include <ergon/base/export.hpp>
#include <ergon/queue/job_context.hpp>
#include <ergon/queue/outcome.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {
struct middleware_chain;
}  // namespace detail

/// The rest of the chain: the next middleware, at the end the handler.
class ERGON_EXPORT next_handler {
 public:
  /// Runs the rest and gives its outcome; what the handler threw passes through as it is. Call it once at most: leaving it out
  /// means that the handler does not run.
  [[nodiscard]] task<outcome> operator()() const;

 private:
  friend struct detail::middleware_chain;
  next_handler(detail::middleware_chain& chain, std::size_t at) noexcept : chain_(&chain), at_(at) {}
  detail::middleware_chain* chain_;
  std::size_t at_;
};

/// Awaits `next()`, and may look at the outcome, replace it, or catch what was thrown. The outermost was given to `worker::use`
/// first. Runs on the runtime: it must not block. When the attempt is stopped, the middleware's wait ends with the handler's.
using middleware = std::function<task<outcome>(job_context& context, next_handler next)>;

}  // namespace ergon
