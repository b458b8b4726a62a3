#include "show.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <unordered_map>

#include <fmt/format.h>
#include <unistd.h>

#include <ergon/base/error.hpp>
#include <ergon/base/id.hpp>
#include <ergon/base/size.hpp>
#include <ergon/base/url.hpp>
#include <ergon/codec/json.hpp>
#include <ergon/queue/client.hpp>
#include <ergon/runtime/runtime.hpp>

#include "check.hpp"
#include "crew.hpp"
#include "digest.hpp"
#include "interrupt.hpp"
#include "report.hpp"
#include "screen.hpp"

namespace demo {
namespace fs = std::filesystem;
namespace {

using namespace std::chrono_literals;

/// Jobs in one step of the store.
constexpr std::size_t at_once = 500;

/// A folder that goes with everything in it, unless it is to be kept.
class scratch_folder {
 public:
  explicit scratch_folder(bool keep) : keep_(keep) {
    std::string name = fs::temp_directory_path() / "ergon-demo-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "a temporary folder cannot be made: " + name);
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
  bool keep_;
};

std::string broker_of(const show_options& options, const fs::path& scratch) {
  if (options.broker.empty()) return "sqlite:" + (scratch / "jobs.db").native();
  if (ergon::parse_url(options.broker).scheme == "memory") {
    throw ergon::error(
        ergon::errc::not_supported,
        fmt::format("--broker {} lives in the memory of one process, and the demo's workers are processes of their own: name a "
                    "broker that processes can share, such as sqlite:jobs.db",
                    options.broker));
  }
  return options.broker;
}

class show {
 public:
  explicit show(const show_options& options)
      : options_(options),
        scratch_(options.keep),
        // A queue of its own: jobs that others have in the same store stay out of the way, and out of the count.
        queue_("demo-" + ergon::id_source().next()),
        runtime_({.threads = 1}),
        jobs_(broker_of(options, scratch_.path()), {.runtime = &runtime_}),
        crew_({.broker = broker_of(options, scratch_.path()),
               .queue = queue_,
               .concurrency = options.concurrency,
               .logs = scratch_.path()}) {}

  report run() {
    choose();
    start();
    work();
    collect();
    check();
    return std::move(report_);
  }

  [[nodiscard]] const screen& view() const noexcept { return screen_; }
  [[nodiscard]] const fs::path& folder() const noexcept { return scratch_.path(); }

 private:
  void choose() {
    report_.input = select_files(options_.folders, options_.files);
    report_.broker = jobs_.broker()->url();
    report_.workers = options_.workers;
    if (files().empty())
      throw std::runtime_error(fmt::format("there are no readable files under {}", fmt::join(options_.folders, ", ")));
    screen_.say(fmt::format("{} files, {}, under {}", grouped(files().size()), ergon::format_size(report_.input.bytes),
                            fmt::join(options_.folders, " and ")));
    screen_.say(fmt::format("{} worker processes on {}", options_.workers, report_.broker));
  }

  void start() {
    for (unsigned i = 0; i < options_.workers; ++i) crew_.hire();
    while (ours().size() < options_.workers) watch(2ms);
  }

  /// All jobs are put in while the workers run: half of them, and when those are nearly done the rest, in pieces, until a piece is
  /// found in the hands of a worker, which dies. So its death comes half-way, also where there are few files.
  void work() {
    screen_.begin();
    begun_ = jobs_.runtime().clock().steady();
    const std::size_t half = files().size() / 2;
    put_in(0, half);
    while (ended() < half - half / 10) tick(5ms);
    const std::size_t piece = std::clamp<std::size_t>((files().size() - half) / 10, 1, at_once);
    for (std::size_t from = half; from < files().size(); from += piece) {
      put_in(from, std::min(from + piece, files().size()));
      if (report_.held == 0) strike();
    }
    if (report_.held == 0)
      report_.blame("no worker held a lease when one was to be killed: the work was over too soon, take more files");
    while (ended() < files().size()) tick(20ms);
    report_.elapsed = jobs_.runtime().clock().steady() - begun_;
    screen_.show(seen_);
    screen_.end();
    crew_.dismiss();
  }

