// What is said about the rounds of a row, and about two rows of the same rounds. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ergon::bench {

/// Which way a figure gets better: a rate is better when higher, a time when lower.
enum class direction : std::uint8_t { higher, lower };

struct summary {
  double best = 0;
  double median = 0;
  double worst = 0;
};

/// The middle value, or the mean of the two in the middle. `values` must not be empty; any order.
[[nodiscard]] double median(std::span<const double> values);
/// Nearest rank: the smallest value that at least `percent` (0 to 100) of the values do not exceed. Not empty; any order.
[[nodiscard]] inline double percentile(std::span<const double> values, double percent) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::clamp(rank, 1.0, static_cast<double>(sorted.size()))) - 1];
}
/// `values` must not be empty.
[[nodiscard]] summary summarise(std::span<const double> values, direction better);

enum class finding : std::uint8_t { faster, slower, cannot_tell };
[[nodiscard]] std::string_view to_string(finding f) noexcept;

/// How many times better one system was than another; above 1 it was faster, or smaller.
struct comparison {
  double median = 0;
  /// An interval that holds the median of such pairs with 95% confidence (by the sign test, so without assuming how the noise is
  /// distributed). With fewer than six pairs no interval can promise that: then it runs from the lowest pair to the highest.
  double low = 0;
  double high = 0;
  finding verdict = finding::cannot_tell;
  std::size_t pairs = 0;
};

/// Compares within rounds: element i of both was measured in round i, an empty one failed there and its pair is left out.
/// `cannot_tell` only where the interval of the paired difference holds nought: noise that both shared cancels out in a pair, and
/// noise that they did not share is no merit. Nothing where no pair is complete.
[[nodiscard]] std::optional<comparison> compare(std::span<const std::optional<double>> ours,
                                                std::span<const std::optional<double>> theirs, direction better);

}  // namespace ergon::bench
