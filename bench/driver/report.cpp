#include "bench/driver/report.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json/serialize.hpp>

namespace ergon::bench {
namespace {

// One line of the table, all as text.
struct cells {
  std::string system;
  std::string title;
  std::string middle = {};
  std::string best = {};
  std::string worst = {};
  std::string latencies = {};
  std::string rss = {};
  std::string ratio = {};
  std::string bar = {};
};

constexpr std::size_t columns = 9;

std::array<std::string, columns> as_array(const cells& c) {
  return {c.system, c.title, c.middle, c.best, c.worst, c.latencies, c.rss, c.ratio, c.bar};
}

const cells heading{"system", "what", "median", "best", "worst", "p50 / p95 / p99 ms", "RSS MB", "against", "bar"};

cells cells_of(const results& all, const row_result& row) {
  cells c{.system = row.what.system, .title = row.what.title};
  c.bar = bar_text(all, row);
  if (!row.what.lacks.empty()) {
    c.middle = "–";
    c.ratio = row.what.lacks;
    return c;
  }
  if (row.is_void()) {
    c.middle = "void";
    return c;
  }
  const summary s = summarise(row.values(), row.what.better);
  const auto bare = [&](double v) { return row.what.unit == "s" ? number_text(v * 1000) : number_text(v); };
  c.middle = value_text(s.median, row.what.unit);
  c.best = bare(s.best);
  c.worst = bare(s.worst);
  if (const auto l = row.middle_latency())
    c.latencies = fmt::format("{} / {} / {}", number_text(l->p50), number_text(l->p95), number_text(l->p99));
  c.rss = fmt::format("{:.0f}", static_cast<double>(row.peak_rss_kb) / 1024);
  if (const auto r = comparison_of(all, row)) {
    const std::string spread = r->pairs == 1   ? "one pair"
                               : r->high < 0.1 ? fmt::format("{}–{}", number_text(r->low), number_text(r->high))
                                               : fmt::format("{:.2f}–{:.2f}", r->low, r->high);
    // A hundredth has no second digit to show.
    const std::string middle = r->median < 0.1 ? number_text(r->median) : fmt::format("{:.2f}", r->median);
    c.ratio = fmt::format("{} × {} ({}), {}", middle, row.what.baseline_title, spread, to_string(r->verdict));
  }
  return c;
}

// Columns on a terminal: bytes that do not continue a UTF-8 sequence. Nothing wider than one column occurs here.
std::size_t seen_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char ch) { return (static_cast<unsigned char>(ch) & 0xC0U) != 0x80U; }));
}

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::string blanks(width - std::min(width, seen_width(text)), ' ');
  return to_the_right ? blanks + text : text + blanks;
}

// The rows without a figure, by the reason.
std::map<std::string, std::vector<std::string>> void_rows(const results& all) {
  std::map<std::string, std::vector<std::string>> rows;
  for (const row_result& row : all.rows) {
    if (!row.has_failed()) continue;
    rows[row.failure.empty() ? "no round was measured" : row.failure].push_back(
        fmt::format("{}, {}, {}", row.what.system, row.what.section, row.what.title));
  }
  return rows;
}

std::string said_rounds(const results& all) {
  std::size_t most = 0;
  std::size_t least = 1000;
  for (const row_result& row : all.rows) {
    const std::size_t n = row.values().size();
    if (row.is_void()) continue;
    most = std::max(most, n);
    least = std::min(least, n);
  }
  if (most == 0) return "no rounds";
  if (most == 1) return "one round";
  return most == least ? fmt::format("{} interleaved rounds", most)
                       : fmt::format("{} interleaved rounds ({} of the rows that hardly vary)", most, least);
}