  void put_in(std::size_t from, std::size_t to) {
    while (from < to) {
      const std::size_t end = std::min(from + at_once, to);
      const auto some = std::span(files()).subspan(from, end - from) |
                        std::views::transform([](const input_file& file) { return digest{escape(file.path)}; });
      try {
        for (const ergon::enqueued& answer : wait(jobs_.enqueue_all(some, {.queue = queue_, .keep_result = 1h}))) {
          index_.emplace(answer.id, from++);
        }
      } catch (const ergon::error& e) {
        // The store was lost before it answered, and what was asked may have been done.
        if (e.reason() != ergon::errc::unknown_outcome) throw;
        if (find_what_was_put_in(from, end)) from = end;
      }
      tick(0ms);
    }
  }

  /// Whether these files are in the store: they went in together or not at all. Nothing is forgotten while results are kept, so a look at all
  /// jobs tells.
  bool find_what_was_put_in(std::size_t from, std::size_t end) {
    std::unordered_map<std::string, std::size_t> missing;
    for (std::size_t i = from; i < end; ++i) missing.emplace(files()[i].path, i);
    bool is_in = false;
    std::string cursor;
    do {
      const ergon::job_page page = wait(jobs_.list({.queue = queue_}, cursor, 1000));
      for (const ergon::job_info& job : page.jobs) {
        if (index_.contains(job.id)) continue;
        const auto at = missing.find(unescape(ergon::from_json<digest>(job.payload).path));
        if (at == missing.end()) continue;
        index_.emplace(job.id, at->second);
        is_in = true;
      }
      cursor = page.next;
    } while (!cursor.empty());
    return is_in;
  }

  /// Kills a worker that holds leases, if one is met before all that was put in is done. To be sure that it does, it is stopped
  /// first: what the store says of it then cannot change between the look and the blow.
  void strike() {
    while (ended() < index_.size()) {
      const std::vector<ergon::worker_info> workers = ours();
      const auto victim = std::ranges::max_element(workers, {}, &ergon::worker_info::leased);
      if (victim != workers.end() && victim->leased > 0 && strike(*victim)) return;
      tick(0ms);
    }
  }

  /// False: it held nothing after all, and goes on.
  bool strike(const ergon::worker_info& victim) {
    const auto pid = static_cast<pid_t>(victim.pid);
    const std::optional<unsigned> number = crew_.number_of(pid);
    if (!number || !crew_.freeze(pid)) return false;
    const std::uint64_t held = leases_of(victim.id);
    if (held == 0) {
      crew_.thaw(pid);
      return false;
    }
    crew_.kill(pid);
    report_.killed = *number;
    report_.held = held;
    report_.replacement = crew_.hire();
    screen_.say(fmt::format("worker {} (process {}) was killed with {} jobs in its hands; worker {} takes its place", *number,
                            pid, grouped(held), report_.replacement));
    return true;
  }

  /// Those of the store's workers that are this demo's.
  std::vector<ergon::worker_info> ours() {
    std::vector<ergon::worker_info> workers = wait(jobs_.workers());
    std::erase_if(workers, [&](const ergon::worker_info& w) { return w.queues.empty() || w.queues.front().first != queue_; });
    return workers;
  }

  std::uint64_t leases_of(const std::string& worker) {
    for (const ergon::worker_info& w : ours()) {
      if (w.id == worker) return w.leased;
    }
    return 0;
  }

  /// Jobs that came to an end, good or bad, as far as was seen.
  [[nodiscard]] std::uint64_t ended() const noexcept { return seen_.done; }

  /// Looks at the queue, shows it, rests.
  void tick(std::chrono::milliseconds rest) {
    for (const ergon::queue_info& q : wait(jobs_.queues())) {
      if (q.name != queue_) continue;
      const std::uint64_t buried = q.dead + q.cancelled + q.discarded;
      seen_ = {
          .verb = "done", .done = q.completed + buried, .total = files().size(), .running = q.active, .failed = q.retry + buried};
    }
    if (ended() < files().size()) screen_.show(seen_);
    watch(rest);
  }

  /// Rests, and looks whether all is well.
  void watch(std::chrono::milliseconds rest) {
    if (interrupted()) throw interruption{};
    if (const auto said = crew_.casualty()) throw std::runtime_error(*said);
    if (rest.count() > 0) nap(rest);
  }

