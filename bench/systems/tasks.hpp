// What the programs of the suite `tasks` report, whatever runs the tasks.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <utility>

#include "bench/systems/program.hpp"

namespace ergon::bench {

/// The line of a scenario: the figure, or why it is none.
[[nodiscard]] inline boost::json::object task_line(double value, bool verified, const std::string& failure,
                                                   boost::json::object libraries, const std::string& note = {}) {
  boost::json::object line{{"value", value}, {"verified", verified}};
  if (!verified) line["failure"] = failure;
  if (!note.empty()) line["note"] = note;
  line["about"] = about(std::move(libraries));
  return line;
}

/// Of `sleep`: the peak of memory or the time, as asked, with both and the CPU time in the note.
[[nodiscard]] inline boost::json::object sleep_line(const arguments& a, double seconds, std::uint64_t ended,
                                                    boost::json::object libraries) {
  const std::uint64_t tasks = a.number("tasks");
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds_of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  const double peak_mb = static_cast<double>(use.ru_maxrss) / 1024;
  return task_line(
      a.text("figure") == "seconds" ? seconds : peak_mb, ended == tasks,
      fmt::format("of {} tasks {} ended as they should", tasks, ended), std::move(libraries),
      fmt::format("{:.2f} s, {:.0f} MB, {:.2f} s of CPU", seconds, peak_mb, seconds_of(use.ru_utime) + seconds_of(use.ru_stime)));
}

/// Of `channel`: items a second, if the numbers below `items` came through, which their sum tells.
[[nodiscard]] inline boost::json::object channel_line(std::uint64_t items, double seconds, std::uint64_t sum,
                                                      boost::json::object libraries) {
  return task_line(static_cast<double>(items) / seconds, sum == items * (items - 1) / 2,
                   fmt::format("the numbers below {} came to {}", items, sum), std::move(libraries));
}

}  // namespace ergon::bench
