// `hiredis` in the suite `queue`: the bare client library moving the bytes that ergon moves, as the bound of what a queue on streams can
// reach. Producers are threads with a connection each, which put in one entry per answer (`await`) or a pipeline of `--batch` (`batch`);
// one consumer thread reads, ticks off, acknowledges and deletes. It retries nothing, counts nothing, and a crash of its worker
// loses nobody but itself.
#include <sys/time.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <hiredis/hiredis.h>

#include "bench/driver/statistics.hpp"
#include "bench/systems/program.hpp"

namespace ergon::bench {
namespace {

constexpr std::uint64_t first_number = 1'000'000'000;
constexpr std::size_t digits = 10;
// As long as the keys and the bytes before the payload in ergon's entries.
const std::string key = "{ergon:default:0}:ready";
const std::string group = "workers";
constexpr std::size_t record_head_bytes = 11;
constexpr std::size_t number_at = record_head_bytes + std::string_view{R"({"number":)"}.size();
constexpr std::uint64_t fetched_at_once = 256;

struct free_reply {
  void operator()(redisReply* r) const noexcept { freeReplyObject(r); }
};
using reply = std::unique_ptr<redisReply, free_reply>;

class connection {
 public:
  explicit connection(const arguments& a) {
    constexpr std::string_view scheme = "redis://";
    const std::string url = a.text("redis");
    const auto colon = url.rfind(':');
    if (!url.starts_with(scheme) || colon < scheme.size()) throw bad_arguments("--redis must be redis://HOST:PORT");
    const std::string host = url.substr(scheme.size(), colon - scheme.size());
    context_.reset(redisConnect(host.c_str(), std::stoi(url.substr(colon + 1))));
    if (!context_ || context_->err != 0)
      throw std::runtime_error(fmt::format("{}: {}", url, context_ ? context_->errstr : "no memory"));
    redisSetTimeout(context_.get(), timeval{.tv_sec = 60, .tv_usec = 0});
  }

  void send(const std::vector<std::string_view>& words) {
    pointers_.clear();
    sizes_.clear();
    for (const std::string_view word : words) {
      pointers_.push_back(word.data());
      sizes_.push_back(word.size());
    }
    if (redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), pointers_.data(), sizes_.data()) != REDIS_OK)
      fail();
  }
  reply receive() {
    void* answer = nullptr;
    if (redisGetReply(context_.get(), &answer) != REDIS_OK) fail();
    reply r{static_cast<redisReply*>(answer)};
    if (r->type == REDIS_REPLY_ERROR) throw std::runtime_error(r->str);
    return r;
  }
  reply ask(const std::vector<std::string_view>& words) {
    send(words);
    return receive();
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(fmt::format("the connection: {}", context_->errstr)); }

  struct free_context {
    void operator()(redisContext* c) const noexcept { redisFree(c); }
  };
  std::unique_ptr<redisContext, free_context> context_;
  std::vector<const char*> pointers_;
  std::vector<std::size_t> sizes_;
};

// What threads shout when they fail; main throws it.
class trouble {
 public:
  void say(const std::string& what) {
    if (!said_.exchange(true)) {
      what_ = what;
      ready_.store(true);
    }
  }
  [[nodiscard]] bool any() const noexcept { return ready_.load(); }
  void check() const {
    if (any()) throw std::runtime_error(what_);
  }

 private:
  std::atomic<bool> said_{false};
  std::atomic<bool> ready_{false};
  std::string what_;
};

class body {
 public:
  body() : text_(record_head_bytes, 'r') {
    text_ += fmt::format(R"({{"number":{},"to":"{}"}})", first_number, std::string(71, 'a'));
  }
  std::string_view of(std::uint64_t number) {
    std::to_chars(text_.data() + number_at, text_.data() + number_at + digits, number);
    return text_;
  }

 private:
  std::string text_;
};

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::uint64_t number_in(const redisReply& record) {
  std::uint64_t n = 0;
  if (record.len >= number_at + digits) std::from_chars(record.str + number_at, record.str + number_at + digits, n);
  return n;
}

// Producers that keep their connections from one stretch of jobs to the next.
class producers {
 public:
  producers(const arguments& a, trouble& troubles)
      : batch_{a.text("producer_style") == "batch" ? a.number("batch") : 1}, troubles_{troubles} {
    for (std::uint64_t i = 0; i < a.number("producers"); ++i) connections_.push_back(std::make_unique<connection>(a));
  }

