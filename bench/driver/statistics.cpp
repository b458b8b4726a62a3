#include "bench/driver/statistics.hpp"

namespace ergon::bench {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::ranges::sort(copy);
  return copy;
}

// How many values may be left out at each end so that what lies between still holds the median with 95% confidence: each value is
// above the median with probability one half, so the number above it is binomial.
std::size_t droppable(std::size_t n) {
  double term = std::pow(0.5, static_cast<double>(n));
  double tail = term;
  std::size_t dropped = 0;
  for (std::size_t k = 1; k < n / 2; ++k) {
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    tail += term;
    if (2 * tail > 0.05) break;
    dropped = k;
  }
  return dropped;
}

}  // namespace

double median(std::span<const double> values) {
  const auto v = sorted(values);
  const std::size_t middle = v.size() / 2;
  return v.size() % 2 == 1 ? v[middle] : (v[middle - 1] + v[middle]) / 2;
}

summary summarise(std::span<const double> values, direction better) {
  const auto [low, high] = std::ranges::minmax(values);
  return better == direction::higher ? summary{high, median(values), low} : summary{low, median(values), high};
}

std::string_view to_string(finding f) noexcept {
  switch (f) {
    case finding::faster:
      return "faster";
    case finding::slower:
      return "slower";
    case finding::cannot_tell:
      break;
  }
  return "cannot tell apart";
}

std::optional<comparison> compare(std::span<const std::optional<double>> ours, std::span<const std::optional<double>> theirs,
                                  direction better) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (!ours[i] || !theirs[i] || *ours[i] <= 0 || *theirs[i] <= 0) continue;
    ratios.push_back(better == direction::higher ? *ours[i] / *theirs[i] : *theirs[i] / *ours[i]);
  }
  if (ratios.empty()) return std::nullopt;
  std::ranges::sort(ratios);
  const std::size_t dropped = droppable(ratios.size());
  comparison c{
      .median = median(ratios), .low = ratios[dropped], .high = ratios[ratios.size() - 1 - dropped], .pairs = ratios.size()};
  // A ratio is above 1 exactly where the difference is above nought, so the interval of one says which side the other is on.
  c.verdict = c.low > 1 ? finding::faster : c.high < 1 ? finding::slower : finding::cannot_tell;
  return c;
}

}  // namespace ergon::bench
