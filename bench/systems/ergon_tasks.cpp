// ergon's runtime in the suite `tasks`. Every default is on: handles, cancellation, names, enumeration.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ergon/runtime/channel.hpp>
#include <ergon/runtime/fork_join.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/tcp.hpp>
#include <ergon/runtime/timer.hpp>

#include "bench/systems/tasks.hpp"

namespace {

using namespace ergon::bench;
using ergon::task;

std::atomic<std::uint64_t> heap_allocations{0};

// Of the whole program, so that a task's frame holds only what every task holds.
std::atomic<std::uint64_t> ended{0};
std::chrono::nanoseconds pause{0};
std::uint64_t pauses = 1;

task<void> sleeper() {
  co_await ergon::sleep_for(pause);
  ended.fetch_add(1, std::memory_order_relaxed);
}
task<void> sleeper_in_turns() {
  for (std::uint64_t i = 0; i < pauses; ++i) {
    co_await ergon::sleep_for(pause);
  }
  ended.fetch_add(1, std::memory_order_relaxed);
}
task<void> sleeper_with_state() {
  std::array<volatile unsigned char, 64> state{};
  for (std::uint64_t i = 0; i < pauses; ++i) {
    for (auto& byte : state) byte = static_cast<unsigned char>(byte + 1);
    co_await ergon::sleep_for(pause);
  }
  const bool kept = std::ranges::all_of(state, [](unsigned char byte) { return byte == pauses; });
  ended.fetch_add(kept ? 1 : 0, std::memory_order_relaxed);
}

task<void> body_of(const std::string& body) {
  if (body == "one") return sleeper();
  if (body == "turns") return sleeper_in_turns();
  if (body == "state") return sleeper_with_state();
  throw bad_arguments(fmt::format("--body {}: must be one, turns or state", body));
}

double resident_mb() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) / (1 << 20);
}

boost::json::object line_of(double value, bool verified, const std::string& failure) {
  return task_line(value, verified, failure, {});
}

task<void> spawn_and_join(std::uint64_t tasks, std::string body, bool in_group) {
  if (in_group) {
    co_await ergon::with_group([&](ergon::task_group& group) -> task<void> {
      for (std::uint64_t i = 0; i < tasks; ++i) group.spawn(body_of(body));
      co_return;
    });
    co_return;
  }
  std::vector<ergon::join_handle<void>> handles;
  handles.reserve(tasks);
  for (std::uint64_t i = 0; i < tasks; ++i) handles.push_back(ergon::spawn(body_of(body)));
  for (auto& handle : handles) co_await handle;
}

void take_pauses(const arguments& a) {
  pause = std::chrono::milliseconds{a.number("pause_ms")};
  pauses = a.number("pauses", 1);
}

std::string not_all(std::uint64_t tasks) { return fmt::format("of {} tasks {} ended as they should", tasks, ended.load()); }

// The peak of memory, with the time beside it.
boost::json::object sleep(const arguments& a) {
  take_pauses(a);
  const std::uint64_t tasks = a.number("tasks");
  const stopwatch clock;
  {
    ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
    rt.block_on(spawn_and_join(tasks, a.text("body"), a.text("joined") == "group"));
  }
  return sleep_line(a, clock.seconds(), ended, {});
}

// What stays a second after all have ended, in a program that lives on.
boost::json::object after(const arguments& a) {
  take_pauses(a);
  const std::uint64_t tasks = a.number("tasks");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  rt.block_on(spawn_and_join(tasks, a.text("body"), false));
  rt.block_on([]() -> task<void> { co_await ergon::sleep_for(std::chrono::seconds{1}); }());
  return line_of(resident_mb(), ended == tasks, not_all(tasks));
}

