// The suite `tasks`: coroutines that wait, and what carries them, against the runtimes of other languages and libraries. Memory and
// time stand side by side, for either alone says little. The bars are those that the project set itself before it measured.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/driver/results.hpp"
#include "bench/driver/suite.hpp"

namespace ergon::bench {
namespace {

constexpr std::int64_t million = 1'000'000;

struct peer {
  std::string system;
  std::string program;
  std::string what;
};
const peer asio{"asio", "bench-asio_tasks", "awaitables, detached, a steady_timer each"};
const peer go{"go", "bench-go_tasks", "goroutines under a WaitGroup"};
const peer tokio{"tokio", "bench-tokio_tasks", "joined through handles, multi-thread runtime"};
const peer async_std{"async-std", "bench-async_std_tasks", "joined through handles"};
const peer java{"java", "bench-java_tasks", "virtual threads, joined"};
const peer node{"node", "bench-node_tasks", "promises under Promise.all, one thread"};
const peer python{"python", "bench-python_tasks", "coroutines under asyncio.gather, one thread"};
const peer onetbb{"onetbb", "bench-tbb_tasks", "task_group"};

class tasks_suite {
 public:
  explicit tasks_suite(bool quick) : quick_{quick}, pause_ms_{quick ? 3'000 : 10'000} {
    suite_.name = "tasks";
    suite_.rounds = quick ? 1 : 3;
    suite_.budget_seconds = quick ? 170 : 0;
  }

  suite make() {
    waiting();
    turns();
    small();
    the_rest();
    channels();
    forks();
    sockets();
    return std::move(suite_);
  }

 private:
  measurement& add(const std::string& section, std::string key, std::string title, std::string scenario,
                   boost::json::object params, std::string unit) {
    measurement m{
        .key = std::move(key), .section = section, .title = std::move(title), .scenario = std::move(scenario), .system = "ergon"};
    m.params = std::move(params);
    m.better = unit.ends_with("/s") ? direction::higher : direction::lower;
    m.unit = std::move(unit);
    m.program = "bench-ergon_tasks";
    suite_.rows.push_back(std::move(m));
    return suite_.rows.back();
  }

  // The same row for a peer; ergon's is what it is compared with.
  measurement& against(const measurement& ours, const peer& with) {
    measurement m = ours;
    m.key = fmt::format("{}-{}", ours.key, with.system);
    m.title = with.what;
    m.system = with.system;
    m.program = with.program;
    m.must.reset();
    m.baseline = ours.key;
    m.baseline_title = "ergon";
    m.params.erase("body");
    m.params.erase("joined");
    suite_.rows.push_back(std::move(m));
    return suite_.rows.back();
  }

  // The same, as what ergon's rows of that section are compared with.
  void yardstick(const measurement& ours, const peer& with, std::string title) {
    measurement& m = against(ours, with);
    m.title = std::move(title);
    m.baseline.clear();
    m.baseline_title.clear();
  }

  // ergon's bar against the peer of that key.
  static void must_beat(measurement& ours, const std::string& key, const peer& with, double ratio) {
    ours.baseline = key;
    ours.baseline_title = with.system;
    ours.must = {.what = bar::kind::ratio_at_least, .value = ratio};
  }

  // Those that sleep; a short run leaves out who takes long.
  [[nodiscard]] std::vector<peer> sleepers() const {
    return quick_ ? std::vector{asio, go, tokio} : std::vector{asio, go, tokio, async_std, java};
  }

  [[nodiscard]] boost::json::object sleep_params(std::int64_t tasks, int threads, const std::string& figure) const {
    return {{"tasks", tasks}, {"threads", threads},  {"pause_ms", pause_ms_},
            {"body", "one"},  {"joined", "handles"}, {"figure", figure}};
  }

  static bar at_most(double value, double stretch = 0) {
    return {.what = bar::kind::at_most, .value = value, .stretch = stretch};
  }

