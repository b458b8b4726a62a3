// Looks for workers that one task keeps; see `runtime_options::stall_limit`. A thread of its own, which a hanging worker does not stop. It
// only reads what the workers write anyhow.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/runtime.hpp>

namespace ergon::detail {

class watchdog {
 public:
  /// `turn_of` gives a number that changes whenever the worker begins something, 0 while it has nothing to do; `describe` what it is at.
  watchdog(std::chrono::nanoseconds limit, std::function<void(const stall_info&)> report, unsigned workers,
           std::function<std::uint64_t(unsigned)> turn_of, std::function<stall_info(unsigned)> describe);
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  /// Waits for a report under way.
  ~watchdog();

 private:
  struct seen {
    std::uint64_t turn = 0;
    steady_time since{};
    bool reported = false;
  };
  void watch() noexcept;
  void look(unsigned worker, steady_time now) noexcept;

  std::chrono::nanoseconds limit_;
  std::function<void(const stall_info&)> report_;
  std::function<std::uint64_t(unsigned)> turn_of_;
  std::function<stall_info(unsigned)> describe_;
  std::vector<seen> seen_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ergon::detail
