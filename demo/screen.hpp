// What the watcher of the demo sees on stderr: a bar that is drawn over again on a terminal, elsewhere a line every few seconds. Used
// by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ergon/base/clock.hpp>

namespace demo {

/// 12,345,678
[[nodiscard]] std::string grouped(std::uint64_t number);

struct progress {
  /// What is counted: "done", "checked".
  std::string_view verb;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::optional<std::uint64_t> running;
  std::optional<std::uint64_t> failed;
};

class screen {
 public:
  screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;
  ~screen();

  /// The count starts again: another verb, another rate.
  void begin();
  void show(const progress& now);
  /// The bar stays as it is, what follows goes below it.
  void end();
  /// A line of its own, above the bar.
  void say(std::string_view line);

  [[nodiscard]] bool colour() const noexcept { return colour_; }

 private:
  [[nodiscard]] std::string line_of(const progress& now, double rate, std::size_t columns) const;
  [[nodiscard]] std::string bar(double part, std::size_t width) const;
  void write(std::string_view text);

  bool terminal_;
  bool colour_;
  bool utf8_;
  /// The line under the cursor, while it is a bar.
  std::string drawn_;
  ergon::steady_time begun_;
  ergon::steady_time last_shown_;
  std::uint64_t last_done_ = 0;
  double rate_ = 0;
};

}  // namespace demo
