// What a suite consists of: rows, what they are compared with, and the bars that they must reach. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "bench/driver/statistics.hpp"

namespace ergon::bench {

/// What a row must reach.
struct bar {
  enum class kind : std::uint8_t {
    /// The median is at least / at most `value`, in the row's unit.
    at_least,
    at_most,
    /// The 99th percentile of the latency is at most `value` milliseconds.
    p99_ms_at_most,
    /// The median of the paired ratios to the baseline is at least `value`.
    ratio_at_least,
    /// The same the other way round, of a row that is compared with ergon's: the baseline is at least `value` times better than it.
    baseline_ratio_at_least,
  };
  kind what = kind::at_least;
  double value = 0;
  /// A goal beyond the bar; nought where there is none.
  double stretch = 0;
};

/// One row: one system doing one thing with one set of parameters.
struct measurement {
  /// Unique within the suite; names a row as a baseline. `--system-args` shows it.
  std::string key;
  /// The heading it stands under and what it is, for a person.
  std::string section;
  std::string title = {};
  std::string scenario;
  std::string system;
  std::string variant = {};
  /// Recorded with the result, and passed to the program as `--name value`: what is recorded is what ran.
  boost::json::object params = {};
  std::string unit = {};
  direction better = direction::higher;
  /// The file beside the driver.
  std::string program = {};
  /// The prepared store that each round starts from a copy of; empty: an empty directory.
  std::string store = {};
  /// It works on a Redis server, which the driver starts and clears before it.
  bool on_redis = false;
  /// Why the system has no such thing: the row is not run, and stands with this sentence in place of figures.
  std::string lacks = {};
  /// The key of the row that it is compared with, and words for it; empty: with none.
  std::string baseline = {};
  std::string baseline_title = {};
  std::optional<bar> must = {};
  /// Why it is no wonder if the baseline wins.
  std::string why_slower = {};
  /// What a reader must know to read the figure.
  std::string remark = {};
  /// Long rows that hardly vary take part in the first rounds only.
  unsigned rounds_at_most = 1000;
};

/// A store that several rows start from. Making it takes longer than copying it.
struct prepared_store {
  std::string name;
  std::string program = {};
  boost::json::object params;
};

struct suite {
  std::string name;
  std::vector<measurement> rows;
  std::vector<prepared_store> stores;
  unsigned rounds = 0;
  /// No round is started that would likely end after this; nought means no limit.
  double budget_seconds = 0;
};

/// Names of the suites that this driver knows.
[[nodiscard]] std::vector<std::string_view> suite_names();
/// Throws `std::invalid_argument`, listing the names, for one it does not know.
[[nodiscard]] suite make_suite(std::string_view name, bool quick);

[[nodiscard]] suite make_queue_suite(bool quick);
[[nodiscard]] suite make_tasks_suite(bool quick);

/// `--name value …` for a program: the scenario first, then the variant and the parameters.
[[nodiscard]] std::vector<std::string> arguments_of(std::string_view scenario, const boost::json::object& params);

}  // namespace ergon::bench
