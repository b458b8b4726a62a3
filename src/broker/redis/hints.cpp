#include "broker/redis/hints.hpp"

#include <algorithm>

#include <ergon/base/backoff.hpp>
#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

#include "broker/rest.hpp"

namespace ergon::redis_store {

namespace {

constexpr std::chrono::seconds ask_every{30};

}  // namespace

void hints::start() {
  if (std::exchange(started_, true) || closed_) return;
  running_ = server_->runtime().spawn(listen(shared_from_this()), "redis hints");
}

void hints::add(hint_listener& who) {
  const std::scoped_lock lock{mutex_};
  listeners_.push_back(&who);
  start();
  changed_.set();
}

void hints::remove(hint_listener& who) noexcept {
  const std::scoped_lock lock{mutex_};
  std::erase(listeners_, &who);
}

void hints::close() noexcept {
  const std::scoped_lock lock{mutex_};
  closed_ = true;
  if (running_) running_.cancel();
}

hints::subscription::subscription(std::shared_ptr<hints> of, std::string channel)
    : of_(std::move(of)), channel_(std::move(channel)) {
  const std::scoped_lock lock{of_->mutex_};
  of_->channels_[channel_].waiting.push_back(this);
  of_->start();
  of_->changed_.set();
}

hints::subscription::~subscription() {
  const std::scoped_lock lock{of_->mutex_};
  const auto it = of_->channels_.find(channel_);
  std::erase(it->second.waiting, this);
  if (it->second.waiting.empty()) of_->changed_.set();
}

void hints::lost() noexcept {
  const std::scoped_lock lock{mutex_};
  hints_asked_for_ = false;
  for (auto& [name, it] : channels_) it.is_asked_for = false;
  for (hint_listener* who : listeners_) who->missed();
}

void hints::changes(redis::commands& out) {
  out.clear();
  const std::scoped_lock lock{mutex_};
  changed_.reset();
  if (!hints_asked_for_) out.add("SUBSCRIBE", server_->hint_channel());
  hints_asked_for_ = true;
  boost::unordered::erase_if(channels_, [&](auto& entry) {
    channel& c = entry.second;
    const bool is_over = c.waiting.empty();
    if (c.is_asked_for == is_over) out.add(is_over ? "UNSUBSCRIBE" : "SUBSCRIBE", entry.first);
    c.is_asked_for = true;
    return is_over;
  });
}

void hints::hear(redis::value message) {
  if (!message.is_aggregate() || message.size() < 3 || !message[0].is_text() || !message[1].is_text()) return;
  const std::string_view what = message[0].text();
  const std::string_view where = message[1].text();
  const std::scoped_lock lock{mutex_};
  if (where == server_->hint_channel()) {
    for (hint_listener* who : listeners_) {
      if (what == "message" && message[2].is_text()) {
        who->told(message[2].text());
      } else if (what == "subscribe") {
        who->missed();
      }
    }
    return;
  }
  if (what != "message" && what != "subscribe") return;
  if (const auto it = channels_.find(std::string{where}); it != channels_.end()) {
    for (subscription* waiting : it->second.waiting) waiting->heard.set();
  }
}

task<void> hints::read(redis::link& with) {
  redis::reply message;
  // A listener that hears nothing asks now and then: a connection may be gone without a word.
  io_options patience;
  if (!server_->clock().is_manual()) patience.timeout = ask_every + server_->where().response_timeout;
  for (;;) {
    co_await with.receive(message, patience);
    hear(message.root());
    message.clear();
  }
}

task<void> hints::serve(redis::link& with) {
  co_await with_group([this, &with](task_group& tasks) -> task<void> {
    tasks.spawn(read(with), "redis hints reader");
    redis::commands asked;
    for (;;) {
      changes(asked);
      if (asked.empty()) asked.add("PING");
      co_await with.send(asked);
      co_await rest(changed_, ask_every);
    }
  });
}

task<void> hints::listen(std::shared_ptr<hints> self) {
  redis::connection_options where = self->server_->where();
  where.client_name = "ergon-hints";
  std::uint32_t failures = 0;
  for (;;) {
    try {
      auto with = co_await redis::link::open(where);
      failures = 0;
      co_await self->serve(with);
    } catch (const std::exception& e) {
      // The connections for work say that the server is away.
      self->server_->log().debug("no hints from the store", {{"why", e.what()}});
    }
    self->lost();
    co_await sleep_for(detail::half_jittered(detail::backoff_bound(where.reconnect, ++failures)));
  }
}

}  // namespace ergon::redis_store
