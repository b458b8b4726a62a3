// A table for people: columns as wide as their widest cell, words to the left, numbers to the right, headings always. Colours only
// where `style` says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace ergon::cli {

enum class hue : std::uint8_t { plain, dim, bold, red, green, yellow, blue, cyan };

/// What the reader's side of the output can do.
struct style {
  bool colour = false;
  /// Columns of the terminal; nought means that lines may be as long as they like.
  std::size_t width = 0;

  /// `text` in that hue, if there are colours.
  [[nodiscard]] std::string paint(hue colour_of, std::string_view text) const;
};

enum class align : std::uint8_t { left, right };

struct column {
  std::string_view heading;
  align side = align::left;
};

struct cell {
  /// Anything: it is made printable here.
  std::string text;
  hue colour = hue::plain;
};

class table {
 public:
  table(std::initializer_list<column> columns) : columns_(columns) {}

  /// One cell for each column.
  void add(std::vector<cell> row);
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// On a terminal the last column is cut where the line ends.
  void print(std::ostream& out, const style& how) const;

 private:
  std::vector<column> columns_;
  std::vector<std::vector<cell>> rows_;
};

}  // namespace ergon::cli
