// The front of the command: the parser, the options of every verb, and what an error means for the exit code.
#include "cli/app.hpp"

#include <algorithm>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <ergon/base/error.hpp>

#include "cli/command.hpp"
#include "cli/text.hpp"

#ifndef ERGON_VERSION
#define ERGON_VERSION "0.1.0"
#endif

namespace ergon::cli {
namespace {

constexpr const char* footer = R"(Examples:
  ergon enqueue send_email --payload '{"to": "ada@example.org"}' --in 5m
  ergon job ls --state dead
  ergon job run 0g4000000001c
  ergon queue stats default --hours 48
  ergon --broker sqlite:/srv/jobs.db --json worker ls

The broker is --broker, else ERGON_BROKER, else a SQLite file under $XDG_DATA_HOME/ergon (~/.local/share/ergon).
Exit codes: 0 done, 1 the operation failed, 2 the command line is wrong.)";

/// Wrong on the command line, and not in the store.
bool is_usage(errc reason) noexcept {
  switch (reason) {
    case errc::invalid_argument:
    case errc::bad_url:
    case errc::unknown_scheme:
    case errc::bad_payload:
    case errc::too_large:
      return true;
    default:
      return false;
  }
}

void set_up(CLI::App& app, command& cmd) {
  app.name("ergon");
  app.set_version_flag("--version", "ergon " ERGON_VERSION);
  app.footer(footer);
  // Lets --broker and --json stand behind the verb as well.
  app.fallthrough();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.add_option("--broker", cmd.url, "Where the jobs are, as sqlite:PATH")->type_name("URL");
  app.add_flag("--json", cmd.json, "Print one JSON document");
  add_enqueue(app, cmd);
  add_job(app, cmd);
  add_queue(app, cmd);
  add_worker(app, cmd);
}

/// The text of the verb that was reached, or of the whole.
std::string help_of(const CLI::App& app) {
  const CLI::App* deepest = &app;
  std::string path = app.get_name();
  while (true) {
    const auto reached = deepest->get_subcommands();
    if (reached.empty()) break;
    deepest = reached.front();
    path += ' ' + deepest->get_name();
  }
  return deepest->help(deepest == &app ? std::string{} : path.substr(0, path.rfind(' ')));
}

int parse_and_run(CLI::App& app, std::span<const char* const> argv, command& cmd, std::ostream& out, std::ostream& err) {
  try {
    // CLI11 takes them last first.
    std::vector<std::string> words(argv.begin() + 1, argv.end());
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    out << help_of(app);
    return exit_ok;
  } catch (const CLI::CallForVersion&) {
    out << "ergon " ERGON_VERSION "\n";
    return exit_ok;
  } catch (const CLI::RequiredError& e) {
    if (argv.size() < 2) {
      err << help_of(app);
      return exit_usage;
    }
    throw usage_error(e.what());
  } catch (const CLI::ParseError& e) {
    throw usage_error(e.what());
  }
  return cmd.chosen();
}

}  // namespace

int run_cli(std::span<const char* const> argv, std::ostream& out, std::ostream& err, const environment& around) {
  int code = exit_failed;
  try {
    command cmd(around, out, err);
    CLI::App app("Durable jobs: put them in, look at them, act on them.");
    set_up(app, cmd);
    code = parse_and_run(app, argv, cmd, out, err);
  } catch (const usage_error& e) {
    err << "ergon: " << e.what() << "\nTry 'ergon --help'.\n";
    return exit_usage;
  } catch (const error& e) {
    err << "ergon: " << e.what() << '\n';
    return is_usage(e.reason()) ? exit_usage : exit_failed;
  } catch (const std::exception& e) {
    err << "ergon: " << e.what() << '\n';
    return exit_failed;
  }
  out.flush();
  if (!out && code == exit_ok) {
    err << "ergon: standard output cannot be written; what the command was asked for is done\n";
    return exit_failed;
  }
  return code;
}

}  // namespace ergon::cli
