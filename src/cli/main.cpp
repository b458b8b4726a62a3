// The program `ergon`: what the command sees of the world, and the runtime that its store works on.
#include <cstdlib>
#include <iostream>
#include <optional>

#include <sys/ioctl.h>
#include <unistd.h>

#include <ergon/runtime/runtime.hpp>

#include "cli/app.hpp"

namespace {

std::size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // Started by the first verb that opens a store: `--help` needs no thread.
  std::optional<ergon::runtime> runtime;
  const ergon::cli::environment around{
      .variable =
          [](const char* name) {
            const char* value = std::getenv(name);
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
          },
      .in = &std::cin,
      .open =
          [&](const std::string& url) {
            runtime.emplace(ergon::runtime_options{.threads = 1});
            return ergon::open_broker(url, {.runtime = &*runtime});
          },
      .terminal = ::isatty(STDOUT_FILENO) == 1,
      .columns = columns_of_terminal(),
  };
  return ergon::cli::run_cli({argv, static_cast<std::size_t>(argc)}, std::cout, std::cerr, around);
}
