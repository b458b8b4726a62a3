// The demo's one kind of job: what a file holds, in figures that another program can check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/describe.hpp>

#include <ergon/queue/job_context.hpp>

namespace demo {

/// The payload.
struct digest {
  /// As `escape` writes it: JSON holds Unicode, and a file name may be any bytes.
  std::string path;
};
BOOST_DESCRIBE_STRUCT(digest, (), (path))

/// The result.
struct file_figures {
  /// In lower-case hexadecimal digits.
  std::string sha256;
  std::uint64_t bytes = 0;
  /// Line feeds, as `wc -l` counts.
  std::uint64_t lines = 0;
  /// Runs of bytes that are no ASCII white space.
  std::uint64_t words = 0;
};
BOOST_DESCRIBE_STRUCT(file_figures, (), (sha256, bytes, lines, words))

/// `%` and what is not UTF-8 as %XX.
[[nodiscard]] std::string escape(std::string_view path);
[[nodiscard]] std::string unescape(std::string_view text);

/// Reads a file once. Throws `std::system_error` where it cannot be read.
[[nodiscard]] file_figures figures_of(const std::string& path);

/// The handler. A file that cannot be read is no use trying again.
file_figures on_digest(const digest& job, ergon::job_context& context);

}  // namespace demo
