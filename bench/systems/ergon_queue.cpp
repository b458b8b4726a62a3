// ergon's side of the suite `queue`: what a program that uses ergon would write, through the public headers only, with every default
// left on but those that are parameters. The handlers do nothing but tick the job off, so that lost and doubled ones are seen.
//
// Threads: main sets up, waits and measures; the worker has a thread for `worker::run`; handlers and producers run on the runtime
// (one thread unless `--threads` says otherwise). Producers elsewhere: on a runtime of their own, or in a process of their own,
// which is this program again with the scenario `produce`, talked to through a pair of pipes.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sqlite3.h>
#include <boost/describe/class.hpp>
#include <boost/json/parse.hpp>

#include <ergon/queue/client.hpp>
#include <ergon/queue/worker.hpp>
#include <ergon/redis/client.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/sleep.hpp>

#include "bench/driver/statistics.hpp"
#include "bench/systems/program.hpp"

extern char** environ;

namespace ergon::bench {

// 100 bytes as JSON, as long as the number has ten digits.
struct parcel {
  std::uint64_t number = 0;
  std::string to;
};
BOOST_DESCRIBE_STRUCT(parcel, (), (number, to))

namespace {

constexpr std::uint64_t first_number = 1'000'000'000;
constexpr std::size_t address_bytes = 71;

parcel make_parcel(std::uint64_t number) { return {number, std::string(address_bytes, 'a')}; }

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// What a job is given beside its payload: `plain`, `id`, `unique`, `scheduled`.
enum class dress : std::uint8_t { plain, id, unique, scheduled };

dress dress_of(const std::string& name) {
  if (name == "plain") return dress::plain;
  if (name == "id") return dress::id;
  if (name == "unique") return dress::unique;
  if (name == "scheduled") return dress::scheduled;
  throw bad_arguments(fmt::format("--extra {}: must be plain, id, unique or scheduled", name));
}

void set_options(job_options& options, dress extra, std::uint64_t n, std::chrono::nanoseconds delay) {
  switch (extra) {
    case dress::plain:
      break;
    case dress::id:
      options.id = fmt::format("order-{:016x}", scattered(n));
      break;
    case dress::unique:
      options.unique_key = fmt::format("customer-{:016x}", scattered(n));
      options.unique_for = std::chrono::hours{1};
      break;
    case dress::scheduled:
      options.process_in = delay;
      break;
  }
}

// What the producers of one process do and what they saw. Shared by its producers; any thread.
struct production {
  client jobs;
  dress extra = dress::plain;
  std::uint64_t batch = 100;
  bool awaits_each = false;
  /// A store in memory answers at once, so a producer that shares its thread never waits and would put in everything before the
  /// first job is taken. Such a producer gives way after each call.
  bool gives_way = false;
  /// Scheduled jobs are due within a day, not at once.
  bool far = false;
  /// When job n is due; empty: at once.
  std::function<wall_time(std::uint64_t)> due = {};
  /// How long `produce_paced` pauses on average.
  std::uint64_t pause_us = 5000;
  /// Permits for what may be in the store beyond what stood there at the start; null: no limit.
  semaphore* window = nullptr;
  /// Handled so far, to see the back-log; null in another process.
  const std::atomic<std::uint64_t>* handled = nullptr;
  /// The next job's number, from 1; a job belongs to who takes its number.
  std::atomic<std::uint64_t> next{1};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> backlog{0};

