// What was measured, and results.json (schema 1, docs/DESIGN.md §9).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "bench/driver/statistics.hpp"
#include "bench/driver/suite.hpp"

namespace ergon::bench {

struct latency {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};

/// One row's rounds. A row is void from the first round whose work did not check or whose program failed.
struct row_result {
  measurement what;
  /// Element i belongs to round i of the run; empty where the row took no part or failed.
  std::vector<std::optional<double>> rounds;
  std::vector<latency> latencies = {};
  /// How much of a core the server used in each window that was measured, where there is one.
  std::vector<double> server_busy = {};
  std::uint64_t peak_rss_kb = 0;
  /// Why the row is void; empty where it is not.
  std::string failure = {};
  /// What the program said about its last round.
  std::string said = {};

  [[nodiscard]] std::vector<double> values() const;
  /// There are no figures to speak of.
  [[nodiscard]] bool is_void() const { return !failure.empty() || values().empty(); }
  /// Void although it should not be.
  [[nodiscard]] bool has_failed() const { return is_void() && what.lacks.empty(); }
  /// The median of each percentile over the rounds.
  [[nodiscard]] std::optional<latency> middle_latency() const;
  /// "server" where it was busy for at least 95% of the median window; else empty.
  [[nodiscard]] std::string bound_by() const;
};

struct results {
  std::string suite;
  std::string measured_at = {};
  bool quick = false;
  boost::json::object environment = {};
  std::vector<row_result> rows = {};
};

/// The row that `row` is compared with, or null where it took no part or is void.
[[nodiscard]] const row_result* baseline_of(const results& all, const row_result& row);
[[nodiscard]] std::optional<comparison> comparison_of(const results& all, const row_result& row);
/// `bar ≥ 1,000,000 jobs/s: met (1.12 ×)`, `…: short by 8%`; empty where the row has no bar.
[[nodiscard]] std::string bar_text(const results& all, const row_result& row);
/// Everything that must be said beside the figures, in whole sentences.
[[nodiscard]] std::string note_of(const results& all, const row_result& row);

[[nodiscard]] boost::json::object to_json(const results& all);
/// Indented by two, a short array on one line; ends with a line feed.
[[nodiscard]] std::string pretty(const boost::json::value& value);

/// `1,234,567` or, below 100, with decimals.
[[nodiscard]] std::string number_text(double value);
/// The value in the unit that people read: seconds as milliseconds.
[[nodiscard]] std::string value_text(double value, const std::string& unit);

}  // namespace ergon::bench
