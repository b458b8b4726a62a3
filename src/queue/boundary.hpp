// Awaits a task so that the stopped path ends here: true means that it was taken. Unlike `as_result`, exceptions pass as they are.
#pragma once

#include <ergon/runtime/result.hpp>

namespace ergon::detail {

class boundary final : public boundary_frame<void> {
 public:
  using boundary_frame::boundary_frame;
  bool await_resume() {
    if (unwound()) return true;
    take();
    return false;
  }
};

}  // namespace ergon::detail