  [[nodiscard]] std::chrono::nanoseconds delay(std::uint64_t n) const {
    return far ? std::chrono::hours{1} + std::chrono::milliseconds{scattered(n) % 82'800'000} : std::chrono::milliseconds{1};
  }
  void look_at_backlog() {
    if (handled == nullptr) return;
    const std::uint64_t in = accepted.load(std::memory_order_relaxed);
    const std::uint64_t out = handled->load(std::memory_order_relaxed);
    if (in > out && in - out > backlog.load(std::memory_order_relaxed)) backlog.store(in - out, std::memory_order_relaxed);
  }
};

task<void> produce_in_batches(production& p, std::uint64_t end) {
  job_batch batch;
  std::vector<enqueued> answers;
  for (;;) {
    const std::uint64_t first = p.next.fetch_add(p.batch);
    if (first > end) break;
    const std::uint64_t size = std::min(p.batch, end - first + 1);
    batch.clear();
    job_options options;
    for (std::uint64_t n = first; n < first + size; ++n) {
      set_options(options, p.extra, n, p.delay(n));
      if (p.due) options.process_at = p.due(n);
      batch.add(make_parcel(first_number + n), options);
    }
    if (p.window != nullptr) (co_await p.window->acquire(size)).forget();
    co_await p.jobs.enqueue_all(batch, answers);
    for (const enqueued& answer : answers) p.accepted.fetch_add(answer.created ? 1 : 0, std::memory_order_relaxed);
    p.look_at_backlog();
    if (p.gives_way) co_await yield();
  }
}

task<void> produce_one_by_one(production& p, std::uint64_t end) {
  for (std::uint64_t n = p.next.fetch_add(1); n <= end; n = p.next.fetch_add(1)) {
    job_options options;
    set_options(options, p.extra, n, p.delay(n));
    if (p.due) options.process_at = p.due(n);
    if (p.window != nullptr) (co_await p.window->acquire()).forget();
    const enqueued answer = co_await p.jobs.enqueue(make_parcel(first_number + n), options);
    p.accepted.fetch_add(answer.created ? 1 : 0, std::memory_order_relaxed);
    p.look_at_backlog();
    if (p.gives_way) co_await yield();
  }
}

// One job at a time into an idle queue. The number is the stamp.
task<void> produce_paced(production& p, std::uint64_t samples) {
  for (std::uint64_t i = 1; i <= samples; ++i) {
    const std::uint64_t least = p.pause_us / 5;
    co_await sleep_for(std::chrono::microseconds{least + scattered(i) % (2 * (p.pause_us - least))});
    const enqueued answer = co_await p.jobs.enqueue(make_parcel(static_cast<std::uint64_t>(now_ns())));
    p.accepted.fetch_add(answer.created ? 1 : 0, std::memory_order_relaxed);
  }
}

task<void> join(join_handle<void> handle) { co_await handle; }

// Runs `producers` coroutines on `on` until job `end` is put in, and waits for them. Not on a thread of `on`.
void produce_on(runtime& on, production& p, std::uint64_t producers, std::uint64_t end) {
  std::vector<join_handle<void>> all;
  for (std::uint64_t i = 0; i < producers; ++i) {
    all.push_back(on.spawn(p.awaits_each ? produce_one_by_one(p, end) : produce_in_batches(p, end), "producer"));
  }
  for (auto& one : all) on.block_on(join(std::move(one)));
  // The last fetch of each producer went past the end.
  p.next.store(end + 1);
}

production make_production(const arguments& a, client jobs) {
  const std::string style = a.text("producer_style", "batch");
  if (style != "batch" && style != "await")
    throw bad_arguments(fmt::format("--producer_style {}: must be batch or await", style));
  return {.jobs = std::move(jobs),
          .extra = dress_of(a.text("extra", "plain")),
          .batch = a.number("batch", 100),
          .awaits_each = style == "await",
          .gives_way = a.number("gives_way", 0) != 0,
          .pause_us = a.number("pause_us", 5000)};
}

std::string url_of(const arguments& a) {
  if (a.text("broker") == "memory") return "memory:bench";
  if (a.text("broker") == "sqlite") return fmt::format("sqlite:{}/bench.db?synchronous={}", a.text("dir"), a.text("synchronous"));
  if (a.text("broker") == "redis") return a.text("redis");
  throw bad_arguments(fmt::format("--broker {}: must be memory, sqlite or redis", a.text("broker")));
}

void start_with_empty_store(const arguments& a) {
  if (a.text("broker") == "sqlite" && a.number("prepared", 0) == 0) clear_store(a.text("dir"), "bench.db");
}

// Ticks jobs off. Filled by handlers, read by main.
class tally {
 public:
  explicit tally(std::uint64_t jobs) : seen_(jobs + 1) {}