boost::json::object cancel(const arguments& a) {
  pause = std::chrono::hours{1};
  const std::uint64_t tasks = a.number("tasks");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  double seconds = 0;
  std::uint64_t stopped = 0;
  rt.block_on([](std::uint64_t tasks, double& seconds, std::uint64_t& stopped) -> task<void> {
    std::vector<ergon::join_handle<void>> handles;
    handles.reserve(tasks);
    for (std::uint64_t i = 0; i < tasks; ++i) handles.push_back(ergon::spawn(sleeper()));
    co_await ergon::sleep_for(std::chrono::milliseconds{500});
    const stopwatch clock;
    for (auto& handle : handles) handle.cancel();
    for (auto& handle : handles) {
      while (!handle.done()) co_await ergon::yield();
      ++stopped;
    }
    seconds = clock.seconds();
  }(tasks, seconds, stopped));
  return line_of(seconds, stopped == tasks && ended == 0, fmt::format("of {} tasks {} were stopped", tasks, stopped));
}

// The longest time that a task which is always ready waits for its turn, while the timers of many others come down and expire.
boost::json::object stall(const arguments& a) {
  take_pauses(a);
  const std::uint64_t tasks = a.number("tasks");
  ergon::runtime rt{{.threads = 1}};
  double longest = 0;
  rt.block_on([](std::uint64_t tasks, double& longest) -> task<void> {
    std::vector<ergon::join_handle<void>> handles;
    handles.reserve(tasks);
    for (std::uint64_t i = 0; i < tasks; ++i) handles.push_back(ergon::spawn(sleeper()));
    co_await ergon::yield();
    auto last = std::chrono::steady_clock::now();
    std::chrono::nanoseconds most{0};
    while (ended.load(std::memory_order_relaxed) < tasks) {
      co_await ergon::yield();
      const auto now = std::chrono::steady_clock::now();
      most = std::max<std::chrono::nanoseconds>(most, now - last);
      last = now;
    }
    longest = std::chrono::duration<double>(most).count();
    for (auto& handle : handles) co_await handle;
  }(tasks, longest));
  return line_of(longest, ended == tasks, not_all(tasks));
}

// Tasks that end at once, spawned and joined a thousand at a time.
boost::json::object spawn(const arguments& a) {
  const std::uint64_t tasks = a.number("tasks");
  constexpr std::uint64_t crowd = 1'000;
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  double seconds = 0;
  rt.block_on([](std::uint64_t tasks, double& seconds) -> task<void> {
    std::vector<ergon::join_handle<void>> handles;
    const auto round = [](std::vector<ergon::join_handle<void>>& all) -> task<void> {
      for (std::uint64_t i = 0; i < crowd; ++i) {
        all.push_back(ergon::spawn([]() -> task<void> {
          ended.fetch_add(1, std::memory_order_relaxed);
          co_return;
        }()));
      }
      for (auto& handle : all) co_await handle;
      all.clear();
    };
    co_await round(handles);
    const stopwatch clock;
    for (std::uint64_t done = crowd; done < tasks; done += crowd) co_await round(handles);
    seconds = clock.seconds();
  }(tasks, seconds));
  return line_of(static_cast<double>(tasks - crowd) / seconds, ended == tasks, not_all(tasks));
}

boost::json::object channel(const arguments& a) {
  const std::uint64_t items = a.number("items");
  const std::uint64_t producers = a.number("producers");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  std::uint64_t sum = 0;
  double seconds = 0;
  rt.block_on([](std::uint64_t items, std::uint64_t producers, std::uint64_t room, std::uint64_t& sum,
                 double& seconds) -> task<void> {
    ergon::channel<std::uint64_t> pipe{room};
    const stopwatch clock;
    std::vector<ergon::join_handle<void>> sending;
    for (std::uint64_t p = 0; p < producers; ++p) {
      sending.push_back(ergon::spawn([](ergon::channel<std::uint64_t>& pipe, std::uint64_t from, std::uint64_t to) -> task<void> {
        for (std::uint64_t i = from; i < to; ++i) co_await pipe.send(i);
      }(pipe, items * p / producers, items * (p + 1) / producers)));
    }
    for (std::uint64_t i = 0; i < items; ++i) sum += *co_await pipe.receive();
    seconds = clock.seconds();
    for (auto& handle : sending) co_await handle;
  }(items, producers, a.number("room"), sum, seconds));
  return channel_line(items, seconds, sum, {});
}

