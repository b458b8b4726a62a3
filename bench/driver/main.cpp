// ergon-bench: runs a benchmark suite and tells the truth about it. docs/BENCHMARKS.md says how to read what it prints.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "bench/driver/environment.hpp"
#include "bench/driver/process.hpp"
#include "bench/driver/progress.hpp"
#include "bench/driver/report.hpp"
#include "bench/driver/results.hpp"
#include "bench/driver/runner.hpp"
#include "bench/driver/suite.hpp"

namespace {

namespace fs = std::filesystem;
using namespace ergon::bench;

constexpr std::string_view own_system = "ergon";

struct choices {
  std::string suite;
  bool quick = false;
  std::vector<std::string> peers{"all"};
  std::vector<std::string> only;
  std::vector<std::string> brokers;
  unsigned rounds = 0;
  std::string json;
  std::string markdown;
  std::string dir = "/var/tmp";
  bool system_args = false;
};

// What a person got wrong on the command line: exit code 2.
struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

void refuse_unknown(std::string_view what, const std::vector<std::string>& given, const std::set<std::string>& known) {
  for (const std::string& name : given) {
    if (!known.contains(name))
      throw usage_error(fmt::format("there is no {} '{}' in this suite; there is: {}", what, name, fmt::join(known, ", ")));
  }
}

suite chosen_rows(const choices& c) {
  suite s;
  try {
    s = make_suite(c.suite, c.quick);
  } catch (const std::invalid_argument& e) {
    throw usage_error(e.what());
  }
  std::set<std::string> scenarios;
  std::set<std::string> keys;
  std::set<std::string> peers{"all", "none"};
  std::set<std::string> brokers;
  const auto broker_of = [](const measurement& m) {
    const auto* const broker = m.params.if_contains("broker");
    return broker == nullptr ? std::string{} : std::string{std::string_view{broker->as_string()}};
  };
  for (const measurement& m : s.rows) {
    if (const std::string broker = broker_of(m); !broker.empty()) brokers.insert(broker);
    scenarios.insert(m.scenario);
    keys.insert(m.key);
    if (m.system != own_system) peers.insert(m.system);
  }
  // A row's key is accepted as well, for one who works on that row; the list of scenarios is what a reader needs.
  std::vector<std::string> neither;
  std::ranges::copy_if(c.only, std::back_inserter(neither), [&](const std::string& name) { return !keys.contains(name); });
  refuse_unknown("scenario", neither, scenarios);
  refuse_unknown("peer", c.peers, peers);
  refuse_unknown("broker", c.brokers, brokers);
  const auto chosen = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  std::erase_if(s.rows, [&](const measurement& m) {
    if (!c.brokers.empty() && !chosen(c.brokers, broker_of(m))) return true;
    if (!c.only.empty() && !chosen(c.only, m.scenario) && !chosen(c.only, m.key)) return true;
    return m.system != own_system && !chosen(c.peers, "all") && !chosen(c.peers, m.system);
  });
  if (s.rows.empty()) throw usage_error("no row is left to measure: look at --only and --peers");
  if (c.rounds != 0) {
    s.rounds = c.rounds;
    s.budget_seconds = 0;
  }
  return s;
}

// What to type to run a row alone, for instance under perf. Rows that start from a prepared store need it to be made first, those
// on Redis a server that is empty.
void print_system_args(const suite& s, const fs::path& programs, const fs::path& dir) {
  const auto command = [&](const std::string& program, const std::vector<std::string>& arguments, const fs::path& folder,
                           bool on_redis) {
    fmt::print("  {} {} --dir {}{}\n", (programs / program).string(), fmt::join(arguments, " "), folder.string(),
               on_redis ? " --redis redis://127.0.0.1:PORT --server_pid PID" : "");
  };
  for (const measurement& m : s.rows) {
    if (!m.lacks.empty()) continue;
    const fs::path folder = dir / ("ergon-bench-" + (m.store.empty() ? m.key : m.store));
    fmt::print("{}: {}, {}\n", m.key, m.section, m.title);
    const auto store = std::ranges::find(s.stores, m.store, &prepared_store::name);
    if (store != s.stores.end()) command(store->program, arguments_of("prepare", store->params), folder, false);
    command(m.program, arguments_of(m.scenario, m.params), folder, m.on_redis);
  }
}

void write_json(const results& all, const fs::path& file) {
  std::ofstream out{file, std::ios::binary | std::ios::trunc};
  out << pretty(to_json(all));
  out.close();
  if (!out) throw std::runtime_error(fmt::format("{} cannot be written", file.string()));
}

std::size_t steps_of(const suite& s) {
  std::size_t steps = 0;
  for (const measurement& m : s.rows) steps += m.lacks.empty() ? std::min(s.rounds, m.rounds_at_most) : 0;
  return steps;
}

void warn(const results& all) {
  const auto& e = all.environment;
  if (const auto* load = e.if_contains("load_at_start"); load != nullptr && load->to_number<double>() > 0.5) {
    fmt::print(stderr, "The machine is busy (load {:.1f}): figures of this run are too low and vary.\n",
               load->to_number<double>());
  }
  if (const auto& type = e.at("store_file_system").as_string(); type == "tmpfs" || type == "overlay") {
    fmt::print(stderr, "The stores lie on {}, where a commit costs nothing like on a disk: choose another folder with --dir.\n",
               std::string_view{type});
  }
}

// Why a peer's program is not there: the build leaves the reason beside where it would be.
std::string why_absent(const fs::path& program) {
  std::ifstream in{program.string() + ".absent"};
  std::string why;
  std::getline(in, why);
  return why.empty() ? "it was not built" : why;
}

// A peer is measured where the machine had its tools when ergon was built.
void leave_out_missing_peers(suite& s, const fs::path& programs) {
  std::map<std::string, std::string> missing;
  std::erase_if(s.rows, [&](const measurement& m) {
    if (m.system == own_system || fs::exists(programs / m.program)) return false;
    missing.emplace(m.system, why_absent(programs / m.program));
    return true;
  });
  for (const auto& [peer, why] : missing) fmt::print(stderr, "Left out: {}: {}\n", peer, why);
}

int measure(const choices& c, const fs::path& programs) {
  suite s = chosen_rows(c);
  leave_out_missing_peers(s, programs);
  if (c.system_args) {
    print_system_args(s, programs, c.dir);
    return 0;
  }
  if (!fs::is_directory(c.dir)) throw usage_error(fmt::format("--dir {}: there is no such folder", c.dir));

  catch_stop_signals();
  results all{.suite = s.name, .measured_at = now_text(), .quick = c.quick};
  const work_folder work{c.dir};
  all.environment = describe_environment(work.path(), programs);
  all.environment["quick"] = c.quick;
  warn(all);
  {
    progress shown{steps_of(s)};
    run_suite(s, programs, work, shown, all);
  }
  if (const auto* optimised = all.environment.if_contains("optimised"); optimised != nullptr && *optimised == false) {
    fmt::print(stderr, "Built without optimisation or with assertions: the figures mean nothing. Use the release preset.\n");
  }
  fmt::print("{}\n{}", table_text(all), environment_text(all));
  if (stop_requested()) {
    fmt::print(stderr, "Stopped: nothing was written.\n");
    return 130;
  }
  if (!c.json.empty()) write_json(all, c.json);
  if (!c.markdown.empty()) write_markdown(all, c.markdown);
  return std::ranges::any_of(all.rows, &row_result::has_failed) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  choices c;
  CLI::App app{"Measures ergon and its peers on the same work.\nSuites: " + fmt::format("{}", fmt::join(suite_names(), ", ")),
               "ergon-bench"};
  app.add_option("suite", c.suite, "What to measure")->required()->type_name("SUITE");
  app.add_flag("--quick", c.quick, "Smaller work and fewer rounds: two minutes at most");
  app.add_option("--peers", c.peers, "Peers to measure beside ergon: names, none, or all (default)")
      ->delimiter(',')
      ->type_name("NAME,…");
  app.add_option("--only", c.only, "Only these scenarios, or rows by the keys that --system-args shows")
      ->delimiter(',')
      ->type_name("SCENARIO,…");
  app.add_option("--broker", c.brokers, "Only rows on these brokers: memory, sqlite, redis")->delimiter(',')->type_name("NAME,…");
  app.add_option("--rounds", c.rounds, "Rounds instead of the suite's own number")->check(CLI::Range(1, 1000))->type_name("N");
  app.add_option("--json", c.json, "Write the results as JSON")->type_name("FILE");
  app.add_option("--markdown", c.markdown, "Put the results into this page (docs/BENCHMARKS.md)")->type_name("FILE");
  app.add_option("--dir", c.dir, "Where the stores lie while they are measured (default /var/tmp; not a tmpfs)")
      ->type_name("DIR");
  app.add_flag("--system-args", c.system_args,
               "Measure nothing: print how to run each row's program alone, for instance under perf");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return measure(c, fs::read_symlink("/proc/self/exe").parent_path());
  } catch (const usage_error& e) {
    fmt::print(stderr, "ergon-bench: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ergon-bench: {}\n", e.what());
    return 1;
  }
}