  void tick(std::uint64_t number) {
    const std::uint64_t n = number - first_number;
    // A byte each: handlers of different jobs never write the same one.
    if (n < seen_.size()) {
      ++seen_[n];
    } else {
      foreign_.fetch_add(1, std::memory_order_relaxed);
    }
    if (window_ != nullptr) window_->release();
    count();
  }
  void count() {
    // Sequentially consistent against `wait_for`: either this sees the new target or that sees the new count.
    if (handled_.fetch_add(1) + 1 >= target_.load()) wake();
  }
  void release_into(semaphore* window) { window_ = window; }

  /// Blocks until `target` jobs in all were handled, or `give_up` was called.
  void wait_for(std::uint64_t target) {
    target_.store(target);
    while (handled_.load() < target && !given_up_.load()) {
      woken_.wait(false);
      woken_.store(false);
    }
    target_.store(no_target);
  }
  void give_up() {
    given_up_.store(true);
    wake();
  }
  [[nodiscard]] bool given_up() const noexcept { return given_up_.load(); }

  [[nodiscard]] const std::atomic<std::uint64_t>& handled() const noexcept { return handled_; }
  /// Jobs handled more than once, or that nobody put in. After the handlers have ended.
  [[nodiscard]] std::uint64_t wrong() const {
    return foreign_.load() +
           static_cast<std::uint64_t>(std::ranges::count_if(seen_, [](std::uint8_t times) { return times > 1; }));
  }

 private:
  static constexpr std::uint64_t no_target = ~std::uint64_t{0};

  void wake() {
    woken_.store(true);
    woken_.notify_one();
  }

  std::vector<std::uint8_t> seen_;
  std::atomic<std::uint64_t> foreign_{0};
  semaphore* window_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> handled_{0};
  std::atomic<std::uint64_t> target_{no_target};
  std::atomic<bool> woken_{false};
  std::atomic<bool> given_up_{false};
};

// A worker on a thread of its own, until it is stopped.
class serving {
 public:
  serving(worker& w, tally& ticks)
      : worker_{w}, thread_{[this, &ticks](std::stop_token stop) {
          try {
            worker_.run(std::move(stop));
          } catch (...) {
            failure_ = std::current_exception();
            ticks.give_up();
          }
        }} {}

  /// Waits until the store has acknowledged the end of `jobs` jobs in all. Main looks every 50 µs, and only for the last moment.
  void wait_until_settled(std::uint64_t jobs) const {
    while (worker_.health().completed < jobs) std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  [[nodiscard]] worker_health health() const { return worker_.health(); }
  /// Throws what the worker threw.
  void stop() {
    thread_.request_stop();
    thread_.join();
    check();
  }
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  worker& worker_;
  std::exception_ptr failure_;
  std::jthread thread_;
};

// This program again, as the process of the producers. It is told the number of the last job, a line each, and answers with how many
// it has put in; at the end of its input it ends.
class producer_process {
 public:
  explicit producer_process(const arguments& a) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "a pipe to the producers");
    std::vector<std::string> words{"producers", "produce"};
    for (const auto& [name, value] : a.all()) words.insert(words.end(), {"--" + name, value});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (const int fd : {in[0], in[1], out[0], out[1]}) ::posix_spawn_file_actions_addclose(&actions, fd);
    const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    if (error != 0) throw std::system_error(error, std::generic_category(), "the process of the producers");
    to_ = ::fdopen(in[1], "w");
    from_ = ::fdopen(out[0], "r");
  }
  producer_process(const producer_process&) = delete;
  producer_process& operator=(const producer_process&) = delete;
  ~producer_process() { end(); }

