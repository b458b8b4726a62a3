// What a simulated runtime has beside its one worker; see sim_runtime.hpp. The worker's alone, but for what is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/blocking.hpp>

#include "runtime/run_queue.hpp"

namespace ergon::detail {

class simulation {
 public:
  explicit simulation(std::uint64_t seed) : random_(seed) {}

  manual_clock clock;
  /// How many wait in `block_on`, or shut down. Counted up by those threads, and down on the worker when the task ends: so nothing runs
  /// after it.
  std::atomic<unsigned> running{0};
  /// How often everything was cancelled because nothing could go on, since somebody began to wait.
  unsigned rescues = 0;
  /// Where the simulation stood still, what every task waited for; read by who waits once its task has ended.
  std::string standstill;
  std::atomic<std::uint64_t> turns{0};
  std::atomic<std::uint64_t> fingerprint{0};

  void add(ready_item item) { ready_.push_back(item); }
  [[nodiscard]] bool empty() const noexcept { return ready_.empty(); }
  ready_item choose() {
    std::size_t const at = random_() % ready_.size();
    note(at, ready_.size());
    ready_item const chosen = ready_[at];
    ready_[at] = ready_.back();
    ready_.pop_back();
    return chosen;
  }
  /// How many waits that end at once the next turn goes on over.
  unsigned patience() noexcept { return static_cast<unsigned>(random_() % 4); }

 private:
  void note(std::uint64_t at, std::uint64_t of) noexcept {
    std::uint64_t sum = fingerprint.load(std::memory_order_relaxed);
    for (std::uint64_t const word : {at, of}) {
      sum = (sum ^ word) * 0x100000001b3;
    }
    fingerprint.store(sum, std::memory_order_relaxed);
    turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::mt19937_64 random_;
  std::vector<ready_item> ready_;
};

/// Runs each call as an item of the runtime that it was made for.
class simulated_executor final : public blocking_executor {
 public:
  explicit simulated_executor(scheduler& home) noexcept : home_(&home) {}
  [[nodiscard]] bool execute(work& item) noexcept override;

 private:
  scheduler* home_;
};

}  // namespace ergon::detail
