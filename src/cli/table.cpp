#include "cli/table.hpp"

#include <algorithm>
#include <cassert>
#include <ostream>

#include <fmt/format.h>

#include "cli/text.hpp"

namespace ergon::cli {
namespace {

constexpr std::string_view gap = "  ";

std::string_view code_of(hue colour) {
  switch (colour) {
    case hue::plain:
      return "";
    case hue::dim:
      return "2";
    case hue::bold:
      return "1";
    case hue::red:
      return "31";
    case hue::green:
      return "32";
    case hue::yellow:
      return "33";
    case hue::blue:
      return "34";
    case hue::cyan:
      return "36";
  }
  return "";
}

std::string padded(std::string_view text, hue colour, std::size_t width, align side, bool last, const style& how) {
  const std::string padding(width - std::min(width, width_of(text)), ' ');
  std::string shown = how.paint(colour, text);
  if (side == align::right) return padding + shown;
  if (!last) shown += padding;
  return shown;
}

}  // namespace

std::string style::paint(hue colour_of, std::string_view text) const {
  if (!colour || colour_of == hue::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(colour_of), text);
}

void table::add(std::vector<cell> row) {
  assert(row.size() == columns_.size());
  for (cell& c : row) c.text = printable(c.text);
  rows_.push_back(std::move(row));
}

void table::print(std::ostream& out, const style& how) const {
  std::vector<std::size_t> widths;
  std::size_t before_last = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = width_of(columns_[i].heading);
    for (const auto& row : rows_) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
    if (i + 1 < columns_.size()) before_last += width + gap.size();
  }
  if (how.width > before_last + 8 && columns_.back().side == align::left)
    widths.back() = std::min(widths.back(), how.width - before_last);

  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) line += gap;
    line += padded(columns_[i].heading, hue::bold, widths[i], columns_[i].side, i + 1 == columns_.size(), how);
  }
  out << line << '\n';
  for (const auto& row : rows_) {
    line.clear();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += gap;
      line += padded(cut(row[i].text, widths[i]), row[i].colour, widths[i], columns_[i].side, i + 1 == row.size(), how);
    }
    while (line.ends_with(' ')) line.pop_back();
    out << line << '\n';
  }
}

}  // namespace ergon::cli
