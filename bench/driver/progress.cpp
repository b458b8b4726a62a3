#include "bench/driver/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace ergon::bench {
namespace {

std::string span_text(double seconds) {
  const auto s = std::lround(seconds);
  return s < 60 ? fmt::format("{} s", s) : fmt::format("{}:{:02} min", s / 60, s % 60);
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

}  // namespace

progress::progress(std::size_t steps) : steps_{steps}, terminal_{::isatty(STDERR_FILENO) == 1} {}

progress::~progress() { erase(); }

void progress::erase() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void progress::begin(std::size_t step, std::string_view what) {
  step_ = step;
  what_ = what;
  if (!terminal_) return;
  constexpr std::size_t width = 24;
  const std::size_t full = steps_ == 0 ? 0 : std::min(width, width * step / steps_);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  std::string left;
  if (step > 0 && steps_ > step)
    left = ", " + span_text(elapsed / static_cast<double>(step) * static_cast<double>(steps_ - step)) + " left";
  std::string line =
      fmt::format("[{}{}] {}/{}{}  {}", std::string(full, '#'), std::string(width - full, '.'), step, steps_, left, what);
  if (line.size() >= terminal_width()) line.resize(terminal_width() - 1);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void progress::end(std::string_view outcome) {
  if (!terminal_) fmt::print(stderr, "[{}/{}] {}: {}\n", step_ + 1, steps_, what_, outcome);
}

void progress::say(std::string_view text) {
  erase();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace ergon::bench
