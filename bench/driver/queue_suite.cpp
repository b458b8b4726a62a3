// The suite `queue`: durable jobs on the two embedded brokers, against SQLite by hand, and on Redis, against job systems for it and
// the bare client library. The bars are those that the project set
// itself before it measured.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/driver/results.hpp"
#include "bench/driver/suite.hpp"

namespace ergon::bench {
namespace {

constexpr std::int64_t million = 1'000'000;

const std::string memory_section = "End to end, memory:";
const std::string sqlite_section = "End to end, sqlite: synchronous=NORMAL";
const std::string full_section = "End to end, sqlite: synchronous=FULL";
const std::string waiting_section = "End to end, sqlite: NORMAL, with jobs waiting";
const std::string enqueue_section = "Enqueue only";
const std::string latency_section = "Enqueue to start of the handler, idle queue (figure: p99)";
const std::string idle_section = "CPU time of an idle worker in a minute";
const std::string redis_enqueue_section = "Redis: enqueue only, 4 producers";
const std::string redis_await_section = "Redis: end to end, 4 producers await each";
const std::string redis_batch_section = "Redis: end to end, 4 producers put in batches";
const std::string redis_waiting_section = "Redis: end to end, with jobs waiting";
const std::string redis_latency_section = "Redis: enqueue to start of the handler, idle queue (figure: p99)";
const std::string redis_promotion_section =
    "Redis: jobs that are all due in the same second, from that second to the end of the last handler";
const std::string redis_lateness_section = "Redis: due time to start of the handler, light load (figure: p99)";
const std::string redis_memory_section = "Redis: memory of the server for each waiting job of 100 bytes";
const std::string redis_idle_section = "Redis: CPU time of an idle worker in a minute";
const std::string redis_commands_section =
    "Redis: commands that the server runs in a minute for an idle worker, those in scripts counted";

struct job_system {
  std::string name;
  std::string program;
};
const job_system asynq{"asynq", "bench-asynq_queue"};
const job_system chronos{"chronos-go", "bench-chronos_queue"};
const job_system hiredis{"hiredis", "bench-hiredis_queue"};

measurement ergon_row(std::string key, const std::string& section, std::string title, std::string scenario,
                      boost::json::object params) {
  measurement m{
      .key = std::move(key), .section = section, .title = std::move(title), .scenario = std::move(scenario), .system = "ergon"};
  m.params = std::move(params);
  m.unit = "jobs/s";
  m.program = "bench-ergon_queue";
  return m;
}

// What ergon's rows on a rate have in common. Where and how jobs come in is said by the caller.
boost::json::object rate_params(const std::string& broker, const std::string& synchronous, std::int64_t jobs) {
  boost::json::object p{{"broker", broker}, {"concurrency", 64}, {"producers", 1}, {"producer_style", "batch"}, {"jobs", jobs}};
  if (broker == "sqlite") p["synchronous"] = synchronous;
  if (broker == "memory") p["gives_way"] = 1;
  p["batch"] = 100;
  p["payload_bytes"] = 100;
  p["threads"] = 1;
  p["producers_in"] = "runtime";
  p["warmup"] = jobs / 10;
  return p;
}

boost::json::object with(boost::json::object params, const boost::json::object& changes) {
  for (const auto& [name, value] : changes) params[name] = value;
  if (params.at("producer_style") == "await") params.erase("batch");
  return params;
}

class queue_suite {
 public:
  explicit queue_suite(bool quick) : quick_{quick} {
    suite_.name = "queue";
    suite_.rounds = quick ? 3 : 9;
    suite_.budget_seconds = quick ? 112 : 0;
  }

  suite make() {
    memory();
    sqlite();
    latencies();
    idle();
    sqlite_full();
    waiting();
    enqueue();
    redis();
    return std::move(suite_);
  }

 private:
  // The work of a quick run, and of a whole one.
  [[nodiscard]] std::int64_t sized(std::int64_t in_quick, std::int64_t else_this) const { return quick_ ? in_quick : else_this; }

  measurement& add(measurement m) {
    suite_.rows.push_back(std::move(m));
    return suite_.rows.back();
  }

  void concurrencies(const std::string& key, const std::string& section, const boost::json::object& params,
                     const std::string& baseline) {
    for (const int concurrency : {16, 4, 1}) {
      if (quick_ && concurrency != 1) continue;
      measurement& m = add(ergon_row(fmt::format("{}-c{}", key, concurrency), section,
                                     fmt::format("batches of 100, concurrency {}", concurrency), "e2e",
                                     with(params, {{"concurrency", concurrency}})));
      compare_with_bare(m, baseline);
    }
  }

