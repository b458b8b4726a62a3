// The results for a person: a table on the terminal, and the section of docs/BENCHMARKS.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/driver/results.hpp"

namespace ergon::bench {

/// Columns lined up by what is seen on a terminal, a heading per section, below it what has to be said about void rows.
[[nodiscard]] std::string table_text(const results& all);
/// The machine and the builds, a line each.
[[nodiscard]] std::string environment_text(const results& all);

/// The same as Markdown, with the notes of the rows.
[[nodiscard]] std::string markdown_text(const results& all);
/// Puts the text between the lines `<!-- results of SUITE: begin -->` and `<!-- results of SUITE: end -->` of `file`, which are added at
/// its end where they are missing. Throws `std::runtime_error` where the file cannot be written or holds only one of the two.
void write_markdown(const results& all, const std::filesystem::path& file);
/// `page` with the section replaced or added.
[[nodiscard]] std::string with_section(std::string page, const std::string& suite, const std::string& section);

}  // namespace ergon::bench
