#include "broker/redis/upkeep.hpp"

#include <algorithm>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "broker/redis/inspector.hpp"
#include "broker/rest.hpp"
#include "broker/rules.hpp"

namespace ergon::redis_store {

namespace {

constexpr int promote_step = 500;
constexpr int take_over_step = 100;
constexpr int trim_step = 200;
constexpr int hours_kept = 2160;
constexpr int sweep_step = 100;
/// Steps of a sweep that follow each other; the next ones come a minute later.
constexpr int sweep_steps = 20;
constexpr std::chrono::seconds trim_every{60};
constexpr std::chrono::seconds at_least_between_trims{1};

void take_earlier(std::optional<std::chrono::milliseconds>& next, redis::value ms) {
  if (ms.text().empty()) return;
  const auto span = std::chrono::milliseconds{std::max<std::int64_t>(0, ms.integer())};
  next = next ? std::min(*next, span) : span;
}

}  // namespace

upkeep::upkeep(std::shared_ptr<server> at, std::shared_ptr<hints> from) : server_(std::move(at)), hints_(std::move(from)) {
  hints_->add(*this);
}

upkeep::~upkeep() { hints_->remove(*this); }

void upkeep::told(std::string_view hint) noexcept {
  if (hint == "due") stirred_.set();
}

task<void> upkeep::run() {
  const ergon::clock& clock = server_->clock();
  const auto look_every = server_->how().lease / 3;
  std::optional<steady_time> last_look;
  std::optional<steady_time> next_trim;
  std::optional<steady_time> next_orphans;
  // The server's time goes on while this machine sleeps; a test that plays it moves no timer by that.
  std::shared_ptr<void> moves;
  if (server_->clock().is_manual()) moves = server_->clock().listen([this] { stirred_.set(); });
  for (;;) {
    stirred_.reset();
    const steady_time began = clock.steady();
    std::chrono::nanoseconds pause = look_every;
    try {
      if (!last_look || began - *last_look >= look_every) {
        queues_ = co_await server_->queues();
        co_await look_at_workers(last_look ? began - *last_look : std::chrono::nanoseconds{0});
        last_look = began;
      }
      if (!next_orphans || began >= *next_orphans) {
        co_await look_for_orphans();
        next_orphans = began + server_->how().lease * 2;
      }
      std::optional<std::chrono::milliseconds> due;
      if (co_await promote(due)) {
        co_await yield();
        continue;
      }
      if (due) pause = std::min<std::chrono::nanoseconds>(pause, *due);
      if (!next_trim || began >= *next_trim) {
        std::optional<std::chrono::milliseconds> end;
        if (co_await trim(end)) {
          co_await yield();
          continue;
        }
        for (int i = 0; i < sweep_steps && co_await sweep(); ++i) co_await yield();
        next_trim = began + trim_every;
        if (end) next_trim = began + std::clamp<std::chrono::nanoseconds>(*end, at_least_between_trims, trim_every);
      }
      pause = std::min(pause, *next_trim - began);
    } catch (const error& e) {
      // The store is away or refuses something; the connections have said so. Upkeep goes on when it can.
      if (e.reason() == errc::closed) throw;
      server_->log().warn("upkeep of the store is put off", {{"why", e.what()}});
      pause = std::chrono::seconds{1};
    }
    co_await rest(stirred_, pause - (clock.steady() - began));
  }
}

task<void> upkeep::look_at_workers(std::chrono::nanoseconds since_last) {
  {
    const server::borrowed with{*server_};
    with->asked.add("HGETALL", server_->key("beats"));
    co_await server_->perform(server_->control(), *with, may_repeat::yes);
    check(with->answers[0], "look at the workers");
    for (auto& [name, it] : workers_) it.is_seen = false;
    const auto all = with->answers[0].root();
    for (auto at = all.begin(); at != all.end(); ++at) {
      const std::string_view name = at->text();
      if (++at == all.end()) break;
      const auto [it, is_new] = workers_.try_emplace(std::string{name});
      watched& of = it->second;
      of.is_seen = true;
      if (is_new || of.beat != at->text()) {
        of.beat = at->text();
        of.silent = {};
      } else {
        of.silent += std::min<std::chrono::nanoseconds>(since_last, server_->how().lease / 2);
      }
    }
  }
  std::vector<std::string> dead;
  for (auto& [name, it] : workers_) {
    // Who does not beat at all and holds something: `look_for_orphans` found it.
    if (!it.is_seen) it.silent += std::min<std::chrono::nanoseconds>(since_last, server_->how().lease / 2);
    if (it.silent >= server_->how().lease) dead.push_back(name);
  }
  for (const std::string& name : dead) {
    co_await take_over(name);
    workers_.erase(name);
  }
}

task<void> upkeep::look_for_orphans() {
  std::vector<const partition*> const queues = queues_;
  if (queues.empty()) co_return;
  const server::borrowed with{*server_};
  for (const partition* in : queues) {
    for (const auto stream : {partition::ready, partition::front}) with->asked.add("XPENDING", in->keys[stream], "workers");
  }
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  for (const redis::reply& answer : with->room()) {
    const auto summary = answer.root();
    if (summary.is_error() || summary.size() < 4 || !summary[3].is_aggregate()) continue;
    for (const auto& holder : summary[3]) workers_.try_emplace(std::string{holder[0].text()});
  }
}

task<void> upkeep::take_over(std::string worker) {
  std::int64_t moved = 0;
  std::int64_t buried = 0;
  for (const partition* in : queues_) {
    for (;;) {
      const server::borrowed with{*server_};
      server_->begin(with->asked, scripts::take_over, *in, 5);
      with->asked.arg(worker);
      with->asked.arg("1");
      with->asked.arg(take_over_step);
      with->asked.arg(rules::buried_after);
      with->asked.arg(rules::dead_kept_for.count());
      co_await server_->perform(server_->control(), *with, may_repeat::yes);
      check(with->answers[0], "take over from a lost worker");
      const auto answer = with->answers[0].root();
      moved += answer[0].integer();
      buried += answer[1].integer();
      if (answer[2].integer() == 1) break;
      co_await yield();
    }
  }
  const server::borrowed with{*server_};
  with->asked.add("HDEL", server_->key("workers"), worker);
  with->asked.add("HDEL", server_->key("beats"), worker);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  server_->log().warn("a worker was lost; its jobs were taken over",
                      {{"worker", worker}, {"jobs", log_number(moved)}, {"buried", log_number(buried)}});
}

task<bool> upkeep::promote(std::optional<std::chrono::milliseconds>& next) {
  if (queues_.empty()) co_return false;
  const server::borrowed with{*server_};
  for (const partition* in : queues_) {
    server_->begin(with->asked, scripts::promote, *in, 2);
    with->asked.arg(promote_step);
    with->asked.arg(rules::dead_kept_for.count());
  }
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  bool more = false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    check(with->answers[i], "promote what is due");
    const auto answer = with->answers[i].root();
    more = more || answer[0].integer() >= promote_step;
    take_earlier(next, answer[1]);
  }
  co_return more;
}

