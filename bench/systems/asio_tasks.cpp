// Boost.Asio's awaitables in the suite `tasks`: one io_context, run by `--threads` threads, a steady_timer in each coroutine.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/version.hpp>

#include "bench/systems/tasks.hpp"

namespace {

using namespace ergon::bench;
namespace asio = boost::asio;

std::atomic<std::uint64_t> ended{0};
std::chrono::milliseconds pause_span{0};
std::uint64_t pauses = 1;

asio::awaitable<void> sleeper() {
  asio::steady_timer timer{co_await asio::this_coro::executor};
  for (std::uint64_t i = 0; i < pauses; ++i) {
    timer.expires_after(pause_span);
    co_await timer.async_wait(asio::use_awaitable);
  }
  ended.fetch_add(1, std::memory_order_relaxed);
}

void run(asio::io_context& context, std::uint64_t threads) {
  std::vector<std::jthread> others;
  for (std::uint64_t i = 1; i < threads; ++i) others.emplace_back([&] { context.run(); });
  context.run();
}

boost::json::object libraries() {
  return {{"boost", fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)}};
}

boost::json::object sleep(const arguments& a) {
  pause_span = std::chrono::milliseconds{a.number("pause_ms")};
  pauses = a.number("pauses", 1);
  const std::uint64_t tasks = a.number("tasks");
  const stopwatch clock;
  {
    asio::io_context context{static_cast<int>(a.number("threads"))};
    for (std::uint64_t i = 0; i < tasks; ++i) asio::co_spawn(context, sleeper(), asio::detached);
    run(context, a.number("threads"));
  }
  return sleep_line(a, clock.seconds(), ended, libraries());
}

using pipe = asio::experimental::concurrent_channel<void(boost::system::error_code, std::uint64_t)>;

asio::awaitable<void> send(pipe& to, std::uint64_t from, std::uint64_t until) {
  for (std::uint64_t i = from; i < until; ++i) co_await to.async_send({}, i, asio::use_awaitable);
}
asio::awaitable<void> receive(pipe& from, std::uint64_t items, std::uint64_t& sum) {
  for (std::uint64_t i = 0; i < items; ++i) sum += co_await from.async_receive(asio::use_awaitable);
}

boost::json::object channel(const arguments& a) {
  const std::uint64_t items = a.number("items");
  const std::uint64_t producers = a.number("producers");
  std::uint64_t sum = 0;
  asio::io_context context{static_cast<int>(a.number("threads"))};
  pipe between{context, a.number("room")};
  const stopwatch clock;
  for (std::uint64_t p = 0; p < producers; ++p) {
    asio::co_spawn(context, send(between, items * p / producers, items * (p + 1) / producers), asio::detached);
  }
  asio::co_spawn(context, receive(between, items, sum), asio::detached);
  run(context, a.number("threads"));
  return channel_line(items, clock.seconds(), sum, libraries());
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "sleep") return sleep(a);
    if (a.scenario() == "channel") return channel(a);
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: sleep, channel", a.scenario()));
  });
}
