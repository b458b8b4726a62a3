// The demo's command line. The program is also its own worker: `ergon-demo worker` is what the processes that it starts run.
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <ergon/base/cpus.hpp>
#include <ergon/base/error.hpp>

#include "crew.hpp"
#include "show.hpp"

namespace {

bool is_usage(ergon::errc reason) noexcept {
  return reason == ergon::errc::bad_url || reason == ergon::errc::unknown_scheme || reason == ergon::errc::not_supported;
}

int parse_and_run(int argc, char** argv) {
  demo::show_options options;
  options.workers = std::max(2U, ergon::granted_cpus());
  CLI::App app(
      "Digests every file under some folders, one durable job each, in several worker processes on one broker; kills one of them "
      "half-way; and checks every digest against sha256sum.");
  app.add_option("--dir", options.folders, "A folder; may be given again (default /usr/share/doc and /usr/include)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_option("--files", options.files, "At most so many files (default 20000)")
      ->type_name("N")
      ->check(CLI::Range(1UL, 10'000'000UL).description(""));
  app.add_option("--workers", options.workers, "Worker processes (default: the granted CPUs, at least 2)")
      ->type_name("N")
      ->check(CLI::Range(2U, 256U).description(""));
  app.add_option("--concurrency", options.concurrency, "Files at once in each worker (default 2)")
      ->type_name("N")
      ->check(CLI::Range(1U, 1024U).description(""));
  app.add_option("--broker", options.broker, "A broker that processes can share (default: a SQLite file in a temporary folder)")
      ->type_name("URL");
  app.add_flag("--keep", options.keep, "Leave the temporary folder: the default store, the workers' logs");
  app.add_flag("--json", options.json, "Print the outcome as one JSON document");
  app.footer("Exit codes: 0 all is right, 1 something is not, 2 the command line is wrong, 130 interrupted.");

  pid_t parent = 0;
  std::string queue;
  CLI::App* worker = app.add_subcommand("worker", "")->group("");
  worker->add_option("--parent", parent)->required();
  worker->add_option("--queue", queue)->required();
  worker->add_option("--concurrency", options.concurrency)->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "ergon-demo: {}\nTry 'ergon-demo --help'.\n", e.what());
    return 2;
  }
  if (worker->parsed()) return demo::work_for(parent, queue, options.concurrency);
  if (options.folders.empty()) options.folders = {"/usr/share/doc", "/usr/include"};
  return demo::run_show(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const ergon::error& e) {
    fmt::print(stderr, "ergon-demo: {}\n", e.what());
    return is_usage(e.reason()) ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ergon-demo: {}\n", e.what());
    return 1;
  }
}
