// What a worker knows about a kind: who handles it, when it is tried again, how it went. The worker's lock guards the counts.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <ergon/queue/handler.hpp>
#include <ergon/queue/health.hpp>

namespace ergon::detail {

/// Durations by powers of two, each in four steps: a kilobyte, an increment, and quantiles that are at most a quarter too high.
class duration_histogram {
 public:
  void add(std::chrono::nanoseconds span) noexcept {
    const auto value = span.count() > 0 ? static_cast<std::uint64_t>(span.count()) : 0;
    ++counts_[index_of(value)];
    ++count_;
    total_ += value;
    if (value > longest_) longest_ = value;
  }
  [[nodiscard]] std::chrono::nanoseconds total() const noexcept { return nanoseconds_of(total_); }
  [[nodiscard]] std::chrono::nanoseconds longest() const noexcept { return nanoseconds_of(longest_); }
  /// The bound under which `part` (0 to 1) of all durations lie.
  [[nodiscard]] std::chrono::nanoseconds quantile(double part) const noexcept {
    const auto rank = static_cast<std::uint64_t>(part * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank || (seen == count_ && seen > 0)) {
        const std::uint64_t bound = bound_of(i);
        return nanoseconds_of(bound < longest_ ? bound : longest_);
      }
    }
    return {};
  }

 private:
  static constexpr std::size_t exponents = 48;

  static std::chrono::nanoseconds nanoseconds_of(std::uint64_t value) noexcept {
    return std::chrono::nanoseconds{static_cast<std::int64_t>(value)};
  }
  static std::size_t index_of(std::uint64_t value) noexcept {
    if (value < 4) return static_cast<std::size_t>(value);
    const auto exponent = static_cast<std::size_t>(std::bit_width(value)) - 1;
    const std::size_t index = exponent * 4 + static_cast<std::size_t>((value >> (exponent - 2)) & 3) - 4;
    return index < exponents * 4 ? index : exponents * 4 - 1;
  }
  static std::uint64_t bound_of(std::size_t index) noexcept {
    if (index < 4) return index;
    const std::size_t exponent = (index + 4) / 4;
    const std::size_t step = (index + 4) % 4;
    return (std::uint64_t{1} << exponent) + ((std::uint64_t{step} + 1) << (exponent - 2)) - 1;
  }

  std::array<std::uint64_t, exponents * 4> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t longest_ = 0;
};

struct kind_entry {
  std::string kind;
  std::unique_ptr<job_handler> handler;
  retry_policy retry;

  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  duration_histogram durations;

  [[nodiscard]] kind_statistics statistics() const {
    return {.kind = kind,
            .completed = completed,
            .failed = failed,
            .cancelled = cancelled,
            .total = durations.total(),
            .longest = durations.longest(),
            .p50 = durations.quantile(0.50),
            .p95 = durations.quantile(0.95),
            .p99 = durations.quantile(0.99)};
  }
};

}  // namespace ergon::detail
