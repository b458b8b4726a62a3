// oneTBB in the suite `tasks`: fork and join by task_group, in an arena of `--threads` threads. A task for every call: no cut-off below
// which the program goes on by itself.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include <array>
#include <cstdint>
#include <utility>

#include "bench/systems/tasks.hpp"

namespace {

using namespace ergon::bench;

// One branch is a task, the other is computed here meanwhile.
std::uint64_t fib_of(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  tbb::task_group group;
  group.run([&left, n] { left = fib_of(n - 1); });
  const std::uint64_t right = fib_of(n - 2);
  group.wait();
  return left + right;
}

std::uint64_t plain_fib(std::uint64_t n) {
  std::uint64_t a = 0;
  std::uint64_t b = 1;
  for (; n > 0; --n) {
    a += b;
    std::swap(a, b);
  }
  return a;
}

// The sum of the numbers of the leaves below a node: `first` is the lowest, `leaves` how many.
std::uint64_t skynet_of(std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) return first;
  std::array<std::uint64_t, 10> sums{};
  const std::uint64_t each = leaves / sums.size();
  tbb::task_group group;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    group.run([&sum = sums[i], from = first + i * each, each] { sum = skynet_of(from, each); });
  }
  group.wait();
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

boost::json::object libraries() { return {{"onetbb", fmt::format("{}.{}", TBB_VERSION_MAJOR, TBB_VERSION_MINOR)}}; }

// Measures `work`, once the threads are there.
template <class Work>
boost::json::object measured(const arguments& a, std::uint64_t wanted, Work work) {
  const std::uint64_t threads = a.number("threads");
  const tbb::global_control most{tbb::global_control::max_allowed_parallelism, threads};
  tbb::task_arena arena{static_cast<int>(threads)};
  arena.execute([&] { fib_of(20); });
  std::uint64_t result = 0;
  const stopwatch clock;
  arena.execute([&] { result = work(); });
  return task_line(clock.seconds(), result == wanted, fmt::format("the result is {}, it should be {}", result, wanted),
                   libraries());
}

boost::json::object fib(const arguments& a) {
  const std::uint64_t n = a.number("n");
  return measured(a, plain_fib(n), [n] { return fib_of(n); });
}

boost::json::object skynet(const arguments& a) {
  const std::uint64_t leaves = a.number("leaves");
  std::uint64_t whole = 1;
  while (whole < leaves) whole *= 10;
  if (whole != leaves) throw bad_arguments(fmt::format("--leaves {}: must be a power of ten", leaves));
  return measured(a, leaves * (leaves - 1) / 2, [leaves] { return skynet_of(0, leaves); });
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "fork_join_fib") return fib(a);
    if (a.scenario() == "fork_join_skynet") return skynet(a);
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: fork_join_fib, fork_join_skynet", a.scenario()));
  });
}
