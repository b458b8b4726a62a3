// The futex system call; see futex.hpp.
#include "runtime/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace ergon::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, steady_time deadline) noexcept {
  timespec until{};
  timespec* limit = nullptr;
  if (deadline != steady_time::max()) {
    auto const since = std::chrono::nanoseconds{std::max<std::int64_t>(deadline.time_since_epoch().count(), 0)};
    auto const seconds = std::chrono::floor<std::chrono::seconds>(since);
    until.tv_sec = static_cast<time_t>(seconds.count());
    until.tv_nsec = static_cast<long>((since - seconds).count());
    limit = &until;
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word, int waiters) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, waiters, nullptr, nullptr, 0);
}

}  // namespace ergon::detail
