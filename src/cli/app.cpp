// The front of the command: the parser, the options of every verb, and what an error means for the exit code.
#include "cli/app.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "cli/command.hpp"

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
  app.add_option("--broker", cmd.url, "Where the jobs are, as sqlite:PATH or redis://HOST")->type_name("URL");
  app.add_flag("--json", cmd.json, "Print one JSON document");
  add_enqueue(app, cmd);
  add_job(app, cmd);
  add_queue(app, cmd);
  add_worker(app, cmd);
}

/// The verb, or the noun, that the parser reached, and its name with the names before it.
struct reached {
  const CLI::App* where = nullptr;
  std::string path;
};
reached reached_by(const CLI::App& app) {
  reached deepest{&app, app.get_name()};
  for (auto below = app.get_subcommands(); !below.empty(); below = deepest.where->get_subcommands()) {
    deepest.where = below.front();
    deepest.path += ' ' + deepest.where->get_name();
  }
  return deepest;
}

std::string help_of(const CLI::App& app) {
  const reached here = reached_by(app);
  const std::size_t last = here.path.rfind(' ');
  return here.where->help(last == std::string::npos ? std::string{} : here.path.substr(0, last));
}

/// Where a verb is missing, the parser says neither of what nor which there are.
std::string text_of(const CLI::RequiredError& e, const CLI::App& app) {
  const reached here = reached_by(app);
  std::vector<std::string> verbs;
  for (const CLI::App* verb : here.where->get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  if (verbs.empty()) return e.what();
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return fmt::format("'{}' needs one of {}", here.path, fmt::join(verbs, ", "));
  return fmt::format("'{}' knows no {}; it needs one of {}", here.path, ergon::quoted(words.front()), fmt::join(verbs, ", "));
}

void parse(CLI::App& app, std::span<const char* const> argv) {
  // CLI11 takes them last first.
  std::vector<std::string> words(argv.begin() + 1, argv.end());
  std::ranges::reverse(words);
  app.parse(std::move(words));
}

int parse_and_run(CLI::App& app, std::span<const char* const> argv, command& cmd) {
  try {
    parse(app, argv);
    return cmd.chosen();
  } catch (const CLI::CallForHelp&) {
    cmd.out << help_of(app);
    return exit_ok;
  } catch (const CLI::CallForVersion&) {
    cmd.out << "ergon " ERGON_VERSION "\n";
    return exit_ok;
  } catch (const CLI::RequiredError& e) {
    if (argv.size() < 2) {
      cmd.err << help_of(app);
      return exit_usage;
    }
    cmd.note(text_of(e, app));
  } catch (const CLI::ParseError& e) {
    cmd.note(e.what());
  } catch (const usage_error& e) {
    cmd.note(e.what());
  }
  cmd.err << fmt::format("Try '{} --help'.\n", reached_by(app).path);
  return exit_usage;
}

}  // namespace

int run_cli(std::span<const char* const> argv, std::ostream& out, std::ostream& err, const environment& around) {
  int code = exit_failed;
  try {
    command cmd(around, out, err);
    CLI::App app("Durable jobs: put them in, look at them, act on them.");
    set_up(app, cmd);
    code = parse_and_run(app, argv, cmd);
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
