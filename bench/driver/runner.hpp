// Runs the rows of a suite: all of them once per round, so that a change of the machine's mood meets every system.
#pragma once

#include <filesystem>

#include "bench/driver/progress.hpp"
#include "bench/driver/results.hpp"
#include "bench/driver/suite.hpp"

namespace ergon::bench {

/// Folders that a run needs. Made in `parent`, removed with everything in it at the end.
class work_folder {
 public:
  explicit work_folder(const std::filesystem::path& parent);
  work_folder(const work_folder&) = delete;
  work_folder& operator=(const work_folder&) = delete;
  ~work_folder();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// What one run of a program said.
struct reply {
  double value = 0;
  std::optional<latency> percentiles;
  std::string note;
  std::optional<double> server_busy;
  /// Empty where the work was done and checked.
  std::string failure;
  /// What the program says about itself: versions, how it was built.
  boost::json::object about;
};
/// Reads the one line of JSON that a program prints. Never throws: what is wrong becomes `failure`.
[[nodiscard]] reply parse_reply(std::string_view out);

/// Measures; `to` gets a row per measurement, also where the run is stopped early. Programs lie in `programs`.
void run_suite(const suite& s, const std::filesystem::path& programs, const work_folder& work, progress& shown, results& to);

}  // namespace ergon::bench
