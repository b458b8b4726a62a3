#include "bench/driver/runner.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include "bench/driver/process.hpp"
#include "bench/driver/redis_server.hpp"

namespace ergon::bench {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds run_limit{120};
constexpr std::chrono::seconds prepare_limit{900};

double number(const boost::json::object& o, std::string_view name, double otherwise = 0) {
  const auto* v = o.if_contains(name);
  return v != nullptr && v->is_number() ? v->to_number<double>() : otherwise;
}

std::string text(const boost::json::object& o, std::string_view name) {
  const auto* v = o.if_contains(name);
  return v != nullptr && v->is_string() ? std::string{std::string_view{v->get_string()}} : std::string{};
}

void sync_to_disk(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::syncfs(fd);
  ::close(fd);
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

reply run_program(const fs::path& program, const std::vector<std::string>& arguments, std::chrono::seconds limit,
                  std::uint64_t& peak_rss_kb) {
  reply r;
  if (!fs::exists(program)) {
    r.failure = fmt::format("the program {} is not there: it was not built", program.filename().string());
    return r;
  }
  const child_end end = run_child(program, arguments, limit);
  peak_rss_kb = std::max(peak_rss_kb, end.peak_rss_kb);
  if (end.timed_out) {
    r.failure = fmt::format("it was not done after {} s", limit.count());
    return r;
  }
  r = parse_reply(end.out);
  // A program that knows what went wrong says so on standard error and prints no line.
  if (end.code != 0) {
    const std::string said = last_line(end.err);
    r.failure = fmt::format("it ended with code {}{}{}", end.code, said.empty() ? "" : ": ", said);
  }
  return r;
}

// An empty folder, or a copy of the prepared store. What was copied is on the disk before the row starts: the system would
// otherwise write it back while the row is measured.
fs::path fresh_folder(const work_folder& work, const std::string& store) {
  const fs::path folder = work.path() / "row";
  fs::remove_all(folder);
  if (store.empty()) {
    fs::create_directories(folder);
  } else {
    fs::copy(work.path() / "stores" / store, folder, fs::copy_options::recursive);
  }
  sync_to_disk(folder);
  return folder;
}

// Makes the prepared stores that these rows start from. Returns what failed, by store.
std::map<std::string, std::string> prepare(const suite& s, const fs::path& programs, const work_folder& work, progress& shown) {
  std::map<std::string, std::string> failed;
  for (const prepared_store& store : s.stores) {
    const bool wanted = std::ranges::any_of(s.rows, [&](const measurement& m) { return m.store == store.name; });
    if (!wanted || stop_requested()) continue;
    const fs::path folder = work.path() / "stores" / store.name;
    fs::create_directories(folder);
    auto arguments = arguments_of("prepare", store.params);
    arguments.insert(arguments.end(), {"--dir", folder.string()});
    shown.begin(0, fmt::format("making the store {}", store.name));
    std::uint64_t ignored = 0;
    const reply r = run_program(programs / store.program, arguments, prepare_limit, ignored);
    if (!r.failure.empty()) failed[store.name] = r.failure;
    shown.end(r.failure.empty() ? "done" : r.failure);
  }
  return failed;
}

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void merge_about(boost::json::object& environment, const boost::json::object& about) {
  if (const auto* libraries = about.if_contains("libraries"); libraries != nullptr && libraries->is_object()) {
    for (const auto& [name, version] : libraries->get_object()) environment["libraries"].as_object()[name] = version;
  }
  if (const auto* optimised = about.if_contains("optimised"); optimised != nullptr) environment["optimised"] = *optimised;
}

// The server of the rows on Redis; started for the first of them.
class shared_redis {
 public:
  shared_redis(fs::path folder, boost::json::object& environment) : folder_{std::move(folder)}, environment_{&environment} {}

  /// Adds where an empty server is to a program's arguments. Returns why there is none; empty otherwise.
  std::string add_to(std::vector<std::string>& arguments) {
    if (!why_not_.empty()) return why_not_;
    try {
      if (!server_) {
        server_.emplace(folder_);
        (*environment_)["redis"] = fmt::format("{}, {}", server_->version(), redis_server::settings());
      }
      server_->clear();
    } catch (const std::exception& e) {
      // One that died is started anew for the next row; what could not be started will not be next time either.
      if (!server_) why_not_ = e.what();
      server_.reset();
      return e.what();
    }
    arguments.insert(arguments.end(), {"--redis", server_->url(), "--server_pid", std::to_string(server_->pid())});
    return {};
  }

 private:
  fs::path folder_;
  boost::json::object* environment_;
  std::optional<redis_server> server_;
  std::string why_not_;
};

}  // namespace

work_folder::work_folder(const fs::path& parent) {
  std::string pattern = (parent / "ergon-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), fmt::format("no folder can be made in {}", parent.string()));
  }
  path_ = pattern;
}

work_folder::~work_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

reply parse_reply(std::string_view out) {
  reply r;
  boost::system::error_code error;
  const auto parsed = boost::json::parse(last_line(std::string{out}), error);
  if (error || !parsed.is_object()) {
    r.failure = "it printed no line of JSON";
    return r;
  }
  const auto& o = parsed.get_object();
  r.value = number(o, "value", -1);
  r.note = text(o, "note");
  if (o.contains("server_busy")) r.server_busy = number(o, "server_busy");
  if (const auto* about = o.if_contains("about"); about != nullptr && about->is_object()) r.about = about->get_object();
  if (const auto* l = o.if_contains("latency_ms"); l != nullptr && l->is_object()) {
    r.percentiles = latency{number(l->get_object(), "p50"), number(l->get_object(), "p95"), number(l->get_object(), "p99")};
  }
  const auto* verified = o.if_contains("verified");
  if (verified == nullptr || !verified->is_bool() || !verified->get_bool()) {
    r.failure =
        "its work did not check: " + (text(o, "failure").empty() ? std::string{"it did not say why"} : text(o, "failure"));
  } else if (r.value < 0) {
    r.failure = "it printed no figure";
  }
  return r;
}

void run_suite(const suite& s, const fs::path& programs, const work_folder& work, progress& shown, results& to) {
  const stopwatch whole;
  const auto unmakeable = prepare(s, programs, work, shown);
  for (const measurement& m : s.rows) {
    row_result row{.what = m, .rounds = std::vector<std::optional<double>>(s.rounds)};
    if (const auto found = unmakeable.find(m.store); found != unmakeable.end())
      row.failure = "its store could not be made: " + found->second;
    to.rows.push_back(std::move(row));
  }
  shared_redis redis{work.path() / "redis", to.environment};
  std::vector<double> last_seconds(s.rows.size());
  std::size_t step = 0;
  bool out_of_time = false;
  for (unsigned round = 0; round < s.rounds; ++round) {
    std::vector<std::size_t> order;
    double expected = 0;
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      if (round >= s.rows[i].rounds_at_most || !s.rows[i].lacks.empty()) continue;
      order.push_back(i);
      expected += last_seconds[i];
    }
    if (round > 0 && s.budget_seconds > 0 && whole.seconds() + expected > s.budget_seconds) {
      shown.say(fmt::format("Stopped after {} of {} rounds: another would not have ended in time.", round, s.rounds));
      break;
    }
    // Every other round runs backwards: neighbours stay neighbours, and none always follows the same one.
    if (round % 2 == 1) std::ranges::reverse(order);
    for (const std::size_t i : order) {
      row_result& row = to.rows[i];
      if (stop_requested()) return;
      if (s.budget_seconds > 0 && whole.seconds() + last_seconds[i] > s.budget_seconds) {
        out_of_time = true;
        continue;
      }
      shown.begin(
          step, fmt::format("round {} of {}: {} {}, {}", round + 1, s.rounds, row.what.system, row.what.section, row.what.title));
      if (row.failure.empty()) {
        const stopwatch one;
        const std::chrono::seconds limit =
            s.budget_seconds > 0
                ? std::min(run_limit, std::chrono::seconds{static_cast<long>(s.budget_seconds - whole.seconds()) + 6})
                : run_limit;
        auto arguments = arguments_of(row.what.scenario, row.what.params);
        arguments.insert(arguments.end(), {"--dir", fresh_folder(work, row.what.store).string()});
        reply r;
        if (row.what.on_redis) r.failure = redis.add_to(arguments);
        if (r.failure.empty()) r = run_program(programs / row.what.program, arguments, limit, row.peak_rss_kb);
        if (stop_requested()) return;
        row.failure = r.failure;
        if (r.failure.empty()) {
          row.rounds[round] = r.value;
          if (r.percentiles) row.latencies.push_back(*r.percentiles);
          if (r.server_busy) row.server_busy.push_back(*r.server_busy);
          row.said = r.note;
          merge_about(to.environment, r.about);
        }
        last_seconds[i] = one.seconds();
      }
      shown.end(row.failure.empty() ? value_text(row.rounds[round].value_or(0), row.what.unit) : row.failure);
      ++step;
    }
  }
  if (!out_of_time) return;
  shown.say("Rows were left out, or measured in fewer rounds than others: there was no time left.");
  for (row_result& row : to.rows) {
    if (row.has_failed() && row.failure.empty()) row.failure = "no time was left for it: the machine was too slow or too busy";
  }
}

}  // namespace ergon::bench
