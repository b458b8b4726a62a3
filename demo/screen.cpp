#include "screen.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include <fmt/color.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <ergon/base/duration.hpp>

namespace demo {
namespace {

using namespace std::chrono_literals;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool speaks_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!is_set(variable)) continue;
    const std::string_view value = std::getenv(variable);
    return value.contains("UTF-8") || value.contains("utf8") || value.contains("utf-8");
  }
  return false;
}

std::size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ergon::steady_time now() { return ergon::clock::system().steady(); }

double seconds(std::chrono::nanoseconds span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

screen::screen()
    : terminal_(::isatty(STDERR_FILENO) == 1 && std::string_view(is_set("TERM") ? std::getenv("TERM") : "dumb") != "dumb"),
      colour_(terminal_ && !is_set("NO_COLOR")),
      utf8_(speaks_utf8()) {
  begin();
}

screen::~screen() { end(); }

void screen::begin() {
  begun_ = last_shown_ = now();
  last_done_ = 0;
  rate_ = 0;
}

void screen::show(const progress& what) {
  const ergon::steady_time at = now();
  const auto since = at - last_shown_;
  const bool last = what.done == what.total;
  if (since < (terminal_ ? 60ms : 2s) && !last) return;
  if (last && last_done_ == what.total && what.total > 0) return;
  const double fresh = static_cast<double>(what.done - std::min(last_done_, what.done)) / std::max(seconds(since), 1e-6);
  rate_ = rate_ == 0 ? fresh : rate_ * 0.8 + fresh * 0.2;
  // At the end the whole is what counts.
  const double rate = last ? static_cast<double>(what.done) / std::max(seconds(at - begun_), 1e-6) : rate_;
  last_shown_ = at;
  last_done_ = what.done;
  if (terminal_) {
    drawn_ = line_of(what, rate, columns_of_terminal());
    write("\r" + drawn_ + "\x1b[K");
  } else {
    write(line_of(what, rate, 0) + "\n");
  }
}

void screen::end() {
  if (drawn_.empty()) return;
  drawn_.clear();
  write("\n");
}

void screen::say(std::string_view line) {
  if (drawn_.empty()) {
    write(fmt::format("{}\n", line));
  } else {
    write(fmt::format("\r\x1b[K{}\n{}", line, drawn_));
  }
}

std::string screen::line_of(const progress& what, double rate, std::size_t columns) const {
  const double part = what.total == 0 ? 1 : static_cast<double>(what.done) / static_cast<double>(what.total);
  const auto left = static_cast<double>(what.total - std::min(what.done, what.total));
  std::string figures = fmt::format("{:>3.0f}%  {} of {} {}", part * 100, grouped(what.done), grouped(what.total), what.verb);
  if (what.running) figures += fmt::format("  {} running", grouped(*what.running));
  if (what.failed) figures += fmt::format("  {} failed", grouped(*what.failed));
  figures += fmt::format("  {}/s", grouped(static_cast<std::uint64_t>(rate)));
  if (left > 0) {
    const bool known = rate >= 1;
    figures +=
        "  ETA " +
        (known ? ergon::format_duration(std::chrono::ceil<std::chrono::seconds>(std::chrono::duration<double>(left / rate)))
               : "?");
  }
  if (columns == 0) return figures;
  // What does not fit would wrap, and the next bar would be drawn below the rest of this one.
  if (figures.size() + 4 > columns) return figures.substr(0, columns - 1);
  const std::size_t room = std::min<std::size_t>(columns - figures.size() - 3, 30);
  return " " + bar(part, room) + " " + figures;
}

std::string screen::bar(double part, std::size_t width) const {
  const auto eighths = static_cast<std::size_t>(part * static_cast<double>(width) * 8);
  const std::size_t full = eighths / 8;
  std::string done;
  std::string rest;
  if (utf8_) {
    constexpr std::array<std::string_view, 8> parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    for (std::size_t i = 0; i < full; ++i) done += "█";
    done += parts[eighths % 8];
    for (std::size_t i = full + (eighths % 8 == 0 ? 0 : 1); i < width; ++i) rest += "░";
  } else {
    done.assign(full, '#');
    rest.assign(width - full, '.');
  }
  if (!colour_) return done + rest;
  return fmt::format(fmt::fg(fmt::terminal_color::green), "{}", done) + fmt::format(fmt::emphasis::faint, "{}", rest);
}

void screen::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace demo
