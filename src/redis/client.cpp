#include <ergon/redis/client.hpp>

#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/error.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "redis/multiplexer.hpp"

namespace ergon::redis {

namespace {

constexpr backoff_options between_repeats{
    .base = std::chrono::milliseconds{10}, .factor = 2.0, .cap = std::chrono::milliseconds{500}};

bool asks_to_come_back(std::span<const reply> answers) {
  for (const reply& answer : answers) {
    const value root = answer.root();
    if (root.is_error() && meaning_of(root.text()) == errc::unavailable) return true;
  }
  return false;
}

}  // namespace

client::client(ergon::runtime& on, connection_options options, logger log) : options_(std::move(options)) {
  if (options_.connections == 0 || options_.connections > 64) {
    throw error{errc::invalid_argument,
                fmt::format("connection_options.connections is {}, and must be from 1 to 64", options_.connections)};
  }
  for (std::uint32_t i = 0; i < options_.connections; ++i) {
    connections_.push_back(std::make_shared<multiplexer>(on, options_, log));
  }
  for (const auto& connection : connections_) connection->start();
}

client::~client() { close(); }

multiplexer& client::next() noexcept {
  if (connections_.size() == 1) return *connections_.front();
  return *connections_[turn_.fetch_add(1, std::memory_order_relaxed) % connections_.size()];
}

call client::run(const commands& asked, std::span<reply> answers) {
  if (asked.count() != answers.size() || answers.empty()) {
    throw error{errc::invalid_argument,
                fmt::format("{} commands, and room for {} answers: there must be one for each, and at least one", asked.count(),
                            answers.size())};
  }
  return call{next(), asked, answers};
}

task<bool> client::repeat(const commands& asked, std::span<reply> answers, on_cancel cancelled) {
  const auto& clock = connections_.front()->runtime().clock();
  const steady_time until = clock.steady() + options_.patience;
  bool in_doubt = false;
  for (std::uint32_t failures = 1;; ++failures) {
    for (reply& answer : answers) answer.clear();
    try {
      auto once = run(asked, answers);
      if (cancelled == on_cancel::go_on) once.ignore_cancel();
      co_await once;
      if (!asks_to_come_back(answers) || clock.steady() >= until) co_return in_doubt;
    } catch (const error& e) {
      if (e.reason() != errc::unknown_outcome || clock.steady() >= until) throw;
      in_doubt = true;
    }
    auto pause = sleep_for(detail::half_jittered(detail::backoff_bound(between_repeats, failures)));
    if (cancelled == on_cancel::go_on) pause.ignore_cancel();
    co_await pause;
  }
}

task<server_info> client::connected() { co_return co_await next().connected(); }

void client::close() noexcept {
  for (const auto& connection : connections_) connection->close();
}

client_stats client::stats() const {
  client_stats sum{.connected = true};
  for (const auto& connection : connections_) {
    const client_stats one = connection->stats();
    sum.commands += one.commands;
    sum.writes += one.writes;
    sum.connections_made += one.connections_made;
    sum.connections_lost += one.connections_lost;
    sum.in_flight += one.in_flight;
    sum.connected = sum.connected && one.connected;
  }
  return sum;
}

}  // namespace ergon::redis