  /// Puts in the jobs up to number `last` and waits for the answers.
  void run(std::uint64_t last) {
    std::vector<std::jthread> threads;
    for (auto& c : connections_) {
      threads.emplace_back([this, last, &c] {
        try {
          produce(*c, last);
        } catch (const std::exception& e) {
          troubles_.say(e.what());
        }
      });
    }
    threads.clear();
    troubles_.check();
    next_.store(last + 1);
  }
  /// Puts in `jobs` one at a time, at irregular moments, and says in `sent` when.
  void run_paced(std::uint64_t jobs, std::uint64_t pause_us, std::vector<std::int64_t>& sent) {
    body bytes;
    const std::uint64_t least = pause_us / 5;
    for (std::uint64_t i = 1; i <= jobs; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds{least + scattered(i) % (2 * (pause_us - least))});
      const std::uint64_t n = next_.fetch_add(1);
      sent[n] = now_ns();
      (void)connections_.front()->ask({"XADD", key, "*", "r", bytes.of(first_number + n)});
      accepted_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_.load(); }

 private:
  void produce(connection& c, std::uint64_t last) {
    body bytes;
    for (;;) {
      const std::uint64_t first = next_.fetch_add(batch_);
      if (first > last) return;
      const std::uint64_t size = std::min(batch_, last - first + 1);
      for (std::uint64_t n = first; n < first + size; ++n) c.send({"XADD", key, "*", "r", bytes.of(first_number + n)});
      for (std::uint64_t i = 0; i < size; ++i) (void)c.receive();
      accepted_.fetch_add(size, std::memory_order_relaxed);
    }
  }

  std::uint64_t batch_;
  trouble& troubles_;
  std::vector<std::unique_ptr<connection>> connections_;
  std::atomic<std::uint64_t> next_{1};
  std::atomic<std::uint64_t> accepted_{0};
};

// One thread that reads, ticks off, acknowledges and deletes. `seen` belongs to it while it runs.
class consumer {
 public:
  consumer(const arguments& a, std::uint64_t jobs, trouble& troubles) : over_{a}, seen_(jobs + 1), troubles_{troubles} {
    (void)over_.ask({"XGROUP", "CREATE", key, group, "0", "MKSTREAM"});
  }
  void start() {
    thread_ = std::jthread{[this](const std::stop_token& stop) {
      try {
        while (!stop.stop_requested()) turn();
      } catch (const std::exception& e) {
        troubles_.say(e.what());
      }
    }};
  }
  void stop() {
    thread_.request_stop();
    thread_.join();
    troubles_.check();
  }

