// Text for people: what is safe to print, how wide it is on a terminal, and ages. Stateless.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ergon::cli {

/// Bytes of the character that `bytes`, not empty, begin with; nought where that is not UTF-8.
[[nodiscard]] std::size_t utf8_length(std::string_view bytes) noexcept;

/// `bytes` with everything that a terminal would act upon, or that is not UTF-8, written out as \n, \t or \xNN: what a job
/// carries was written by others.
[[nodiscard]] std::string printable(std::string_view bytes);

/// Columns that `text`, printable UTF-8, takes on a terminal: combining marks none, East Asian wide characters and emoji two.
[[nodiscard]] std::size_t width_of(std::string_view text) noexcept;

/// At most `columns` wide; what had to be cut off is an ellipsis.
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);

/// How long ago: no finer than a person asks for, and nought where the clocks of two machines disagree about what was first.
[[nodiscard]] std::string age(std::chrono::nanoseconds span);

}  // namespace ergon::cli