task<std::uint64_t> fib_through_handles(std::uint64_t n) {
  if (n < 2) co_return n;
  auto left = ergon::spawn(fib_through_handles(n - 1));
  const std::uint64_t right = co_await fib_through_handles(n - 2);
  co_return co_await left + right;
}
task<std::uint64_t> fib_forked(std::uint64_t n) {
  if (n < 2) co_return n;
  const auto [left, right] = co_await ergon::fork_join(fib_forked(n - 1), fib_forked(n - 2));
  co_return left + right;
}
std::uint64_t plain_fib(std::uint64_t n) {
  std::uint64_t a = 0;
  std::uint64_t b = 1;
  for (; n > 0; --n) a = std::exchange(b, a + b);
  return a;
}
task<std::uint64_t> skynet_of(std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) co_return first;
  const auto child = [&](std::uint64_t i) { return skynet_of(first + i * (leaves / 10), leaves / 10); };
  const auto sums = co_await ergon::fork_join(child(0), child(1), child(2), child(3), child(4), child(5), child(6), child(7),
                                              child(8), child(9));
  co_return std::apply([](auto... sum) { return (sum + ...); }, sums);
}

// Once small, to have threads and memory, then measured.
template <class Make>
boost::json::object computed(const arguments& a, std::uint64_t right, task<std::uint64_t> warm_up, Make make) {
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  rt.block_on(std::move(warm_up));
  const stopwatch clock;
  const std::uint64_t result = rt.block_on(make());
  const double seconds = clock.seconds();
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return task_line(seconds, result == right, fmt::format("{} came out, and {} is right", result, right), {},
                   fmt::format("peak {:.0f} MB", static_cast<double>(use.ru_maxrss) / 1024));
}

boost::json::object fib(const arguments& a) {
  const std::uint64_t n = a.number("n");
  const bool forked = a.text("body") == "fork";
  return computed(a, plain_fib(n), fib_forked(20), [n, forked] { return forked ? fib_forked(n) : fib_through_handles(n); });
}

boost::json::object skynet(const arguments& a) {
  const std::uint64_t leaves = a.number("leaves");
  return computed(a, leaves * (leaves - 1) / 2, fib_forked(20), [leaves] { return skynet_of(0, leaves); });
}

constexpr std::size_t message_size = 64;

task<void> echo(ergon::tcp_stream with) {
  std::array<std::byte, message_size> message{};
  try {
    for (;;) {
      co_await with.read_exact(message);
      co_await with.write_all(message);
    }
  } catch (const ergon::error&) {
    // The client closes when it has had all its echoes.
  }
}

task<void> ask(ergon::endpoint server, std::uint64_t round_trips) {
  ergon::tcp_stream with = co_await ergon::tcp_stream::connect(server);
  std::array<std::byte, message_size> sent{};
  std::array<std::byte, message_size> got{};
  std::uint64_t right = 0;
  for (std::uint64_t i = 0; i < round_trips; ++i) {
    sent[i % message_size] = static_cast<std::byte>(i);
    co_await with.write_all(sent);
    co_await with.read_exact(got);
    right += sent == got ? 1 : 0;
  }
  ended.fetch_add(right, std::memory_order_relaxed);
}