  /// Waits until `jobs` in all were ticked off.
  void wait_for(std::uint64_t jobs) const {
    while (handled_.load(std::memory_order_acquire) < jobs) {
      troubles_.check();
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }
  /// From now on it notes when each job came. Not while it runs.
  void note_arrivals() { arrived_.resize(seen_.size()); }
  /// After `stop`.
  [[nodiscard]] const std::vector<std::int64_t>& arrived() const noexcept { return arrived_; }
  [[nodiscard]] std::uint64_t handled() const noexcept { return handled_.load(); }
  /// After `stop`.
  [[nodiscard]] std::uint64_t wrong() const {
    return foreign_ + static_cast<std::uint64_t>(std::ranges::count_if(seen_, [](std::uint8_t times) { return times > 1; }));
  }

 private:
  void turn() {
    const reply came = over_.ask(
        {"XREADGROUP", "GROUP", group, "one", "COUNT", std::to_string(fetched_at_once), "BLOCK", "100", "STREAMS", key, ">"});
    if (came->type != REDIS_REPLY_ARRAY || came->elements == 0) return;
    const redisReply& entries = *came->element[0]->element[1];
    ack_.assign({"XACK", key, group});
    del_.assign({"XDEL", key});
    for (std::size_t i = 0; i < entries.elements; ++i) {
      const redisReply& entry = *entries.element[i];
      const redisReply& id = *entry.element[0];
      tick(number_in(*entry.element[1]->element[1]) - first_number);
      ack_.emplace_back(id.str, id.len);
      del_.emplace_back(id.str, id.len);
    }
    handled_.fetch_add(entries.elements, std::memory_order_release);
    over_.send(ack_);
    over_.send(del_);
    const auto count = static_cast<long long>(entries.elements);
    if (over_.receive()->integer != count || over_.receive()->integer != count)
      throw std::runtime_error("the server did not acknowledge all that was read");
  }
  void tick(std::uint64_t n) {
    if (n >= 1 && n < seen_.size()) {
      ++seen_[n];
      if (!arrived_.empty()) arrived_[n] = now_ns();
    } else {
      ++foreign_;
    }
  }

  connection over_;
  std::vector<std::uint8_t> seen_;
  std::vector<std::int64_t> arrived_;
  trouble& troubles_;
  std::uint64_t foreign_ = 0;
  std::vector<std::string_view> ack_;
  std::vector<std::string_view> del_;
  std::atomic<std::uint64_t> handled_{0};
  std::jthread thread_;
};

std::string hiredis_version() { return fmt::format("{}.{}.{}", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH); }

boost::json::object line_of(double value, const std::string& failure) {
  boost::json::object line;
  line["value"] = value;
  line["verified"] = failure.empty();
  if (!failure.empty()) line["failure"] = failure;
  line["about"] = about({{"hiredis", hiredis_version()}});
  return line;
}

std::string check_store(connection& c, std::uint64_t accepted, std::uint64_t wanted, std::uint64_t left) {
  const long long length = c.ask({"XLEN", key})->integer;
  if (accepted == wanted && length == static_cast<long long>(left)) return {};
  return fmt::format("of {} entries {} were accepted, {} are in the stream instead of {}", wanted, accepted, length, left);
}

// From the first enqueue to the last answer; nobody takes them.
boost::json::object enqueue(const arguments& a) {
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  trouble troubles;
  producers makers{a, troubles};
  makers.run(warmup);
  const server_load server{static_cast<pid_t>(a.number("server_pid"))};
  const stopwatch clock;
  makers.run(warmup + jobs);
  const double seconds = clock.seconds();
  const double server_seconds = server.seconds();
  connection c{a};
  auto line = line_of(static_cast<double>(jobs) / seconds, check_store(c, makers.accepted(), warmup + jobs, warmup + jobs));
  line["server_busy"] = server_seconds / seconds;
  return line;
}

// From the first enqueue until the last is ticked off.
boost::json::object e2e(const arguments& a) {
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  trouble troubles;
  consumer taker{a, warmup + jobs, troubles};
  producers makers{a, troubles};
  taker.start();
  makers.run(warmup);
  taker.wait_for(warmup);
  const server_load server{static_cast<pid_t>(a.number("server_pid"))};
  const stopwatch clock;
  makers.run(warmup + jobs);
  taker.wait_for(warmup + jobs);
  const double seconds = clock.seconds();
  const double server_seconds = server.seconds();
  taker.stop();
  connection c{a};
  std::string failure = check_store(c, makers.accepted(), warmup + jobs, 0);
  if (taker.handled() != warmup + jobs || taker.wrong() != 0)
    failure = fmt::format("of {} entries {} came, {} of them twice or unknown", warmup + jobs, taker.handled(), taker.wrong());
  auto line = line_of(static_cast<double>(jobs) / seconds, failure);
  line["server_busy"] = server_seconds / seconds;
  return line;
}

// From the moment before the XADD until the consumer has the entry, one at a time.
boost::json::object latency(const arguments& a) {
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t samples = a.number("samples");
  trouble troubles;
  consumer taker{a, warmup + samples, troubles};
  taker.note_arrivals();
  producers makers{a, troubles};
  std::vector<std::int64_t> sent(warmup + samples + 1);
  taker.start();
  makers.run_paced(warmup, a.number("pause_us"), sent);
  taker.wait_for(warmup);
  makers.run_paced(samples, a.number("pause_us"), sent);
  taker.wait_for(warmup + samples);
  taker.stop();
  std::vector<double> milliseconds;
  for (std::uint64_t n = warmup + 1; n <= warmup + samples; ++n)
    milliseconds.push_back(static_cast<double>(taker.arrived()[n] - sent[n]) / 1e6);
  connection c{a};
  std::string failure = check_store(c, makers.accepted(), warmup + samples, 0);
  if (taker.wrong() != 0) failure = fmt::format("{} entries came twice or are unknown", taker.wrong());
  const double p99 = percentile(milliseconds, 99);
  auto line = line_of(p99 / 1000, failure);
  line["latency_ms"] =
      boost::json::object{{"p50", percentile(milliseconds, 50)}, {"p95", percentile(milliseconds, 95)}, {"p99", p99}};
  return line;
}

double used_memory(connection& c) {
  const reply info = c.ask({"INFO", "memory"});
  const std::string_view text{info->str, info->len};
  constexpr std::string_view field = "\nused_memory:";
  const auto at = text.find(field);
  if (at == std::string_view::npos) throw std::runtime_error("the server's INFO has no used_memory");
  return std::stod(std::string{text.substr(at + field.size(), 20)});
}

// What a waiting entry takes of the server's memory.
boost::json::object memory(const arguments& a) {
  const std::uint64_t warmup = a.number("warmup");
  const std::uint64_t jobs = a.number("jobs");
  trouble troubles;
  producers makers{a, troubles};
  connection c{a};
  makers.run(warmup);
  const double before = used_memory(c);
  makers.run(warmup + jobs);
  const double after = used_memory(c);
  return line_of((after - before) / static_cast<double>(jobs), check_store(c, makers.accepted(), warmup + jobs, warmup + jobs));
}

}  // namespace
}  // namespace ergon::bench

int main(int argc, char** argv) {
  using namespace ergon::bench;
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "enqueue") return enqueue(a);
    if (a.scenario() == "e2e") return e2e(a);
    if (a.scenario() == "latency") return latency(a);
    if (a.scenario() == "memory") return memory(a);
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: enqueue, e2e, latency, memory", a.scenario()));
  });
}