std::string show(const boost::json::value& v) {
  if (v.is_string()) return std::string{std::string_view{v.get_string()}};
  if (v.is_double()) return number_text(v.get_double());
  if (v.is_object()) {
    std::string text;
    for (const auto& [name, member] : v.get_object())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", std::string_view{name}, show(member));
    return text;
  }
  return boost::json::serialize(v);
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::string table_text(const results& all) {
  std::array<std::size_t, columns> width{};
  const auto widen = [&](const cells& c) {
    const auto texts = as_array(c);
    for (std::size_t i = 0; i < columns; ++i) width[i] = std::max(width[i], seen_width(texts[i]));
  };
  widen(heading);
  std::vector<cells> lines;
  for (const row_result& row : all.rows) {
    lines.push_back(cells_of(all, row));
    widen(lines.back());
  }
  const auto line_text = [&](const cells& c) {
    const auto texts = as_array(c);
    std::string line = " ";
    for (std::size_t i = 0; i < columns; ++i) {
      const bool number = i >= 2 && i <= 6;
      line += " " + padded(texts[i], width[i], number) + " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
  };

  std::string text = line_text(heading);
  std::string section;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (all.rows[i].what.section != section) {
      section = all.rows[i].what.section;
      text += fmt::format("\n{}\n", section);
    }
    text += line_text(lines[i]);
  }
  for (const auto& [why, rows] : void_rows(all)) text += fmt::format("\nVoid: {}:\n  {}\n", why, fmt::join(rows, "\n  "));
  return text + fmt::format("\n{}; a ratio is the median of the pairs within a round, with its spread.\n", said_rounds(all));
}

std::string environment_text(const results& all) {
  std::string text;
  for (const auto& [name, value] : all.environment) text += fmt::format("  {:<18} {}\n", std::string_view{name}, show(value));
  return text;
}

std::string markdown_text(const results& all) {
  std::string text = fmt::format("Measured {}{}, {}.\n", all.measured_at, all.quick ? " with `--quick`" : "", said_rounds(all));
  text += "\n| Recorded | |\n|---|---|\n";
  for (const auto& [name, value] : all.environment) text += fmt::format("| {} | {} |\n", std::string_view{name}, show(value));
  std::string section;
  std::vector<std::string> notes;
  const auto flush_notes = [&] {
    for (const std::string& n : notes) text += "\n" + n + "\n";
    notes.clear();
  };
  for (const row_result& row : all.rows) {
    if (row.what.section != section) {
      flush_notes();
      section = row.what.section;
      text += fmt::format(
          "\n### {}\n\n| System | What | Median | Best | Worst | p50 / p95 / p99 ms | RSS MB | Against | Bar |\n"
          "|---|---|--:|--:|--:|--:|--:|---|---|\n",
          section);
    }
    const cells c = cells_of(all, row);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", c.system, c.title, c.middle, c.best, c.worst,
                        c.latencies, c.rss, c.ratio, c.bar);
    if (const auto compared = comparison_of(all, row); row.has_failed()) {
      notes.push_back(fmt::format("*{}* is void: {}.", c.title, row.failure.empty() ? "no round was measured" : row.failure));
    } else if (compared && compared->verdict == finding::slower && !row.what.why_slower.empty()) {
      notes.push_back(fmt::format("*{}*: {}", c.title, row.what.why_slower));
    }
    if (row.bound_by() == "server" && !row.is_void())
      notes.push_back(fmt::format("*{}* ({}) is bound by the server: it was busy all the time.", c.title, c.system));
    if (!row.what.remark.empty()) notes.push_back(fmt::format("*{}*: {}", c.title, row.what.remark));
  }
  flush_notes();
  return text;
}

std::string with_section(std::string page, const std::string& suite, const std::string& section) {
  const std::string begin = fmt::format("<!-- results of {}: begin -->", suite);
  const std::string end = fmt::format("<!-- results of {}: end -->", suite);
  const auto from = page.find(begin);
  const auto to = page.find(end);
  if (from == std::string::npos && to == std::string::npos) {
    if (!page.empty() && !page.ends_with('\n')) page += '\n';
    return page + fmt::format("{}\n{}{}\n", begin, section, end);
  }
  if (from == std::string::npos || to == std::string::npos || to < from) {
    throw std::runtime_error(fmt::format("of the lines '{}' and '{}' there must be both, in this order, or none", begin, end));
  }
  return page.replace(from, to - from, begin + "\n" + section);
}

void write_markdown(const results& all, const std::filesystem::path& file) {
  std::string page;
  try {
    page = with_section(read_file(file), all.suite, markdown_text(all));
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), e.what()));
  }
  std::ofstream out{file, std::ios::binary | std::ios::trunc};
  out << page;
  out.close();
  if (!out) throw std::runtime_error(fmt::format("{} cannot be written", file.string()));
}

}  // namespace ergon::bench
