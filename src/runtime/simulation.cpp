// The loop of a simulated worker, and the public face of a simulation.
#include "runtime/simulation.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sim_runtime.hpp>

#include "runtime/scheduler.hpp"
#include "runtime/turn.hpp"

namespace ergon {

namespace detail {

bool simulated_executor::execute(work& item) noexcept {
  home_->push(item);
  return true;
}

void scheduler::simulate(worker& self) noexcept {
  simulation& sim = *simulation_;
  this_turn.worker = &self;
  for (;;) {
    if (!may_simulate()) {
      if (stop_.load(std::memory_order_acquire)) {
        return;
      }
      stand_still(self);
      continue;
    }
    // Nothing follows from another without a choice.
    this_turn.round = look_interval - 1;
    if (operation* const next = std::exchange(this_turn.next, nullptr)) {
      sim.add(ready_item{*next});
    }
    while (ready_item const item = take_own(self, 1)) {
      sim.add(item);
    }
    if (!sim.empty()) {
      ready_item const item = sim.choose();
      this_turn.waits_left = sim.patience();
      item.run();
      continue;
    }
    if (steady_time const due = earliest(); due != steady_time::max()) {
      // Moving the clock fires them.
      sim.clock.advance(std::max(due - sim.clock.steady(), std::chrono::nanoseconds::zero()));
      continue;
    }
    if (stop_.load(std::memory_order_acquire)) {
      return;
    }
    if (closing_.load(std::memory_order_acquire)) {
      stand_still(self);
    } else if (sim.rescues < 3) {
      if (sim.rescues++ == 0) {
        sim.standstill =
            "the simulation stands still: nothing is ready and no timer is set; there are " + front_.describe_tasks();
      }
      // More than once: what tidies up may have started something.
      cancel_all();
    } else {
      // Somebody does not let himself be cancelled, and no one else is there to end it.
      fatal((sim.standstill + "and not all of them could be cancelled").c_str());
    }
  }
}

bool scheduler::may_simulate() const noexcept { return simulation_->running.load(std::memory_order_acquire) != 0; }

// Until somebody waits in `block_on`, or shuts down and makes something ready.
void scheduler::stand_still(worker& self) noexcept {
  self.word.store(0, std::memory_order_relaxed);
  {
    std::lock_guard const guard(idle_lock_);
    idle_.push_back(&self);
    idle_count_.store(idle_.size(), std::memory_order_seq_cst);
  }
  if (!stop_.load(std::memory_order_acquire) && !(may_simulate() && (anything_queued() || !simulation_->empty()))) {
    futex_wait(self.word, 0, steady_time::max());
  }
  leave_idle(self);
}

void scheduler::wait_in_simulation(task_root& root) {
  simulation& sim = *simulation_;
  struct waiter : join_waiter {
    simulation* sim;
    std::atomic<std::uint32_t> ended{0};
  } last;
  last.sim = &sim;
  last.joined = [](join_waiter& self, task_root&) noexcept {
    auto& told = static_cast<waiter&>(self);
    told.sim->running.fetch_sub(1, std::memory_order_release);
    told.ended.store(1, std::memory_order_release);
    futex_wake(told.ended, 1);
  };
  sim.standstill.clear();
  sim.rescues = 0;
  if (root.set_joiner(last)) {
    sim.running.fetch_add(1, std::memory_order_release);
    wake_all();
    while (last.ended.load(std::memory_order_acquire) == 0) {
      futex_wait(last.ended, 0, steady_time::max());
    }
  }
  if (!sim.standstill.empty()) {
    throw error(errc::deadlock, std::exchange(sim.standstill, {}));
  }
}

}  // namespace detail

sim_runtime::sim_runtime(std::uint64_t seed) : runtime(runtime_options{.threads = 1, .name = "sim"}, seed) {}
sim_runtime::~sim_runtime() = default;

std::uint64_t sim_runtime::turns() const noexcept { return simulated().turns.load(std::memory_order_relaxed); }
std::uint64_t sim_runtime::fingerprint() const noexcept { return simulated().fingerprint.load(std::memory_order_relaxed); }

}  // namespace ergon
