// The command `ergon` as a function, so that a test can be its terminal, its environment and its store.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <ergon/broker/broker.hpp>

namespace ergon::cli {

/// All that the command sees of the world but its arguments and files.
struct environment {
  /// The value of an environment variable.
  std::function<std::optional<std::string>(const char* name)> variable;
  /// What `--payload -` reads.
  std::istream* in = nullptr;
  /// Called once, by the first verb that needs the store.
  std::function<std::shared_ptr<ergon::broker>(const std::string& url)> open;
  /// Standard output is a terminal, of that many columns.
  bool terminal = false;
  std::size_t columns = 0;
};

inline constexpr int exit_ok = 0;
/// The store, or the state of what was named, did not allow it.
inline constexpr int exit_failed = 1;
/// The command line asks for something that cannot be.
inline constexpr int exit_usage = 2;

/// Runs the command; `argv` begins with its name. Returns the exit code; throws nothing.
[[nodiscard]] int run_cli(std::span<const char* const> argv, std::ostream& out, std::ostream& err, const environment& around);

}  // namespace ergon::cli
