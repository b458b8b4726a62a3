#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/color.h>
#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/size.hpp>
#include <ergon/codec/json.hpp>

#include "screen.hpp"

namespace demo {
namespace {

/// The JSON document. Names stay as they are.
struct document {
  std::string broker;
  std::uint64_t files = 0;
  std::uint64_t unreadable = 0;
  std::uint64_t left_out = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
  std::uint64_t words = 0;
  double seconds = 0;
  double jobs_per_second = 0;
  unsigned workers = 0;
  std::uint64_t held_by_killed_worker = 0;
  std::uint64_t redelivered = 0;
  std::uint64_t failed = 0;
  std::uint64_t lost = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t changed_meanwhile = 0;
  bool good = false;
  std::vector<std::string> faults;
};
BOOST_DESCRIBE_STRUCT(document, (),
                      (broker, files, unreadable, left_out, bytes, lines, words, seconds, jobs_per_second, workers,
                       held_by_killed_worker, redelivered, failed, lost, mismatches, changed_meanwhile, good, faults))

double seconds(std::chrono::nanoseconds span) { return std::chrono::duration<double>(span).count(); }

enum class tone { plain, good, bad };

class rows {
 public:
  explicit rows(bool colour) : colour_(colour) {}

  void add(std::string_view name, std::string value, std::string remark = {}, tone how = tone::plain) {
    rows_.push_back({name, std::move(value), std::move(remark), how});
  }
  void print() const {
    std::size_t wide = 0;
    for (const row& r : rows_) wide = std::max(wide, r.value.size());
    for (const row& r : rows_) {
      const std::string value = fmt::format("{:>{}}", r.value, wide);
      const std::string remark = r.remark.empty() ? "" : "  " + r.remark;
      if (!colour_) {
        fmt::print("  {:<12} {}{}\n", r.name, value, remark);
        continue;
      }
      const auto look = r.how == tone::bad    ? fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red)
                        : r.how == tone::good ? fmt::emphasis::bold | fmt::fg(fmt::terminal_color::green)
                                              : fmt::text_style(fmt::emphasis::bold);
      fmt::print("  {:<12} {}{}\n", r.name, fmt::format(look, "{}", value),
                 remark.empty() ? "" : fmt::format(fmt::emphasis::faint, "{}", remark));
    }
  }

 private:
  struct row {
    std::string_view name;
    std::string value;
    std::string remark;
    tone how = tone::plain;
  };

  bool colour_;
  std::vector<row> rows_;
};

tone nought_is_good(std::uint64_t number) { return number == 0 ? tone::good : tone::bad; }

std::string remark_on_files(const report& r) {
  std::string text;
  const auto say = [&](std::uint64_t number, std::string_view what) {
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(number), what);
  };
  say(r.input.left_out, "more left out");
  say(r.input.unreadable, "not readable");
  say(r.changed, "changed meanwhile and not judged");
  return text;
}

}  // namespace

void report::blame(std::string sentence) {
  constexpr std::size_t most = 10;
  if (faults.size() < most) faults.push_back(std::move(sentence));
}

bool report::good() const noexcept {
  return faults.empty() && lost == 0 && mismatches == 0 && failed == 0 && held > 0 && redelivered > 0;
}

double report::jobs_per_second() const noexcept { return static_cast<double>(completed) / std::max(seconds(elapsed), 1e-9); }

void print_table(const report& r, bool colour) {
  rows table(colour);
  table.add("files", grouped(r.input.files.size()), remark_on_files(r));
  table.add("bytes", grouped(r.input.bytes), ergon::format_size(r.input.bytes));
  table.add("lines", grouped(r.lines));
  table.add("words", grouped(r.words));
  table.add("time", ergon::format_duration(r.elapsed),
            fmt::format("and {} to check with sha256sum", ergon::format_duration(r.checking)));
  table.add("jobs/s", grouped(static_cast<std::uint64_t>(r.jobs_per_second())));
  table.add("workers", grouped(r.workers),
            r.held == 0 ? "none was killed with jobs in its hands"
                        : fmt::format("number {} was killed with {} jobs in its hands, number {} took its place", r.killed,
                                      grouped(r.held), r.replacement));
  table.add("redelivered", grouped(r.redelivered), {}, r.redelivered > 0 ? tone::good : tone::bad);
  if (r.failed > 0) table.add("failed", grouped(r.failed), {}, tone::bad);
  table.add("lost", grouped(r.lost), {}, nought_is_good(r.lost));
  table.add("mismatches", grouped(r.mismatches), {}, nought_is_good(r.mismatches));
  fmt::print("\n");
  table.print();
  fmt::print("\n");
  for (const std::string& fault : r.faults) fmt::print("  {}\n", fault);
  std::fflush(stdout);
}

void print_json(const report& r) {
  fmt::print("{}\n", ergon::to_json(document{
                         .broker = r.broker,
                         .files = r.input.files.size(),
                         .unreadable = r.input.unreadable,
                         .left_out = r.input.left_out,
                         .bytes = r.input.bytes,
                         .lines = r.lines,
                         .words = r.words,
                         .seconds = seconds(r.elapsed),
                         .jobs_per_second = r.jobs_per_second(),
                         .workers = r.workers,
                         .held_by_killed_worker = r.held,
                         .redelivered = r.redelivered,
                         .failed = r.failed,
                         .lost = r.lost,
                         .mismatches = r.mismatches,
                         .changed_meanwhile = r.changed,
                         .good = r.good(),
                         .faults = r.faults,
                     }));
  std::fflush(stdout);
}

}  // namespace demo
