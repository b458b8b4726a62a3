// Values of tasks; see task_local.hpp. Where a task keeps them is root.cpp's.
#include <ergon/runtime/task_local.hpp>

#include "runtime/turn.hpp"

namespace ergon::detail {

local_binding::~local_binding() = default;

void local_binding::release(local_binding* from) noexcept {
  while (from != nullptr && from->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    local_binding* const outer = from->outer_;
    delete from;
    from = outer;
  }
}

const local_binding* local_binding::find(const local_binding* from, const void* key) noexcept {
  while (from != nullptr && from->key_ != key) {
    from = from->outer_;
  }
  return from;
}

local_scope::local_scope(task_root& of, std::unique_ptr<local_binding> binding) : root_(&of), before_(of.own_locals()) {
  local_binding* const outer = of.locals();
  of.set_locals(binding.get());
  if (outer != nullptr) {
    outer->retain();
  }
  binding->set_outer(outer);
  binding.release();
}

local_scope::~local_scope() {
  local_binding* const mine = root_->own_locals();
  root_->set_locals(before_);
  local_binding::release(mine);
}

const local_binding* current_locals() noexcept {
  task_root* const running = this_turn.running;
  return running != nullptr ? running->locals() : nullptr;
}

}  // namespace ergon::detail
