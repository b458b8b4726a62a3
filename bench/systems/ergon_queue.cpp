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

// A bijection that scatters: keys made of it arrive in random order, as ids from outside do.
std::uint64_t scattered(std::uint64_t n) {
  n ^= n >> 30;
  n *= 0xbf58476d1ce4e5b9ULL;
  n ^= n >> 27;
  n *= 0x94d049bb133111ebULL;
  return n ^ (n >> 31);
}

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
    co_await sleep_for(std::chrono::microseconds{1000 + scattered(i) % 8000});
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
          .gives_way = a.number("gives_way", 0) != 0};
}

std::string url_of(const arguments& a) {
  if (a.text("broker") == "memory") return "memory:bench";
  if (a.text("broker") == "sqlite") return fmt::format("sqlite:{}/bench.db?synchronous={}", a.text("dir"), a.text("synchronous"));
  throw bad_arguments(fmt::format("--broker {}: must be memory or sqlite", a.text("broker")));
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

// From the first enqueue to the acknowledged end of the last job.
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
  const stopwatch clock;
  makers.start(all);
  ticks.wait_for(handled_before + jobs);
  s.check();
  s.wait_until_settled(settled_before + jobs);
  const double seconds = clock.seconds();

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
  const stopwatch clock;
  makers.start(waiting + warmup + jobs);
  const std::uint64_t accepted = makers.finish();
  const double seconds = clock.seconds();
  makers.end();
  const in_store left = rt.block_on(count(client{store}));
  std::string failure;
  if (accepted != warmup + jobs || left.ready + left.scheduled != waiting + warmup + jobs || left.other != 0) {
    failure = fmt::format("of {} jobs put in {} were accepted; in the store: {} ready, {} scheduled, {} other", warmup + jobs,
                          accepted, left.ready, left.scheduled, left.other);
  }
  return line_of(static_cast<double>(jobs) / seconds, std::move(failure));
}

// From the moment before the enqueue to the handler's first statement, one job at a time, 1 to 9 ms apart.
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
  production here{.jobs = client{store}};
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
  const std::vector<double> measured(
      milliseconds.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(warmup, milliseconds.size())), milliseconds.end());
  if (measured.empty()) return line_of(0, "nothing was measured");
  const double p99 = percentile(measured, 99);
  auto line = line_of(p99 / 1000, std::move(failure));
  line["latency_ms"] = boost::json::object{{"p50", percentile(measured, 50)}, {"p95", percentile(measured, 95)}, {"p99", p99}};
  line["note"] = fmt::format("The slowest of {} took {:.3g} ms.", samples, percentile(measured, 100));
  return line;
}

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

// What the whole process uses while there is nothing to do, as CPU time per minute.
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
  const double before = cpu_seconds();
  const stopwatch clock;
  std::this_thread::sleep_for(std::chrono::seconds{a.number("seconds")});
  const double used = cpu_seconds() - before;
  const double seconds = clock.seconds();
  const bool ready = s.health().ready;
  s.stop();
  return line_of(used * 60 / seconds, ready && ticks.wrong() == 0 ? "" : "the worker was not ready after the window");
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
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: e2e, enqueue, latency, idle, prepare", a.scenario()));
  });
}
