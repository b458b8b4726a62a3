// The workers of this process, and the one job that has to be alone in it.
#include "queue/process_gate.hpp"

#include <algorithm>

#include "queue/worker_core.hpp"

namespace ergon::detail {

process_gate& process_gate::instance() noexcept {
  static auto& gate = *new process_gate;
  return gate;
}

void process_gate::join(worker_core& member) {
  const std::scoped_lock lock{lock_};
  members_.push_back(&member);
  if (owner_ != nullptr) member.close_for_suspect();
}

void process_gate::leave(worker_core& member) noexcept {
  exit(member);
  const std::scoped_lock lock{lock_};
  std::erase(members_, &member);
  wake_waiters();
}

bool process_gate::try_take(worker_core& who) {
  const std::scoped_lock lock{lock_};
  if (owner_ != nullptr && owner_ != &who) return false;
  owner_ = &who;
  for (worker_core* member : members_) {
    if (member != &who) member->close_for_suspect();
  }
  return true;
}

bool process_gate::all_rest() {
  const std::scoped_lock lock{lock_};
  return std::ranges::all_of(members_, [](const worker_core* member) { return member->runs_nothing(); });
}

task<void> process_gate::enter(worker_core& who) {
  event changed;
  struct registration {
    process_gate& gate;
    event& mine;
    registration(process_gate& of, event& with) : gate(of), mine(with) {
      const std::scoped_lock lock{gate.lock_};
      gate.waiting_.push_back(&mine);
    }
    ~registration() {
      const std::scoped_lock lock{gate.lock_};
      std::erase(gate.waiting_, &mine);
    }
  } const registered{*this, changed};
  for (;;) {
    changed.reset();
    if (try_take(who)) break;
    co_await changed.wait();
  }
  for (;;) {
    changed.reset();
    if (all_rest()) break;
    co_await changed.wait();
  }
}

void process_gate::exit(worker_core& who) noexcept {
  const std::scoped_lock lock{lock_};
  if (owner_ != &who) return;
  owner_ = nullptr;
  for (worker_core* member : members_) {
    if (member != &who) member->open_after_suspect();
  }
  wake_waiters();
}

void process_gate::changed() noexcept {
  const std::scoped_lock lock{lock_};
  wake_waiters();
}

void process_gate::wake_waiters() noexcept {
  for (event* waiting : waiting_) waiting->set();
}

}  // namespace ergon::detail
