#include "broker/redis/server.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/redis/error.hpp>

namespace ergon::redis_store {

namespace {

constexpr std::size_t most_free = 16;
constexpr std::size_t kept_answers = 64;
bool any_error(std::span<const redis::reply> answers, std::string_view word) {
  return std::ranges::any_of(answers, [&](const redis::reply& answer) {
    const auto root = answer.root();
    // Before Redis 7 the error of a command stands at the end of the script's.
    return root.is_error() && (redis::error_word(root) == word ||
                               (redis::error_word(root) == "ERR" && root.text().contains(fmt::format(": {} ", word))));
  });
}

redis::connection_options named(redis::connection_options of, std::string_view what) {
  if (of.client_name == redis::connection_options{}.client_name) of.client_name = fmt::format("{}-{}", of.client_name, what);
  return of;
}

redis::connection_options single(redis::connection_options of) {
  of.connections = 1;
  return named(std::move(of), "control");
}

redis::connection_options by_clock(redis::connection_options of, const ergon::clock& clock) {
  // Where a test moves time by leaps, no span of it says that a server is slow.
  if (clock.is_manual()) of.response_timeout = of.connect_timeout = of.patience = std::chrono::years{10};
  return of;
}

}  // namespace

std::span<redis::reply> exchange::room() {
  if (answers.size() < asked.count()) answers.resize(asked.count());
  return {answers.data(), asked.count()};
}

void check(const redis::reply& answer, std::string_view asked) { redis::raise(answer.root(), asked); }

server::server(redis::connection_options where, settings how, ergon::runtime& on, ergon::clock& by, logger log)
    : how_(std::move(how)),
      runtime_(&on),
      clock_(&by),
      log_(std::move(log)),
      work_(on, named(by_clock(where, by), "work"), log_),
      control_(on, single(by_clock(where, by)), log_),
      hint_channel_(key("hints")) {
  free_.reserve(most_free);
  if (by.is_manual()) {
    offset_ms_ = std::chrono::floor<std::chrono::milliseconds>(by.wall().time_since_epoch() - by.boot()).count();
  }
}

void server::close() noexcept {
  work_.close();
  control_.close();
}

std::string server::key(std::string_view name) const { return fmt::format("{}:{}", how_.name_space, name); }

std::int64_t server::now_ms() const noexcept {
  const auto here = clock_->is_manual() ? clock_->boot() : clock_->wall().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(here).count() + offset_ms_.load(std::memory_order_relaxed);
}

void server::saw_time(std::int64_t ms) noexcept {
  if (clock_->is_manual()) return;
  const auto here = std::chrono::floor<std::chrono::milliseconds>(clock_->wall().time_since_epoch()).count();
  offset_ms_.store(ms - here, std::memory_order_relaxed);
}

std::string server::clock_argument() const { return clock_->is_manual() ? std::to_string(now_ms()) : std::string{}; }

task<void> server::greet() {
  const auto info = co_await control_.connected();
  if (!info.version.empty() && !info.is_at_least(6, 2)) {
    throw error{errc::not_supported, fmt::format("{} is version {}; a store needs 6.2 or later", where().shown(), info.version)};
  }
  const borrowed with{*this};
  with->asked.add("TIME");
  with->asked.add("INFO", "memory");
  co_await perform(control_, *with, may_repeat::yes);
  check(with->answers[0], "TIME");
  const auto time = with->answers[0].root();
  saw_time(time[0].integer() * 1000 + time[1].integer() / 1000);
  const auto memory = with->answers[1].root();
  if (!memory.is_error() && memory.is_text()) {
    const std::string_view text = memory.text();
    constexpr std::string_view name = "maxmemory_policy:";
    if (const auto at = text.find(name); at != std::string_view::npos) {
      const std::string_view policy = text.substr(at + name.size(), text.find('\r', at) - at - name.size());
      if (policy != "noeviction") {
        log_.error("the server may throw jobs away when its memory is full; set its maxmemory-policy to noeviction",
                   {{"server", where().shown()}, {"maxmemory-policy", policy}});
      }
    }
  }
  co_await load_scripts(control_);
}

// Exchanges

std::unique_ptr<exchange> server::take() {
  const std::scoped_lock lock{mutex_};
  if (free_.empty()) return std::make_unique<exchange>();
  auto taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

void server::give_back(std::unique_ptr<exchange> used) noexcept {
  used->asked.clear();
  used->was_repeated = false;
  if (used->answers.size() > kept_answers) used->answers.resize(kept_answers);
  for (redis::reply& answer : used->answers) answer.clear();
  constexpr std::size_t kept_bytes = std::size_t{1} << 20U;
  for (std::string* text : {&used->scratch, &used->more_scratch}) {
    text->clear();
    if (text->capacity() > kept_bytes) text->shrink_to_fit();
  }
  const std::scoped_lock lock{mutex_};
  if (free_.size() < most_free) free_.push_back(std::move(used));
}

task<void> server::exchange_once(redis::client& on, exchange& with, may_repeat again) {
  const auto answers = with.room();
  for (redis::reply& answer : answers) answer.clear();
  if (again == may_repeat::yes) {
    with.was_repeated = co_await on.repeat(with.asked, answers, redis::on_cancel::go_on) || with.was_repeated;
  } else {
    auto call = on.run(with.asked, answers);
    call.ignore_cancel();
    co_await call;
  }
}

task<void> server::perform(redis::client& on, exchange& with, may_repeat again) {
  for (int tries = 0;; ++tries) {
    co_await exchange_once(on, with, again);
    const auto answers = with.room();
    if (tries == 2) co_return;
    if (any_error(answers, "NOSCRIPT")) {
      co_await load_scripts(on);
    } else if (any_error(answers, "NOGROUP")) {
      // Somebody emptied the database, or part of it.
      std::vector<const partition*> all;
      {
        const std::scoped_lock lock{mutex_};
        for (const auto& [name, it] : queues_) all.push_back(it.get());
      }
      co_await make_groups(on, std::move(all));
    } else {
      co_return;
    }
  }
}

task<void> server::load_scripts(redis::client& on) {
  exchange with;
  for (const script* it : scripts::all) with.asked.add("SCRIPT", "LOAD", it->text);
  co_await exchange_once(on, with, may_repeat::yes);
  for (std::size_t i = 0; i < scripts::all.size(); ++i) {
    check(with.answers[i], fmt::format("SCRIPT LOAD ({})", scripts::all[i]->name));
    if (with.answers[i].root().text() != scripts::all[i]->sha1) {
      throw error{errc::bad_reply, fmt::format("{} calls the script {} {}, and it is {}", where().shown(), scripts::all[i]->name,
                                               with.answers[i].root().describe(), scripts::all[i]->sha1)};
    }
  }
}

void server::begin(redis::commands& to, const script& what, const partition& on, std::size_t arguments) const {
  to.begin(3 + on.keys.size() + 2 + arguments);
  to.arg("EVALSHA");
  to.arg(what.sha1);
  to.arg(on.keys.size());
  for (const std::string& name : on.keys) to.arg(name);
  to.arg(clock_argument());
  to.arg(hint_channel_);
}

// Queues

const partition* server::known(std::string_view queue) const {
  const std::scoped_lock lock{mutex_};
  const auto it = queues_.find(queue);
  return it == queues_.end() ? nullptr : it->second.get();
}

const partition* server::remember(std::string_view queue, std::uint32_t number) {
  const std::scoped_lock lock{mutex_};
  if (const auto it = queues_.find(queue); it != queues_.end()) return it->second.get();
  auto made = std::make_unique<const partition>(how_.name_space, queue, number);
  const partition* const it = made.get();
  queues_.emplace(it->queue, std::move(made));
  return it;
}

task<void> server::make_groups(redis::client& on, std::vector<const partition*> of) {
  exchange with;
  for (const partition* it : of) {
    with.asked.add("EVALSHA", scripts::register_queue.sha1, 2, key("queues"), key("none"), it->queue, it->number);
    begin(with.asked, scripts::open_queue, *it, 0);
  }
  if (with.asked.empty()) co_return;
  co_await exchange_once(on, with, may_repeat::yes);
  for (const redis::reply& answer : with.answers) check(answer, "make a queue");
}

task<const partition*> server::queue(std::string name) {
  if (const partition* it = known(name)) co_return it;
  const borrowed with{*this};
  const std::string registry = key("queues");
  with->asked.add("EVALSHA", scripts::register_queue.sha1, 2, registry, key("none"), name, "");
  co_await perform(control_, *with, may_repeat::yes);
  check(with->answers[0], "the list of queues");
  const std::int64_t number = with->answers[0].root().integer();
  if (number < 1 || number > 65'535) {
    throw error{errc::not_a_store,
                fmt::format("the key {} says that the queue {} is number {}; 1 to 65535 can be", registry, quoted(name), number)};
  }
  const partition made{how_.name_space, name, static_cast<std::uint32_t>(number)};
  co_await make_groups(control_, {&made});
  co_return remember(name, made.number);
}

task<std::vector<const partition*>> server::queues() {
  const borrowed with{*this};
  with->asked.add("HGETALL", key("queues"));
  co_await perform(control_, *with, may_repeat::yes);
  check(with->answers[0], "the list of queues");
  std::vector<const partition*> all;
  const auto list = with->answers[0].root();
  for (auto at = list.begin(); at != list.end(); ++at) {
    const std::string_view name = at->text();
    if (++at == list.end()) break;
    all.push_back(remember(name, static_cast<std::uint32_t>(at->integer())));
  }
  std::ranges::sort(all, {}, &partition::number);
  co_return all;
}

task<const partition*> server::find_queue(std::string name) {
  if (const partition* it = known(name)) co_return it;
  for (const partition* it : co_await queues()) {
    if (it->queue == name) co_return it;
  }
  co_return nullptr;
}

task<const partition*> server::find_queue(std::uint32_t number) {
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& [name, it] : queues_) {
      if (it->number == number) co_return it.get();
    }
  }
  for (const partition* it : co_await queues()) {
    if (it->number == number) co_return it;
  }
  co_return nullptr;
}

}  // namespace ergon::redis_store
