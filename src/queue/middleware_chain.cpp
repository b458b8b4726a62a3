// Middleware around a handler.
#include "queue/middleware_chain.hpp"

#include <exception>
#include <utility>

#include "queue/worker_core.hpp"

namespace ergon {

task<outcome> next_handler::operator()() const { return chain_->call(at_); }

namespace detail {

namespace {

task<ergon::outcome> innermost(attempt& at) {
  co_await at.held.entry->handler->run(at.context, at.end);
  switch (std::exchange(at.end.what, attempt_end::how::open)) {
    case attempt_end::how::verdict:
      co_return std::move(at.end.verdict);
    case attempt_end::how::threw:
      std::rethrow_exception(std::exchange(at.end.thrown, nullptr));
    case attempt_end::how::bad_payload:
      co_return ergon::fail(std::move(at.end.text));
    default:
      co_return ergon::outcome{ergon::outcome::how::success, std::move(at.end.text)};
  }
}

}  // namespace

task<ergon::outcome> middleware_chain::call(std::size_t index) {
  if (index == around.size()) return innermost(at);
  return around[index](at.context, next_handler{*this, index + 1});
}

task<void> run_around(attempt& at) {
  middleware_chain chain{.around = at.worker.around(), .at = at};
  ergon::outcome end = co_await chain.call(0);
  at.end.what = attempt_end::how::verdict;
  at.end.verdict = std::move(end);
}

}  // namespace detail
}  // namespace ergon
