// See blocking.hpp.
#include <ergon/base/error.hpp>
#include <ergon/runtime/blocking.hpp>

#include "runtime/scheduler.hpp"

namespace ergon {

blocking_executor::~blocking_executor() = default;

namespace detail {

std::shared_ptr<blocking_executor> executor_for(task_root& root) {
  auto executor = root.home().blocking();
  if (executor == nullptr) {
    throw error(
        errc::invalid_argument,
        "blocking: this runtime has no executor; install a pool (ergon::install_pool, or runtime::set_blocking_executor)");
  }
  return executor;
}

void throw_executor_closed() { throw error(errc::closed, "blocking: the executor of this runtime was closed"); }

}  // namespace detail
}  // namespace ergon
