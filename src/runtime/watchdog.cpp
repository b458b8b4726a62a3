// See watchdog.hpp.
#include "runtime/watchdog.hpp"

#include <algorithm>
#include <utility>

namespace ergon::detail {

watchdog::watchdog(std::chrono::nanoseconds limit, std::function<void(const stall_info&)> report, unsigned workers,
                   std::function<std::uint64_t(unsigned)> turn_of, std::function<stall_info(unsigned)> describe)
    : limit_(limit), report_(std::move(report)), turn_of_(std::move(turn_of)), describe_(std::move(describe)), seen_(workers) {
  thread_ = std::thread([this] { watch(); });
}

watchdog::~watchdog() {
  {
    std::lock_guard const guard(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void watchdog::watch() noexcept {
  std::chrono::nanoseconds const pause =
      std::clamp<std::chrono::nanoseconds>(limit_ / 4, std::chrono::milliseconds{1}, std::chrono::seconds{1});
  std::unique_lock guard(mutex_);
  while (!changed_.wait_for(guard, pause, [this] { return ends_; })) {
    guard.unlock();
    steady_time const now = ergon::clock::system().steady();
    for (unsigned i = 0; i < seen_.size(); ++i) {
      look(i, now);
    }
    guard.lock();
  }
}

void watchdog::look(unsigned worker, steady_time now) noexcept {
  seen& last = seen_[worker];
  std::uint64_t const turn = turn_of_(worker);
  if (turn != last.turn) {
    last = {turn, now, false};
  } else if (turn != 0 && !last.reported && now - last.since >= limit_) {
    last.reported = true;
    stall_info found = describe_(worker);
    found.worker = worker;
    found.lasts = now - last.since;
    // It may just have ended; then what was read belongs to another turn.
    if (turn_of_(worker) == turn) {
      report_(found);
    }
  }
}

}  // namespace ergon::detail
