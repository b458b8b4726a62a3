// Says on standard error how far the run is: on a terminal one line that is written over, else a line per program run.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ergon::bench {

class progress {
 public:
  explicit progress(std::size_t steps);
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  /// `step` (0-based) begins; `what` names it.
  void begin(std::size_t step, std::string_view what);
  /// It ended so.
  void end(std::string_view outcome);
  /// A line that stays.
  void say(std::string_view text);

 private:
  void erase();

  std::size_t steps_;
  std::size_t step_ = 0;
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace ergon::bench
