// Random numbers for jitter: small, fast, good enough to spread what would come together. Not for secrets. One thread.
#pragma once

#include <cstdint>

#include <ergon/base/export.hpp>

namespace ergon::detail {

/// xoshiro would be better and is not needed: splitmix64.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// From nought up to, and without, one.
  double fraction() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

/// One per thread, seeded by the kernel.
[[nodiscard]] ERGON_EXPORT random_source& thread_random() noexcept;

}  // namespace ergon::detail