// Clients and their server in one process, on the same threads.
boost::json::object pingpong(const arguments& a) {
  const std::uint64_t connections = a.number("connections");
  const std::uint64_t round_trips = a.number("round_trips");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  double seconds = 0;
  rt.block_on([](std::uint64_t connections, std::uint64_t round_trips, double& seconds) -> task<void> {
    auto listener = ergon::tcp_listener::bind({});
    const stopwatch clock;
    co_await ergon::with_group([&](ergon::task_group& group) -> task<void> {
      for (std::uint64_t c = 0; c < connections; ++c) {
        group.spawn(ask(listener.local_endpoint(), round_trips * (c + 1) / connections - round_trips * c / connections));
        group.spawn(echo(co_await listener.accept()));
      }
    });
    seconds = clock.seconds();
  }(connections, round_trips, seconds));
  return line_of(static_cast<double>(round_trips) / seconds, ended == round_trips,
                 fmt::format("of {} echoes {} were what was sent", round_trips, ended.load()));
}

// Timers that no task waits for: bytes of memory for each, what is theirs in the object included.
boost::json::object timers(const arguments& a) {
  struct counting final : ergon::timer_callback {
    void expired() noexcept override { ended.fetch_add(1, std::memory_order_relaxed); }
  };
  const std::uint64_t count = a.number("timers");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  rt.block_on([]() -> task<void> { co_await ergon::yield(); }());
  const double before = resident_mb();
  std::vector<counting> all(count);
  const stopwatch clock;
  const auto span = std::chrono::milliseconds{a.number("pause_ms")};
  for (auto& t : all) t.start(rt, span);
  const double each = (resident_mb() - before) * (1 << 20) / static_cast<double>(count);
  rt.block_on([](std::uint64_t count, std::chrono::milliseconds span) -> task<void> {
    co_await ergon::sleep_for(span);
    while (ended.load(std::memory_order_relaxed) < count) co_await ergon::sleep_for(std::chrono::milliseconds{1});
  }(count, span));
  return task_line(each, ended == count, not_all(count), {}, fmt::format("{:.2f} s until the last was called", clock.seconds()));
}

// What the heap is asked for by a spawn, a sleep and a join, once everything is warm; the slabs of frames included.
boost::json::object allocations(const arguments& a) {
  const std::uint64_t tasks = a.number("tasks");
  ergon::runtime rt{{.threads = static_cast<unsigned>(a.number("threads"))}};
  std::uint64_t counted = 0;
  rt.block_on([](std::uint64_t tasks, std::uint64_t& counted) -> task<void> {
    const auto some = [](std::uint64_t tasks) -> task<void> {
      for (std::uint64_t i = 0; i < tasks; ++i) {
        auto handle = ergon::spawn([]() -> task<void> {
          co_await ergon::sleep_for(std::chrono::nanoseconds{1});
          ended.fetch_add(1, std::memory_order_relaxed);
        }());
        co_await handle;
      }
    };
    co_await some(tasks);
    const std::uint64_t before = heap_allocations.load();
    co_await some(tasks);
    counted = heap_allocations.load() - before;
  }(tasks, counted));
  return line_of(static_cast<double>(counted) / static_cast<double>(tasks), ended == 2 * tasks, not_all(2 * tasks));
}

}  // namespace

// Counts what the program takes from the heap.
void* operator new(std::size_t size) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const got = std::malloc(size)) return got;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

int main(int argc, char** argv) {
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "sleep") return sleep(a);
    if (a.scenario() == "after") return after(a);
    if (a.scenario() == "cancel") return cancel(a);
    if (a.scenario() == "stall") return stall(a);
    if (a.scenario() == "spawn") return spawn(a);
    if (a.scenario() == "channel") return channel(a);
    if (a.scenario() == "fork_join_fib") return fib(a);
    if (a.scenario() == "fork_join_skynet") return skynet(a);
    if (a.scenario() == "ping_pong") return pingpong(a);
    if (a.scenario() == "timers") return timers(a);
    if (a.scenario() == "allocations") return allocations(a);
    throw bad_arguments(
        fmt::format("there is no scenario '{}'; there is: sleep, after, cancel, stall, spawn, channel, fork_join_fib, "
                    "fork_join_skynet, ping_pong, "
                    "timers, allocations",
                    a.scenario()));
  });
}