  void waiting() {
    const std::string memory = fmt::format("A million tasks that sleep {} s: peak of memory", pause_ms_ / 1000);
    measurement ours =
        add(memory, "sleep-memory", "joined through handles, two threads", "sleep", sleep_params(million, 2, "memory"), "MB");
    suite_.rows.back().must = at_most(110, 90);
    auto grouped = sleep_params(million, 2, "memory");
    grouped["joined"] = "group";
    add(memory, "sleep-memory-group", "children of a group, two threads", "sleep", std::move(grouped), "MB").must = at_most(120);
    all_sleepers(ours);

    const std::string time =
        fmt::format("A million tasks that sleep {} s: from the first spawn to the last end", pause_ms_ / 1000);
    ours = add(time, "sleep-time", "joined through handles, two threads", "sleep", sleep_params(million, 2, "seconds"), "s");
    const double bar_s = static_cast<double>(pause_ms_) / 1000 + 0.3;
    suite_.rows.back().must = at_most(bar_s);
    add(time, "sleep-time-one", "joined through handles, one thread", "sleep", sleep_params(million, 1, "seconds"), "s").must =
        at_most(bar_s);
    all_sleepers(ours);
  }

  void all_sleepers(const measurement& ours) {
    for (const peer& p : sleepers()) against(ours, p);
    against(ours, node);
    // Three quarters of a minute, and ten sleeps would take several.
    if (!quick_) against(ours, python).rounds_at_most = 1;
  }

  void turns() {
    const std::int64_t pauses = quick_ ? 3 : 10;
    const std::string section = fmt::format("A million tasks that sleep a second {} times: peak of memory", pauses);
    const auto params = [&](const std::string& body, const std::string& figure) {
      auto p = sleep_params(million, 2, figure);
      p["pause_ms"] = 1'000;
      p["pauses"] = pauses;
      p["body"] = body;
      return p;
    };
    const measurement ours = add(section, "turns-memory", "two threads", "sleep", params("turns", "memory"), "MB");
    suite_.rows.back().must = at_most(130);
    add(section, "turns-memory-state", "and keep 64 bytes meanwhile", "sleep", params("state", "memory"), "MB").must =
        at_most(200);
    for (const peer& p : sleepers()) against(ours, p);
    const std::string time =
        fmt::format("A million tasks that sleep a second {} times: from the first spawn to the last end", pauses);
    const measurement timed = add(time, "turns-time", "two threads", "sleep", params("turns", "seconds"), "s");
    suite_.rows.back().must = at_most(static_cast<double>(pauses) + 0.4);
    for (const peer& p : sleepers()) against(timed, p);
  }

  void small() {
    const std::string section = fmt::format("Fewer tasks that sleep {} s: peak of memory", quick_ ? 1 : 10);
    for (const auto& [tasks, most] : {std::pair{1, 6}, {10'000, 7}, {100'000, 16}}) {
      auto params = sleep_params(tasks, 2, "memory");
      params["pause_ms"] = quick_ ? 1'000 : 10'000;
      add(section, fmt::format("sleep-memory-{}", tasks), fmt::format("{}, joined through handles", number_text(tasks)), "sleep",
          std::move(params), "MB")
          .must = at_most(most);
    }
  }