  void compare_with_bare(measurement& m, const std::string& baseline) {
    if (baseline.empty()) return;
    m.baseline = baseline;
    m.baseline_title = "sqlite-bare";
    m.why_slower =
        "sqlite-bare does less: it knows the next job without looking, reads no payload, decodes nothing, keeps no lease that a "
        "dead worker's jobs "
        "could be taken back by, no counters, and nobody else uses its database.";
  }

  void memory() {
    const std::int64_t jobs = sized(500'000, 2 * million);
    const std::int64_t awaited = sized(200'000, 600'000);
    const auto batch = rate_params("memory", "", jobs);
    add(ergon_row("memory-batch", memory_section, "batches of 100, one thread for all", "e2e", batch)).must =
        bar{.what = bar::kind::at_least, .value = 1'000'000};
    concurrencies("memory-batch", memory_section, batch, "");
    add(ergon_row("memory-batch-own-runtime", memory_section, "batches of 100, producer on a thread of its own", "e2e",
                  with(batch, {{"producers_in", "own_runtime"}, {"gives_way", 0}})))
        .variant = "own-runtime";
    const auto await = with(batch, {{"producers", 4}, {"producer_style", "await"}, {"jobs", awaited}, {"warmup", awaited / 10}});
    add(ergon_row("memory-await", memory_section, "4 producers await each, one thread for all", "e2e", await)).must =
        bar{.what = bar::kind::at_least, .value = 300'000};
    add(ergon_row("memory-await-own-runtime", memory_section, "4 producers await each, on a thread of their own", "e2e",
                  with(await, {{"producers_in", "own_runtime"}})))
        .variant = "own-runtime";
  }

  measurement& bare(const std::string& key, const std::string& section, const std::string& synchronous, int per_transaction,
                    std::int64_t jobs) {
    measurement m{.key = key, .section = section, .scenario = "e2e", .system = "sqlite-bare"};
    m.title = per_transaction == 1 ? "a statement per transaction"
                                   : fmt::format("insert, update, delete in transactions of {}", per_transaction);
    m.variant = per_transaction == 1 ? "single" : "batch";
    m.params = {{"broker", "sqlite"},
                {"concurrency", 1},
                {"producers", 1},
                {"producer_style", per_transaction == 1 ? "await" : "batch"},
                {"jobs", jobs},
                {"synchronous", synchronous},
                {"per_transaction", per_transaction},
                {"payload_bytes", 100},
                {"waiting", 10'000},
                {"warmup", jobs / 10}};
    m.unit = "jobs/s";
    m.program = "bench-sqlite_bare";
    return add(std::move(m));
  }

  void sqlite() {
    const std::int64_t jobs = sized(120'000, 600'000);
    const std::int64_t awaited = sized(30'000, 150'000);
    const auto batch = rate_params("sqlite", "normal", jobs);
    const auto ratio = [](double least, double stretch) {
      return bar{.what = bar::kind::ratio_at_least, .value = least, .stretch = stretch};
    };

    bare("bare-batch", sqlite_section, "normal", 100, jobs);
    measurement& first = add(ergon_row("sqlite-batch", sqlite_section, "batches of 100, one thread for all", "e2e", batch));
    compare_with_bare(first, "bare-batch");
    first.must = ratio(0.6, 1.0);
    measurement& threads = add(ergon_row("sqlite-batch-two-threads", sqlite_section, "batches of 100, two threads", "e2e",
                                         with(batch, {{"threads", 2}})));
    compare_with_bare(threads, "bare-batch");
    threads.variant = "two-threads";
    measurement& process = add(ergon_row("sqlite-batch-process", sqlite_section, "batches of 100, from another process", "e2e",
                                         with(batch, {{"producers_in", "process"}})));
    compare_with_bare(process, "bare-batch");
    process.variant = "two-processes";
    concurrencies("sqlite-batch", sqlite_section, batch, "bare-batch");

    bare("bare-single", sqlite_section, "normal", 1, sized(10'000, 40'000));
    const auto await = with(batch, {{"producers", 4}, {"producer_style", "await"}, {"jobs", awaited}, {"warmup", awaited / 10}});
    measurement& each =
        add(ergon_row("sqlite-await", sqlite_section, "4 producers await each, one thread for all", "e2e", await));
    compare_with_bare(each, "bare-single");
    each.must = ratio(2.5, 0);
    measurement& each_threads = add(ergon_row("sqlite-await-two-threads", sqlite_section, "4 producers await each, two threads",
                                              "e2e", with(await, {{"threads", 2}})));
    compare_with_bare(each_threads, "bare-single");
    each_threads.variant = "two-threads";
    measurement& each_process =
        add(ergon_row("sqlite-await-process", sqlite_section, "4 producers await each, from another process", "e2e",
                      with(await, {{"producers_in", "process"}})));
    compare_with_bare(each_process, "bare-single");
    each_process.variant = "two-processes";
    each_process.must = ratio(1.0, 0);
  }

  void sqlite_full() {
    const std::int64_t jobs = sized(40'000, 200'000);
    const std::int64_t awaited = sized(10'000, 50'000);
    const auto batch = rate_params("sqlite", "full", jobs);
    bare("bare-batch-full", full_section, "full", 100, jobs);
    compare_with_bare(add(ergon_row("sqlite-batch-full", full_section, "batches of 100, one thread for all", "e2e", batch)),
                      "bare-batch-full");
    bare("bare-single-full", full_section, "full", 1, sized(1'500, 6'000));
    const auto await = with(batch, {{"producers", 4}, {"producer_style", "await"}, {"jobs", awaited}, {"warmup", awaited / 10}});
    compare_with_bare(
        add(ergon_row("sqlite-await-full", full_section, "4 producers await each, one thread for all", "e2e", await)),
        "bare-single-full");
    measurement& process =
        add(ergon_row("sqlite-await-full-process", full_section, "4 producers await each, from another process", "e2e",
                      with(await, {{"producers_in", "process"}})));
    compare_with_bare(process, "bare-single-full");
    process.variant = "two-processes";
  }

  // A row that starts from a store in which `waiting` jobs of the same dress stand.
  measurement& with_waiting(const std::string& extra, std::int64_t waiting, std::int64_t jobs) {
    const std::string store = fmt::format("{}-{}", extra, waiting);
    suite_.stores.push_back(
        {store, "bench-ergon_queue", {{"broker", "sqlite"}, {"synchronous", "normal"}, {"waiting", waiting}, {"extra", extra}}});
    auto params =
        with(rate_params("sqlite", "normal", jobs), {{"waiting", waiting}, {"prepared", 1}, {"window", 1'000}, {"extra", extra}});
    measurement m = ergon_row("sqlite-waiting-" + store, waiting_section, "", "e2e", std::move(params));
    m.variant = extra == "plain" ? "" : extra;
    m.store = store;
    return add(std::move(m));
  }

  void waiting() {
    const std::int64_t jobs = sized(120'000, 400'000);
    const std::int64_t dear_jobs = sized(15'000, 60'000);
    with_waiting("plain", 10'000, jobs).title = "10,000 plain jobs waiting";
    measurement& many = with_waiting("plain", million, jobs);
    many.title = "1,000,000 plain jobs waiting";
    many.baseline = "sqlite-waiting-plain-10000";
    many.baseline_title = "10,000 waiting";
    many.must = bar{.what = bar::kind::ratio_at_least, .value = 0.8};
    const std::int64_t stand = sized(100'000, million);
    if (quick_) with_waiting("plain", stand, jobs).title = "100,000 plain jobs waiting";
    for (const auto& [extra, title] : {std::pair{"id", "jobs with an id of their own waiting"},
                                       {"unique", "unique jobs waiting"},
                                       {"scheduled", "jobs scheduled for later"}}) {
      measurement& m = with_waiting(extra, stand, dear_jobs);
      m.title = fmt::format("{} {}", number_text(static_cast<double>(stand)), title);
      m.baseline = fmt::format("sqlite-waiting-plain-{}", stand);
      m.baseline_title = "as many plain jobs";
      m.why_slower =
          "The job has a random key in an index, and every random key dirties a page of its own: the price of the feature, and "
          "it grows with the store.";
    }
  }

  void enqueue() {
    const auto memory_batch = rate_params("memory", "", sized(500'000, 2 * million));
    const std::int64_t memory_awaited = sized(200'000, 600'000);
    const std::int64_t sqlite_awaited = sized(30'000, 150'000);
    const auto sqlite_batch = rate_params("sqlite", "normal", sized(120'000, 600'000));
    const auto enqueue_row = [&](std::string key, std::string title, boost::json::object params) {
      params.erase("concurrency");
      add(ergon_row(std::move(key), enqueue_section, std::move(title), "enqueue", std::move(params)));
    };
    enqueue_row("enqueue-memory-batch", "memory: batches of 100", memory_batch);
    enqueue_row("enqueue-memory-await", "memory: 4 producers await each",
                with(memory_batch,
                     {{"producers", 4}, {"producer_style", "await"}, {"jobs", memory_awaited}, {"warmup", memory_awaited / 10}}));
    enqueue_row("enqueue-sqlite-batch", "sqlite: NORMAL, batches of 100", sqlite_batch);
    enqueue_row("enqueue-sqlite-await", "sqlite: NORMAL, 4 producers await each",
                with(sqlite_batch,
                     {{"producers", 4}, {"producer_style", "await"}, {"jobs", sqlite_awaited}, {"warmup", sqlite_awaited / 10}}));
  }

  void latency_row(const std::string& key, const std::string& title, const std::string& broker, const std::string& where,
                   double bar_ms) {
    measurement m = ergon_row(key, latency_section, title, "latency",
                              {{"broker", broker},
                               {"concurrency", 16},
                               {"producers", 1},
                               {"producer_style", "await"},
                               {"samples", sized(300, 1'500)},
                               {"payload_bytes", 100},
                               {"threads", 1},
                               {"producers_in", where},
                               {"warmup", 50}});
    if (broker == "sqlite") m.params["synchronous"] = "normal";
    m.variant = where == "process" ? "two-processes" : "";
    m.unit = "s";
    m.better = direction::lower;
    m.must = bar{.what = bar::kind::p99_ms_at_most, .value = bar_ms};
    add(std::move(m));
  }

  void latencies() {
    latency_row("latency-memory", "memory: in one process", "memory", "runtime", 1);
    latency_row("latency-sqlite", "sqlite: NORMAL, in one process", "sqlite", "runtime", 1);
    latency_row("latency-sqlite-process", "sqlite: NORMAL, between processes", "sqlite", "process", 10);
  }

  void idle() {
    for (const std::string broker : {"memory", "sqlite"}) {
      measurement m = ergon_row("idle-" + broker, idle_section, broker + ":", "idle",
                                {{"broker", broker},
                                 {"concurrency", 16},
                                 {"producers", 1},
                                 {"producer_style", "batch"},
                                 {"seconds", sized(5, 20)},
                                 {"payload_bytes", 100},
                                 {"threads", 1},
                                 {"producers_in", "runtime"},
                                 {"warmup", 1'000}});
      if (broker == "sqlite") m.params["synchronous"] = "normal";
      m.unit = "s";
      m.better = direction::lower;
      m.must = bar{.what = bar::kind::at_most, .value = 0.010};
      m.rounds_at_most = quick_ ? 1 : 3;
      m.remark = "CPU time of the whole process, scaled to a minute";
      add(std::move(m));
    }
  }

  // What all rows on Redis have in common. Whoever has no use for a parameter ignores it; how many threads a peer takes is its own affair.
  static boost::json::object redis_params(const std::string& style) {
    boost::json::object p{{"broker", "redis"}, {"producers", 4}, {"producer_style", style}, {"payload_bytes", 100}};
    return p;
  }

  measurement& redis_row(const std::string& key, const std::string& section, const std::string& title,
                         const std::string& scenario, boost::json::object params, const std::string& unit = "jobs/s") {
    measurement m = ergon_row("redis-" + key, section, title, scenario, std::move(params));
    m.params["threads"] = 1;
    m.params["producers_in"] = "runtime";
    if (m.params.at("producer_style") == "batch") m.params["batch"] = 100;
    m.unit = unit;
    m.better = unit == "jobs/s" ? direction::higher : direction::lower;
    m.on_redis = true;
    return add(std::move(m));
  }

  measurement& of_ergon(const std::string& key) { return *std::ranges::find(suite_.rows, key, &measurement::key); }

  // The same for a peer; it is compared with ergon's row.
  measurement& redis_peer(const measurement& ours, const job_system& with, const std::string& title) {
    measurement m = ours;
    m.key = fmt::format("{}-{}", ours.key, with.name);
    m.title = title;
    m.system = with.name;
    m.program = with.program;
    m.baseline = ours.key;
    m.baseline_title = "ergon";
    for (const char* const ergons_own : {"threads", "producers_in"}) m.params.erase(ergons_own);
    return add(std::move(m));
  }
  // A row that says why there is none.
  void redis_without(const measurement& ours, const job_system& with, const std::string& title, const std::string& why) {
    measurement& m = redis_peer(ours, with, title);
    m.baseline.clear();
    m.lacks = why;
  }
  // What its users reach for; a slow one takes part in fewer rounds.
  void redis_rivals(const measurement& ours, const std::string& title, unsigned rounds_at_most = 1000) {
    for (const job_system& with : {asynq, chronos}) {
      measurement& m = redis_peer(ours, with, title);
      m.rounds_at_most = std::min(m.rounds_at_most, rounds_at_most);
    }
  }
  void redis_bound(const measurement& ours, const std::string& title, std::int64_t batch) {
    measurement& m = redis_peer(ours, hiredis, title);
    m.params.erase("concurrency");
    if (batch > 0) m.params["batch"] = batch;
    m.remark = "No queue: it decodes nothing, counts nothing, checks no owner, and a crash loses what its consumer had read";
  }

  void redis() {
    redis_enqueue();
    redis_end_to_end("await", redis_await_section, sized(20'000, 200'000));
    redis_end_to_end("batch", redis_batch_section, sized(100'000, 400'000));
    redis_latency();
    redis_due();
    redis_memory();
    redis_waiting();
    redis_idle();
  }

  void redis_enqueue() {
    const std::int64_t jobs = sized(20'000, 200'000);
    const boost::json::object work{{"jobs", jobs}, {"warmup", jobs / 10}};
    measurement ours = redis_row("enqueue-await", redis_enqueue_section, "each awaited, one thread", "enqueue",
                                 with(redis_params("await"), work));
    redis_rivals(ours, "each awaited, goroutines");
    redis_bound(ours, "XADD, each awaited, a thread for each", 0);
    // Many times as fast, so as much again for a window of the same order.
    const std::int64_t in_batches = sized(200'000, 1'000'000);
    ours = redis_row("enqueue-batch", redis_enqueue_section, "batches of 100, one thread", "enqueue",
                     with(redis_params("batch"), {{"jobs", in_batches}, {"warmup", in_batches / 10}}));
    redis_without(ours, asynq, "batches", "asynq has no call that enqueues several jobs");
    redis_bound(ours, "XADD, pipelines of 64, a thread for each", 64);
  }

  void redis_end_to_end(const std::string& style, const std::string& section, std::int64_t jobs) {
    for (const int concurrency : {64, 16, 4, 1}) {
      // A short run looks at both ends.
      if (quick_ && concurrency != 64 && concurrency != 1) continue;
      const auto params =
          with(redis_params(style), {{"concurrency", concurrency}, {"jobs", jobs}, {"warmup", jobs / 10}, {"until", "handled"}});
      const std::string key = fmt::format("{}-c{}", style, concurrency);
      const std::string title = fmt::format("concurrency {}", concurrency);
      const measurement ours = redis_row(key, section, title + ", one thread for all", "e2e", params);
      if (style == "await") {
        redis_rivals(ours, title, quick_ ? 1 : 5);
      }
      if (concurrency != 64) continue;
      measurement two = ours;
      two.key += "-two-threads";
      two.title = title + ", two threads";
      two.variant = "two-threads";
      two.params["threads"] = 2;
      add(std::move(two));
      if (style == "batch") redis_without(ours, asynq, "batches", "asynq has no call that enqueues several jobs");
      redis_bound(ours, style == "batch" ? "pipelines of 64; reads of 256, one consumer" : "reads of 256, one consumer",
                  style == "batch" ? 64 : 0);
    }
  }

  void redis_latency() {
    const auto params = [&](std::int64_t samples, std::int64_t pause_us) {
      return with(redis_params("await"),
                  {{"producers", 1}, {"concurrency", 16}, {"samples", samples}, {"pause_us", pause_us}, {"warmup", 50}});
    };
    const measurement ours =
        redis_row("latency", redis_latency_section, "a job every 5 ms", "latency", params(sized(300, 1'500), 5'000), "s");
    // asynq looks once a second: samples must be spread over many of its looks to be at random moments between them.
    measurement slow = ours;
    slow.params = params(sized(50, 400), 100'000);
    slow.params["warmup"] = 5;
    slow.rounds_at_most = quick_ ? 1 : 3;
    redis_rivals(slow, "a job every 100 ms, for it looks once a second");
    redis_bound(ours, "a job every 5 ms; the consumer waits in a blocking read", 0);
  }

  void redis_due() {
    const std::int64_t jobs = sized(20'000, 100'000);
    measurement ours = redis_row(
        "promotion", redis_promotion_section, fmt::format("{} jobs, put in batches", number_text(static_cast<double>(jobs))),
        "promotion",
        with(redis_params("batch"), {{"concurrency", 64}, {"jobs", jobs}, {"warmup", 1'000}, {"due_in_s", sized(2, 5)}}));
    suite_.rows.back().rounds_at_most = ours.rounds_at_most = quick_ ? 1 : 5;
    measurement awaited = ours;
    awaited.params = with(ours.params, {{"producer_style", "await"}, {"due_in_s", sized(3, 10)}});
    redis_rivals(awaited, "each awaited when it was put in");
    redis_without(ours, hiredis, "jobs that are due later", "hiredis has no jobs that are due later");

    // A minute for three rows; a short run has shown already who looks how often.
    if (quick_) return;
    ours = redis_row(
        "lateness", redis_lateness_section, "jobs due at irregular moments", "lateness",
        with(redis_params("await"), {{"concurrency", 16}, {"samples", 500}, {"ahead_ms", 1'000}, {"span_ms", 20'000}}), "s");
    suite_.rows.back().rounds_at_most = ours.rounds_at_most = 3;
    redis_rivals(ours, "jobs due at irregular moments");
    redis_without(ours, hiredis, "jobs that are due later", "hiredis has no jobs that are due later");
  }

  void redis_memory() {
    const std::int64_t jobs = sized(20'000, 200'000);
    const measurement ours =
        redis_row("memory", redis_memory_section, fmt::format("{} jobs", number_text(static_cast<double>(jobs))), "memory",
                  with(redis_params("await"), {{"jobs", jobs}, {"warmup", 1'000}}), "bytes");
    suite_.rows.back().rounds_at_most = quick_ ? 1 : 3;
    measurement once = ours;
    once.rounds_at_most = quick_ ? 1 : 3;
    redis_rivals(once, ours.title);
    redis_bound(once, "entries of a stream", 0);
  }

  void redis_waiting() {
    const std::int64_t many = sized(100'000, million);
    // Producers must be able to outrun the worker, or it eats up what stands there: ergon's put in batches.
    redis_waiting_rows(nullptr, "batch", many, sized(100'000, 400'000));
    for (const job_system& with : {asynq, chronos}) redis_waiting_rows(&with, "await", many, sized(20'000, 60'000));
  }
  void redis_waiting_rows(const job_system* peer, const std::string& style, std::int64_t many, std::int64_t jobs) {
    std::string baseline;
    for (const std::int64_t waiting : {std::int64_t{10'000}, many}) {
      const auto params = with(redis_params(style), {{"concurrency", 64},
                                                     {"jobs", jobs},
                                                     {"warmup", jobs / 10},
                                                     {"until", "handled"},
                                                     {"waiting", waiting},
                                                     {"window", 1'000}});
      measurement& m = redis_row(fmt::format("waiting-{}", waiting), redis_waiting_section,
                                 number_text(static_cast<double>(waiting)) + " waiting", "e2e", params);
      m.rounds_at_most = quick_ ? 1 : 3;
      if (peer != nullptr) {
        m.key += "-" + peer->name;
        m.system = peer->name;
        m.program = peer->program;
        for (const char* const ergons_own : {"threads", "producers_in"}) m.params.erase(ergons_own);
      }
      if (baseline.empty()) {
        baseline = m.key;
      } else {
        m.baseline = baseline;
        m.baseline_title = "10,000 waiting";
      }
    }
  }

  void redis_idle() {
    for (const auto& [figure, section, unit] :
         {std::tuple{"cpu", redis_idle_section, "s"}, {"commands", redis_commands_section, "commands"}}) {
      // A worker beats every five seconds: a short window counts too many commands, or too few.
      if (quick_ && unit == std::string_view{"commands"}) continue;
      measurement ours = redis_row(
          fmt::format("idle-{}", figure), section, "a worker of one queue, concurrency 16", "idle",
          with(redis_params("await"), {{"concurrency", 16}, {"seconds", sized(5, 20)}, {"warmup", 1'000}, {"figure", figure}}),
          unit);
      suite_.rows.back().rounds_at_most = ours.rounds_at_most = quick_ ? 1 : 3;
      redis_rivals(ours, ours.title);
      if (unit == std::string_view{"commands"}) {
        of_ergon(ours.key).remark =
            "Most are one script's look at every part of the queue, every five seconds, for what is due or was kept long enough; "
            "asynq asks "
            "for less, once a second";
      }
    }
  }

  bool quick_;
  suite suite_;
};

}  // namespace

suite make_queue_suite(bool quick) { return queue_suite{quick}.make(); }

}  // namespace ergon::bench
