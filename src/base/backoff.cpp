// Back-off and its jitter.
#include <ergon/base/backoff.hpp>

#include <cmath>
#include <random>

#include <ergon/base/random.hpp>

namespace ergon::detail {

random_source& thread_random() noexcept {
  thread_local random_source source{[] {
    std::random_device kernel;
    return (static_cast<std::uint64_t>(kernel()) << 32) | kernel();
  }()};
  return source;
}

std::chrono::nanoseconds backoff_bound(const backoff_options& options, std::uint32_t failures) noexcept {
  const double grown = static_cast<double>(options.base.count()) * std::pow(options.factor, failures > 0 ? failures - 1 : 0);
  if (!(grown < static_cast<double>(options.cap.count()))) return options.cap;
  return std::chrono::nanoseconds{static_cast<std::int64_t>(grown)};
}

std::chrono::nanoseconds jittered(std::chrono::nanoseconds bound) noexcept {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(static_cast<double>(bound.count()) * thread_random().fraction())};
}

}  // namespace ergon::detail