  void the_rest() {
    measurement ours =
        add("A second after a million tasks have ended: memory of the program that lives on", "after", "two threads", "after",
            {{"tasks", million}, {"threads", 2}, {"pause_ms", 1'000}, {"body", "one"}}, "MB");
    suite_.rows.back().must = at_most(25);
    against(ours, tokio);
    ours = add("Cancel a million sleeping tasks, until the last has ended", "cancel", "two threads", "cancel",
               {{"tasks", million}, {"threads", 2}}, "s");
    suite_.rows.back().must = at_most(0.3);
    against(ours, tokio).title = "abort, and await the handles";
    const std::string stall = "The longest wait of a task that is always ready, beside sleeping ones, one thread";
    add(stall, "stall", "1,000,000 sleeping tasks", "stall", {{"tasks", million}, {"pause_ms", 3'000}}, "s").must =
        at_most(0.002);
    if (!quick_) {
      add(stall, "stall-10m", "10,000,000 sleeping tasks", "stall", {{"tasks", 10 * million}, {"pause_ms", 10'000}}, "s").must =
          at_most(0.005);
    }
    add("Timers that no task waits for: memory of each", "timers", "1,000,000 callbacks, two threads", "timers",
        {{"timers", million}, {"threads", 2}, {"pause_ms", 2'000}}, "bytes")
        .must = at_most(50);
    add("Heap allocations of a spawn, a sleep and a join, once warm", "allocations", "two threads", "allocations",
        {{"tasks", 100'000}, {"threads", 2}}, "allocations")
        .must = at_most(0);
    ours = add("Spawn and join tasks that end at once, a thousand at a time", "spawn", "one thread", "spawn",
               {{"tasks", 5 * million}, {"threads", 1}}, "tasks/s");
    for (const peer& p : {tokio, async_std}) against(ours, p).title = "one worker";
  }

  void channels() {
    for (const int producers : {1, 4}) {
      const std::string section =
          fmt::format("A bounded channel, {} to one receiver", producers == 1 ? "one sender" : "four senders");
      const measurement ours = add(
          section, fmt::format("channel-{}", producers), "room for 1,024, two threads", "channel",
          {{"items", quick_ ? 3 * million : 10 * million}, {"producers", producers}, {"room", 1'024}, {"threads", 2}}, "items/s");
      struct rival {
        const peer& with;
        const char* channel;
        double must;
      };
      for (const auto& [with, channel, must] :
           {rival{asio, "experimental::concurrent_channel", 3}, rival{go, "chan", 1}, rival{tokio, "sync::mpsc", 1},
            rival{async_std, "channel::bounded", 0}, rival{java, "ArrayBlockingQueue", 0}}) {
        measurement& m = against(ours, with);
        m.title = channel;
        if (must > 0) m.must = {.what = bar::kind::baseline_ratio_at_least, .value = must};
      }
    }
  }

  // What does nothing but fork and join.
  void forks() {
    const std::string fib = "Fork and join: the 36th Fibonacci number, a task for each of the 48 million calls";
    const boost::json::object params{{"n", 36}, {"threads", 2}};
    const auto with_body = [&](const char* body) {
      auto p = params;
      p["body"] = body;
      return p;
    };
    must_beat(
        add(fib, "fib-handles", "spawned and joined through handles, two threads", "fork_join_fib", with_body("handles"), "s"),
        "fib-onetbb", onetbb, 1.4);
    measurement& forked = add(fib, "fib-fork", "fork_join, two threads", "fork_join_fib", with_body("fork"), "s");
    must_beat(forked, "fib-onetbb", onetbb, 1.8);
    measurement ours = forked;
    ours.key = "fib";
    yardstick(ours, onetbb, "task_group, two threads");

    const std::string skynet = "Fork and join: skynet, a tree of ten children per node with a million leaves";
    must_beat(add(skynet, "skynet", "two threads", "fork_join_skynet", {{"leaves", million}, {"threads", 2}}, "s"),
              "skynet-onetbb", onetbb, 1.8);
    ours = suite_.rows.back();
    yardstick(ours, onetbb, "task_group, two threads");
    against(ours, go).title = "a goroutine for each node, sums through channels";
  }

  void sockets() {
    const std::int64_t round_trips = quick_ ? 200'000 : 1'000'000;
    const std::string section =
        fmt::format("{} round trips of 64 bytes over loopback TCP, clients and server on the same threads",
                    number_text(static_cast<double>(round_trips)));
    must_beat(add(section, "pingpong", "100 connections, two threads", "ping_pong",
                  {{"connections", 100}, {"round_trips", round_trips}, {"threads", 2}}, "round trips/s"),
              "pingpong-asio", asio, 1);
    const measurement ours = suite_.rows.back();
    yardstick(ours, asio, "awaitables, an io_context for each thread");
    against(ours, go).title = "net.Conn";
    against(ours, tokio).title = "net::TcpStream";
  }

  bool quick_;
  std::int64_t pause_ms_;
  suite suite_;
};

}  // namespace

suite make_tasks_suite(bool quick) { return tasks_suite{quick}.make(); }

}  // namespace ergon::bench
