// How many jobs were put in, where a counter of its own for each would cost as much as the job: counted at once after a pause, and together with
// those that follow within a moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/base/clock.hpp>

#include "broker/redis/partition.hpp"

namespace ergon::redis_store {

/// Any thread.
class enqueue_counts {
 public:
  /// What is put off is put off for so long at most, and so many jobs.
  static constexpr std::chrono::milliseconds moment{100};
  static constexpr std::uint64_t many = 64;

  struct share {
    /// To be counted with this job, itself included; 0: later.
    std::uint64_t now = 0;
    /// Nobody has seen to it yet that what is put off is counted: the caller does, a moment later.
    bool starts_timer = false;
  };

  /// One more job is about to be put in.
  share add(const partition& in, steady_time at) {
    const std::scoped_lock lock{mutex_};
    state& of = by_queue_[&in];
    ++of.waiting;
    if (of.waiting >= many || of.last == steady_time{} || at - of.last >= moment) {
      of.last = at;
      return {.now = std::exchange(of.waiting, 0)};
    }
    return {.now = 0, .starts_timer = !std::exchange(timer_runs_, true)};
  }
  /// A job that `add` was told of was not put in, or its count did not arrive.
  void correct(const partition& in, std::int64_t by) {
    const std::scoped_lock lock{mutex_};
    std::uint64_t& waiting = by_queue_[&in].waiting;
    waiting = static_cast<std::uint64_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(waiting) + by));
  }
  /// All that was put off.
  std::vector<std::pair<const partition*, std::uint64_t>> take(bool ends_timer) {
    const std::scoped_lock lock{mutex_};
    if (ends_timer) timer_runs_ = false;
    std::vector<std::pair<const partition*, std::uint64_t>> out;
    for (auto& [in, of] : by_queue_) {
      if (of.waiting != 0) out.emplace_back(in, std::exchange(of.waiting, 0));
    }
    return out;
  }

 private:
  struct state {
    std::uint64_t waiting = 0;
    steady_time last{};
  };
  std::mutex mutex_;
  boost::unordered_flat_map<const partition*, state> by_queue_;
  bool timer_runs_ = false;
};

}  // namespace ergon::redis_store