  void tell(std::uint64_t last) {
    fmt::print(to_, "{}\n", last);
    std::fflush(to_);
  }
  [[nodiscard]] std::uint64_t answer() {
    unsigned long long n = 0;
    if (std::fscanf(from_, "%llu", &n) != 1) throw std::runtime_error("the process of the producers ended early");
    return n;
  }
  void end() {
    if (to_ == nullptr) return;
    std::fclose(to_);
    std::fclose(from_);
    to_ = nullptr;
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

 private:
  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

// The scenario of the other process: see `producer_process`.
void serve_as_producers(const arguments& a) {
  runtime rt{{.threads = static_cast<unsigned>(a.number("threads", 1))}};
  production p = make_production(a, client{url_of(a), {.runtime = &rt}});
  const bool paced = a.all().contains("samples");
  unsigned long long last = 0;
  while (std::scanf("%llu", &last) == 1) {
    if (paced) {
      rt.block_on(produce_paced(p, last));
    } else {
      produce_on(rt, p, a.number("producers"), last);
    }
    fmt::print("{}\n", p.accepted.load());
    std::fflush(stdout);
  }
}

// Where the producers of a row live, so that the rows differ in nothing else.
class producers {
 public:
  producers(const arguments& a, runtime& of_worker, const std::shared_ptr<broker>& of_worker_broker, const tally& ticks,
            semaphore* window)
      : count_{a.number("producers", 1)} {
    const std::string where = a.text("producers_in", "runtime");
    if (where == "process") {
      if (a.text("broker") == "memory") throw bad_arguments("--producers_in process: processes cannot share memory:");
      process_.emplace(a);
    } else if (where == "own_runtime") {
      own_.emplace(runtime_options{.threads = 1, .name = "producer"});
      production_.emplace(a, client{url_of(a), {.runtime = &*own_}}, ticks, window);
      on_ = &*own_;
    } else if (where == "runtime") {
      production_.emplace(a, client{of_worker_broker}, ticks, window);
      on_ = &of_worker;
    } else {
      throw bad_arguments(fmt::format("--producers_in {}: must be runtime, own_runtime or process", where));
    }
  }

  /// Starts to put in what is missing up to job `last`. `finish` waits for it and gives the number that was accepted in all.
  void start(std::uint64_t last) {
    if (process_) {
      process_->tell(last);
    } else {
      produce_on(*on_, production_->of, count_, last);
    }
  }
  [[nodiscard]] std::uint64_t finish() { return process_ ? process_->answer() : production_->of.accepted.load(); }
  void end() {
    if (process_) process_->end();
  }
  void skip(std::uint64_t jobs) {
    if (production_) production_->of.next.store(jobs + 1);
  }
  void forget_backlog() {
    if (production_) production_->of.backlog.store(0);
  }
  [[nodiscard]] std::optional<std::uint64_t> backlog() const {
    return production_ ? std::optional{production_->of.backlog.load()} : std::nullopt;
  }

 private:
  struct local {
    local(const arguments& a, client jobs, const tally& ticks, semaphore* window) : of{make_production(a, std::move(jobs))} {
      of.handled = &ticks.handled();
      of.window = window;
    }
    production of;
  };
  std::uint64_t count_;
  std::optional<producer_process> process_;
  std::optional<runtime> own_;
  std::optional<local> production_;
  runtime* on_ = nullptr;
};

struct on_parcel {
  tally* ticks;
  task<void> operator()(const parcel& job) const {
    ticks->tick(job.number);
    co_return;
  }
};

// The handler of the latency rows: the number is when the job was put in.
struct on_stamped {
  std::vector<double>* milliseconds;
  tally* ticks;
  task<void> operator()(const parcel& job) const {
    const std::int64_t arrived = now_ns();
    milliseconds->push_back(static_cast<double>(arrived - static_cast<std::int64_t>(job.number)) / 1e6);
    ticks->count();
    co_return;
  }
};

void fill(runtime& rt, client jobs, std::uint64_t waiting, dress extra) {
  production p{.jobs = std::move(jobs), .extra = extra, .batch = 1000, .far = true};
  produce_on(rt, p, 1, waiting);
  if (p.accepted.load() != waiting)
    throw std::runtime_error(fmt::format("of {} jobs to wait {} were accepted", waiting, p.accepted.load()));
}

struct in_store {
  std::uint64_t ready = 0;
  std::uint64_t scheduled = 0;
  std::uint64_t other = 0;
};

task<in_store> count(client jobs) {
  in_store sum;
  for (const queue_info& q : co_await jobs.queues()) {
    sum.ready += q.ready;
    sum.scheduled += q.scheduled;
    sum.other += q.active + q.retry + q.waiting + q.dead + q.cancelled + q.discarded;
  }
  co_return sum;
}

boost::json::object line_of(double value, std::string failure) {
  boost::json::object line;
  line["value"] = value;
  line["verified"] = failure.empty();
  if (!failure.empty()) line["failure"] = failure;
  line["about"] = about({{"sqlite", sqlite3_libversion()}});
  return line;
}

// Where there is a server, how busy it is in the window of a row.
std::optional<server_load> watch_server(const arguments& a) {
  if (a.text("broker") != "redis") return std::nullopt;
  return server_load{static_cast<pid_t>(a.number("server_pid"))};
}

// From the first enqueue to the acknowledged end of the last job; with `--until handled`, to the end of the last handler.
boost::json::object e2e(const arguments& a) {
  start_with_empty_store(a);
  const std::uint64_t waiting = a.number("waiting", 0);
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  const std::uint64_t all = waiting + warmup + jobs;
  const dress extra = dress_of(a.text("extra", "plain"));

  runtime rt{{.threads = static_cast<unsigned>(a.number("threads", 1))}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  if (waiting > 0 && a.number("prepared", 0) == 0) fill(rt, client{store}, waiting, extra);

  tally ticks{all};
  std::optional<semaphore> window;
  if (const std::uint64_t n = a.number("window", 0); n > 0) {
    window.emplace(n);
    ticks.release_into(&*window);
  }
  worker w{store, {.concurrency = static_cast<std::uint32_t>(a.number("concurrency"))}};
  w.handle(on_parcel{&ticks});
  producers makers{a, rt, store, ticks, window ? &*window : nullptr};
  makers.skip(waiting);

  serving s{w, ticks};
  makers.start(waiting + warmup);
  (void)makers.finish();
  ticks.wait_for(warmup);
  s.check();
  s.wait_until_settled(warmup);
  makers.forget_backlog();

  // Where jobs wait behind, the worker never rests: then it counts from where it is.
  const std::uint64_t settled_before = waiting == 0 ? warmup : s.health().completed;
  const std::uint64_t handled_before = waiting == 0 ? warmup : ticks.handled().load();
  const bool until_handled = a.text("until", "settled") == "handled";
  const auto server = watch_server(a);
  const stopwatch clock;
  makers.start(all);
  ticks.wait_for(handled_before + jobs);
  double seconds = clock.seconds();
  const double server_seconds = server ? server->seconds() : 0;
  s.check();
  s.wait_until_settled(settled_before + jobs);
  if (!until_handled) seconds = clock.seconds();

  const std::uint64_t accepted = makers.finish();
  makers.end();
  s.stop();
  const worker_health h = w.health();
  const in_store left = rt.block_on(count(client{store}));
  const std::uint64_t handled = ticks.handled().load();
  const bool far_away = extra == dress::scheduled;
  std::string failure;
  if (accepted != warmup + jobs || ticks.wrong() != 0 || handled != h.completed || h.failed + h.lost != 0 || left.other != 0 ||
      left.ready + left.scheduled + h.completed != all || (far_away && left.scheduled != waiting) ||
      (waiting == 0 && handled != all)) {
    failure = fmt::format(
        "of {} jobs put in {} were accepted; {} handled, {} of them twice or unknown, {} settled, {} failed or lost; left: {} "
        "ready, {} scheduled, {} other",
        warmup + jobs, accepted, handled, ticks.wrong(), h.completed, h.failed + h.lost, left.ready, left.scheduled, left.other);
  }
  auto line = line_of(static_cast<double>(jobs) / seconds, std::move(failure));
  if (server) line["server_busy"] = server_seconds / seconds;
  if (const auto most = makers.backlog(); most && waiting == 0) line["note"] = fmt::format("Back-log: at most {} jobs.", *most);
  return line;
}

// From the first enqueue to the last acknowledgement; nobody takes them.
boost::json::object enqueue_only(const arguments& a) {
  start_with_empty_store(a);
  const std::uint64_t waiting = a.number("waiting", 0);
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  runtime rt{{.threads = static_cast<unsigned>(a.number("threads", 1))}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  if (waiting > 0 && a.number("prepared", 0) == 0) fill(rt, client{store}, waiting, dress_of(a.text("extra", "plain")));
  tally none{0};
  producers makers{a, rt, store, none, nullptr};
  makers.skip(waiting);
  makers.start(waiting + warmup);
  (void)makers.finish();
  const auto server = watch_server(a);
  const stopwatch clock;
  makers.start(waiting + warmup + jobs);
  const std::uint64_t accepted = makers.finish();
  const double seconds = clock.seconds();
  const double server_seconds = server ? server->seconds() : 0;
  makers.end();
  const in_store left = rt.block_on(count(client{store}));
  std::string failure;
  if (accepted != warmup + jobs || left.ready + left.scheduled != waiting + warmup + jobs || left.other != 0) {
    failure = fmt::format("of {} jobs put in {} were accepted; in the store: {} ready, {} scheduled, {} other", warmup + jobs,
                          accepted, left.ready, left.scheduled, left.other);
  }
  auto line = line_of(static_cast<double>(jobs) / seconds, std::move(failure));
  if (server) line["server_busy"] = server_seconds / seconds;
  return line;
}

boost::json::object latency_line(const std::vector<double>& milliseconds, std::string failure) {
  if (milliseconds.empty()) return line_of(0, "nothing was measured");
  const double p99 = percentile(milliseconds, 99);
  auto line = line_of(std::max(0.0, p99 / 1000), std::move(failure));
  line["latency_ms"] =
      boost::json::object{{"p50", percentile(milliseconds, 50)}, {"p95", percentile(milliseconds, 95)}, {"p99", p99}};
  line["note"] = fmt::format("The slowest of {} took {:.3g} ms.", milliseconds.size(), percentile(milliseconds, 100));
  return line;
}

// From the moment before the enqueue to the handler's first statement, one job at a time, `--pause_us` apart on average.
boost::json::object latency(const arguments& a) {
  start_with_empty_store(a);
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t samples = a.number("samples");
  runtime rt{{.threads = static_cast<unsigned>(a.number("threads", 1))}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  std::vector<double> milliseconds;
  milliseconds.reserve(warmup + samples);
  tally ticks{0};
  worker w{store, {.concurrency = static_cast<std::uint32_t>(a.number("concurrency"))}};
  w.handle(on_stamped{&milliseconds, &ticks});
  std::optional<producer_process> process;
  production here = make_production(a, client{store});
  if (a.text("producers_in") == "process") process.emplace(a);
  serving s{w, ticks};
  const auto send = [&](std::uint64_t n) {
    if (process) {
      process->tell(n);
      return process->answer();
    }
    rt.block_on(produce_paced(here, n));
    return here.accepted.load();
  };
  (void)send(warmup);
  ticks.wait_for(warmup);
  const std::uint64_t accepted = send(samples);
  ticks.wait_for(warmup + samples);
  s.check();
  s.wait_until_settled(warmup + samples);
  if (process) process->end();
  s.stop();

  std::string failure;
  if (accepted != warmup + samples || milliseconds.size() != warmup + samples) {
    failure = fmt::format("of {} jobs {} were accepted and {} handled", warmup + samples, accepted, milliseconds.size());
  }
  milliseconds.erase(milliseconds.begin(),
                     milliseconds.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(warmup, milliseconds.size())));
  return latency_line(milliseconds, std::move(failure));
}

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

task<void> ask(redis::client& over, const redis::commands& asked, redis::reply& answer) { co_await over.run(asked, answer); }

// A field of the server's INFO, over a connection that is made for it.
double server_info(const arguments& a, std::string_view section, std::string_view field) {
  runtime rt{{.threads = 1}};
  redis::client over{rt, redis::read_options(a.text("redis"))};
  redis::commands asked;
  asked.add("INFO", section);
  redis::reply answer;
  rt.block_on(ask(over, asked, answer));
  redis::raise(answer.root(), "INFO");
  const std::string text{answer.root().text()};
  const auto at = text.find(fmt::format("\n{}:", field));
  if (at == std::string::npos) throw std::runtime_error(fmt::format("the server's INFO {} has no {}", section, field));
  return std::stod(text.substr(at + field.size() + 2));
}

// What a waiting job takes of the server's memory.
boost::json::object memory(const arguments& a) {
  const std::uint64_t jobs = a.number("jobs");
  const std::uint64_t warmup = a.number("warmup");
  runtime rt{{.threads = 1}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  tally none{0};
  producers makers{a, rt, store, none, nullptr};
  makers.start(warmup);
  (void)makers.finish();
  const double before = server_info(a, "memory", "used_memory");
  makers.start(warmup + jobs);
  const std::uint64_t accepted = makers.finish();
  const double after = server_info(a, "memory", "used_memory");
  const in_store left = rt.block_on(count(client{store}));
  std::string failure;
  if (accepted != warmup + jobs || left.ready != accepted || left.scheduled + left.other != 0) {
    failure = fmt::format("of {} jobs put in {} were accepted; in the store: {} ready, {} other", warmup + jobs, accepted,
                          left.ready, left.scheduled + left.other);
  }
  return line_of((after - before) / static_cast<double>(jobs), std::move(failure));
}

// Handles jobs that are due at a time of their own. Handlers of these rows run on one thread.
struct on_due {
  std::function<wall_time(std::uint64_t)> due;
  std::vector<double>* milliseconds;
  tally* ticks;
  task<void> operator()(const parcel& job) const {
    const auto late = std::chrono::system_clock::now() - due(job.number - first_number);
    milliseconds->push_back(std::chrono::duration<double, std::milli>(late).count());
    ticks->tick(job.number);
    co_return;
  }
};

// Jobs that are due later, put in at once and handled when they are due: `first_due` is when the first is. Gives how late each was
// started, and in `line` what is to say if anything went wrong.
struct due_jobs {
  std::vector<double> milliseconds = {};
  double seconds_after_due = 0;
  std::string failure = {};
};
due_jobs handle_due(const arguments& a, std::uint64_t warmup, std::uint64_t jobs, wall_time first_due,
                    const std::function<wall_time(std::uint64_t)>& due) {
  due_jobs seen;
  seen.milliseconds.reserve(warmup + jobs);
  runtime rt{{.threads = 1}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  tally ticks{warmup + jobs};
  worker w{store, {.concurrency = static_cast<std::uint32_t>(a.number("concurrency"))}};
  w.handle(on_due{due, &seen.milliseconds, &ticks});
  production p = make_production(a, client{store});
  serving s{w, ticks};
  produce_on(rt, p, a.number("producers"), warmup);
  ticks.wait_for(warmup);
  s.check();
  p.due = due;
  produce_on(rt, p, a.number("producers"), warmup + jobs);
  const bool in_time = std::chrono::system_clock::now() < first_due;
  ticks.wait_for(warmup + jobs);
  seen.seconds_after_due = std::chrono::duration<double>(std::chrono::system_clock::now() - first_due).count();
  s.check();
  s.wait_until_settled(warmup + jobs);
  s.stop();
  const in_store left = rt.block_on(count(client{store}));
  const worker_health h = w.health();
  if (!in_time) {
    seen.failure = "the jobs were not all in the store before they were due";
  } else if (p.accepted.load() != warmup + jobs || ticks.wrong() != 0 || h.completed != warmup + jobs || h.failed + h.lost != 0 ||
             left.ready + left.scheduled + left.other != 0) {
    seen.failure =
        fmt::format("of {} jobs put in {} were accepted and {} settled, {} were handled twice or are unknown; left: {}",
                    warmup + jobs, p.accepted.load(), h.completed, ticks.wrong(), left.ready + left.scheduled + left.other);
  }
  seen.milliseconds.erase(seen.milliseconds.begin(), seen.milliseconds.begin() + static_cast<std::ptrdiff_t>(warmup));
  return seen;
}

// Many jobs that are due at the same moment: from that moment to the end of the last handler.
boost::json::object promotion(const arguments& a) {
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  const auto due =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::system_clock::now()) + std::chrono::seconds{a.number("due_in_s")};
  due_jobs seen = handle_due(a, warmup, jobs, due, [due](std::uint64_t) { return due; });
  const double first = *std::ranges::min_element(seen.milliseconds);
  if (seen.failure.empty() && first < 0) seen.failure = fmt::format("a job was started {:.3g} ms before it was due", -first);
  auto line = line_of(static_cast<double>(jobs) / seen.seconds_after_due, std::move(seen.failure));
  line["note"] = fmt::format("The first was started {:.3g} s after it was due.", first / 1000);
  return line;
}

// Few jobs, each due at a moment of its own: how long after it the handler starts.
boost::json::object lateness(const arguments& a) {
  const std::uint64_t samples = a.number("samples");
  const std::uint64_t span_us = a.number("span_ms") * 1000;
  const auto begin = std::chrono::system_clock::now() + std::chrono::milliseconds{a.number("ahead_ms")};
  due_jobs seen = handle_due(a, 0, samples, begin,
                             [=](std::uint64_t n) { return begin + std::chrono::microseconds{scattered(n) % span_us}; });
  const auto early = std::ranges::count_if(seen.milliseconds, [](double late) { return late < 0; });
  auto line = latency_line(seen.milliseconds, std::move(seen.failure));
  if (early > 0)
    line["note"] = fmt::format("{} {} were started before they were due, up to {:.3g} ms.",
                               std::string_view{line["note"].as_string()}, early, -*std::ranges::min_element(seen.milliseconds));
  return line;
}

// What the whole process uses while there is nothing to do, in a minute: its CPU time, or the commands that it sends to a server.
boost::json::object idle(const arguments& a) {
  start_with_empty_store(a);
  const std::uint64_t warmup = a.number("warmup");
  runtime rt{{.threads = static_cast<unsigned>(a.number("threads", 1))}};
  const auto store = open_broker(url_of(a), {.runtime = &rt});
  tally ticks{warmup};
  worker w{store, {.concurrency = static_cast<std::uint32_t>(a.number("concurrency"))}};
  w.handle(on_parcel{&ticks});
  producers makers{a, rt, store, ticks, nullptr};
  serving s{w, ticks};
  makers.start(warmup);
  ticks.wait_for(warmup);
  s.check();
  s.wait_until_settled(warmup);
  // What follows the work (a checkpoint, memory given back) is not idling.
  std::this_thread::sleep_for(std::chrono::seconds{2});
  const bool on_redis = a.text("broker") == "redis";
  const auto commands = [&] { return server_info(a, "stats", "total_commands_processed"); };
  // The first look tells what a look adds by itself.
  const double first_look = on_redis ? commands() : 0;
  const double commands_before = on_redis ? commands() : 0;
  const auto server = watch_server(a);
  const double before = cpu_seconds();
  const stopwatch clock;
  std::this_thread::sleep_for(std::chrono::seconds{a.number("seconds")});
  const double minutes = clock.seconds() / 60;
  const double used = (cpu_seconds() - before) / minutes;
  const double server_used = server ? server->seconds() / minutes : 0;
  const double sent = on_redis ? (commands() - commands_before - (commands_before - first_look)) / minutes : 0;
  const bool ready = s.health().ready;
  s.stop();
  const bool wants_commands = a.text("figure", "cpu") == "commands";
  auto line =
      line_of(wants_commands ? sent : used, ready && ticks.wrong() == 0 ? "" : "the worker was not ready after the window");
  if (on_redis)
    line["note"] = fmt::format("In a minute: {:.3g} ms of CPU time, {:.0f} commands, {:.3g} ms of the server's CPU time.",
                               used * 1000, sent, server_used * 1000);
  return line;
}

boost::json::object prepare(const arguments& a) {
  start_with_empty_store(a);
  runtime rt{{.threads = 1}};
  fill(rt, client{url_of(a), {.runtime = &rt}}, a.number("waiting"), dress_of(a.text("extra")));
  return line_of(static_cast<double>(a.number("waiting")), "");
}

}  // namespace
}  // namespace ergon::bench

int main(int argc, char** argv) {
  using namespace ergon::bench;
  if (argc > 1 && std::string_view{argv[1]} == "produce") {
    try {
      serve_as_producers(arguments{argc, argv});
      return 0;
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", argv[0], e.what());
      return 1;
    }
  }
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "e2e") return e2e(a);
    if (a.scenario() == "enqueue") return enqueue_only(a);
    if (a.scenario() == "latency") return latency(a);
    if (a.scenario() == "idle") return idle(a);
    if (a.scenario() == "prepare") return prepare(a);
    if (a.scenario() == "memory") return memory(a);
    if (a.scenario() == "promotion") return promotion(a);
    if (a.scenario() == "lateness") return lateness(a);
    throw bad_arguments(fmt::format(
        "there is no scenario '{}'; there is: e2e, enqueue, latency, promotion, lateness, memory, idle, prepare", a.scenario()));
  });
}