  void collect() {
    std::vector<bool> found(files().size());
    results_.resize(files().size());
    each_job(ergon::job_state::completed, [&](std::size_t i, const ergon::job_info& job) {
      found[i] = true;
      ++report_.completed;
      take_result(i, job);
    });
    for (const ergon::job_state state : {ergon::job_state::dead, ergon::job_state::cancelled, ergon::job_state::discarded}) {
      each_job(state, [&](std::size_t i, const ergon::job_info& job) {
        found[i] = true;
        if (files()[i].is_other_now()) {
          ++report_.changed;
          return;
        }
        ++report_.failed;
        report_.blame(fmt::format("the job {} of {} is {}: {}", job.id, escape(files()[i].path), to_string(job.state),
                                  job.errors.empty() ? "no error is known" : job.errors.back().error));
      });
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i]) continue;
      ++report_.lost;
      report_.blame(fmt::format("the job of {} is lost", escape(files()[i].path)));
    }
    for (const ergon::hour_stats& hour : wait(jobs_.stats(queue_, 48))) report_.reclaimed += hour.reclaimed;
    if (report_.held > 0 && report_.redelivered == 0) report_.blame("no job of the killed worker was given to another");
    if (report_.reclaimed != report_.redelivered) {
      report_.blame(fmt::format("the queue counts {} jobs that were taken over from lost workers, the jobs themselves {}",
                                report_.reclaimed, report_.redelivered));
    }
  }

  template <class F>
  void each_job(ergon::job_state state, F&& f) {
    std::string cursor;
    do {
      const ergon::job_page page = wait(jobs_.list({.queue = queue_, .state = state}, cursor, 1000));
      for (const ergon::job_info& job : page.jobs) {
        const auto at = index_.find(job.id);
        if (at == index_.end()) {
          report_.blame(fmt::format("the store lists a job {} that was never put in", job.id));
          continue;
        }
        report_.redelivered += job.losses;
        f(at->second, job);
      }
      cursor = page.next;
      watch(0ms);
    } while (!cursor.empty());
  }

  void take_result(std::size_t i, const ergon::job_info& job) {
    const std::string& path = files()[i].path;
    if (unescape(ergon::from_json<digest>(job.payload).path) != path || !job.result) {
      ++report_.mismatches;
      report_.blame(fmt::format("the job {} of {} came back with another payload, or without its result", job.id, escape(path)));
      return;
    }
    results_[i] = ergon::from_json<file_figures>(*job.result);
    report_.lines += results_[i]->lines;
    report_.words += results_[i]->words;
  }

  void check() {
    screen_.begin();
    const auto from = jobs_.runtime().clock().steady();
    const std::vector<std::string> sums = sums_of(files(), options_.workers, [&](std::uint64_t done) {
      screen_.show({.verb = "checked with sha256sum",
                    .done = done,
                    .total = files().size(),
                    .running = std::nullopt,
                    .failed = std::nullopt});
    });
    screen_.end();
    report_.checking = jobs_.runtime().clock().steady() - from;
    for (std::size_t i = 0; i < files().size(); ++i) {
      const input_file& file = files()[i];
      if (!results_[i] || (results_[i]->sha256 == sums[i] && results_[i]->bytes == file.size)) continue;
      if (file.is_other_now()) {
        ++report_.changed;
        continue;
      }
      ++report_.mismatches;
      report_.blame(fmt::format("{} has the digest {} and {} bytes, the job says {} and {}", escape(file.path), sums[i],
                                file.size, results_[i]->sha256, results_[i]->bytes));
    }
  }

  template <class T>
  T wait(ergon::task<T> operation) {
    return runtime_.block_on(std::move(operation));
  }
  [[nodiscard]] const std::vector<input_file>& files() const noexcept { return report_.input.files; }

  const show_options& options_;
  scratch_folder scratch_;
  std::string queue_;
  ergon::runtime runtime_;
  ergon::client jobs_;
  screen screen_;
  crew crew_;
  report report_;
  ergon::steady_time begun_;
  progress seen_;
  /// From the id of a job to the place of its file.
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::optional<file_figures>> results_;
};

}  // namespace

int run_show(const show_options& options) {
  catch_interrupts();
  try {
    show it(options);
    const report result = it.run();
    if (options.json) {
      print_json(result);
    } else {
      print_table(result, ::isatty(STDOUT_FILENO) == 1 && it.view().colour());
    }
    if (options.keep) fmt::print(stderr, "kept: {}\n", it.folder().native());
    return result.good() ? 0 : 1;
  } catch (const interruption&) {
    fmt::print(stderr, "ergon-demo: interrupted; workers and temporary files are gone\n");
    return 130;
  }
}

}  // namespace demo
