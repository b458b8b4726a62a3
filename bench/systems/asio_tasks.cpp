// Boost.Asio's awaitables in the suite `tasks`: one io_context, run by `--threads` threads, a steady_timer in each coroutine. Only `ping_pong`
// has an io_context per thread, which is the faster way there.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
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

using tcp = asio::ip::tcp;

constexpr std::size_t message_size = 64;
std::atomic<std::uint64_t> right_echoes{0};

asio::awaitable<void> echo(tcp::socket with) {
  std::array<unsigned char, message_size> message{};
  for (;;) {
    // The client closes when it has had all its echoes.
    const auto [error, size] = co_await asio::async_read(with, asio::buffer(message), asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    co_await asio::async_write(with, asio::buffer(message), asio::use_awaitable);
  }
}

asio::awaitable<void> ask(tcp::socket with, std::uint64_t round_trips) {
  std::array<unsigned char, message_size> sent{};
  std::array<unsigned char, message_size> got{};
  std::uint64_t right = 0;
  for (std::uint64_t i = 0; i < round_trips; ++i) {
    ++sent[i % message_size];
    co_await asio::async_write(with, asio::buffer(sent), asio::use_awaitable);
    co_await asio::async_read(with, asio::buffer(got), asio::use_awaitable);
    right += sent == got ? 1 : 0;
  }
  right_echoes += right;
}

// Clients and their server in one process, on the same threads. `--contexts one` tries the other way: all threads run one io_context.
boost::json::object pingpong(const arguments& a) {
  const std::uint64_t threads = a.number("threads");
  const std::uint64_t connections = a.number("connections");
  const std::uint64_t round_trips = a.number("round_trips");
  const bool one = a.text("contexts", "per_thread") == "one";
  std::vector<std::unique_ptr<asio::io_context>> contexts;
  for (std::uint64_t i = 0; i < (one ? 1 : threads); ++i) {
    contexts.push_back(std::make_unique<asio::io_context>(one ? static_cast<int>(threads) : 1));
  }
  tcp::acceptor acceptor{*contexts.front(), {asio::ip::address_v4::loopback(), 0}};
  std::vector<tcp::socket> clients;
  for (std::uint64_t c = 0; c < connections; ++c) {
    asio::io_context& context = *contexts[c % contexts.size()];
    tcp::socket client{context};
    client.connect(acceptor.local_endpoint());
    client.set_option(tcp::no_delay{true});
    clients.push_back(std::move(client));
    tcp::socket served = acceptor.accept(context);
    served.set_option(tcp::no_delay{true});
    asio::co_spawn(context, echo(std::move(served)), asio::detached);
  }
  const stopwatch clock;
  for (std::uint64_t c = 0; c < connections; ++c) {
    const std::uint64_t share = round_trips * (c + 1) / connections - round_trips * c / connections;
    asio::co_spawn(*contexts[c % contexts.size()], ask(std::move(clients[c]), share), asio::detached);
  }
  {
    std::vector<std::jthread> others;
    for (std::uint64_t i = 1; i < threads; ++i) others.emplace_back([&, i] { contexts[i % contexts.size()]->run(); });
    contexts.front()->run();
  }
  return task_line(static_cast<double>(round_trips) / clock.seconds(), right_echoes == round_trips,
                   fmt::format("of {} echoes {} were what was sent", round_trips, right_echoes.load()), libraries());
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](const arguments& a) {
    if (a.scenario() == "sleep") return sleep(a);
    if (a.scenario() == "channel") return channel(a);
    if (a.scenario() == "ping_pong") return pingpong(a);
    throw bad_arguments(fmt::format("there is no scenario '{}'; there is: sleep, channel, ping_pong", a.scenario()));
  });
}