task<bool> upkeep::trim(std::optional<std::chrono::milliseconds>& next) {
  if (queues_.empty()) co_return false;
  const server::borrowed with{*server_};
  for (const partition* in : queues_) {
    server_->begin(with->asked, scripts::trim, *in, 4);
    with->asked.arg(trim_step);
    with->asked.arg(rules::dead_kept);
    with->asked.arg(rules::gone_kept);
    with->asked.arg(hours_kept);
  }
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  bool more = false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    check(with->answers[i], "let go of what was kept long enough");
    const auto answer = with->answers[i].root();
    more = more || answer[1].integer() == 1;
    take_earlier(next, answer[2]);
  }
  co_return more;
}

task<bool> upkeep::sweep() {
  if (queues_.empty()) co_return false;
  const server::borrowed with{*server_};
  for (const partition* in : queues_) {
    const auto [at, is_new] = swept_.try_emplace(in);
    if (is_new) at->second.fill("0");
    server_->begin(with->asked, scripts::sweep, *in, 1 + at->second.size());
    with->asked.arg(sweep_step);
    for (const std::string& cursor : at->second) with->asked.arg(cursor);
  }
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  bool more = false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    check(with->answers[i], "look for damage");
    const auto answer = with->answers[i].root();
    auto& cursors = swept_[queues_[i]];
    for (std::size_t k = 0; k < cursors.size(); ++k) {
      cursors[k] = answer[k + 1].text();
      more = more || cursors[k] != "0";
    }
    if (const auto fixed = answer[0].integer(); fixed > 0) {
      server_->log().warn("damage in the store was put right", {{"queue", queues_[i]->queue}, {"places", log_number(fixed)}});
    }
  }
  co_return more;
}

}  // namespace ergon::redis_store
