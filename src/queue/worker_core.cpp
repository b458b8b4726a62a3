// A worker's life: set-up, joining, the loops, the way out; and how it is.
#include "queue/worker_core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/cpus.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/text.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/process_gate.hpp"

namespace ergon::detail {

namespace {

constexpr backoff_options join_backoff{
    .base = std::chrono::milliseconds{200}, .factor = 2.0, .cap = std::chrono::seconds{15}, .jitter = true};
constexpr std::uint32_t most_concurrency = 100'000;
constexpr std::uint32_t most_prefetch = 10'000;
/// After a second request to stop, handlers that are being cancelled still get this long.
constexpr std::chrono::nanoseconds last_moment = std::chrono::milliseconds{200};
/// A job that could start and has not is a sign that nothing moves.
constexpr std::chrono::nanoseconds stuck_after = std::chrono::seconds{10};
/// How long a kind that nobody here understands is shown after it was last seen.
constexpr std::chrono::nanoseconds shown_for = std::chrono::minutes{3};

task<void> wait_for(event& on) { co_await on.wait(); }

worker_options checked(worker_options options) {
  if (options.queues.empty()) throw error{errc::invalid_argument, "a worker has no queues; name at least one"};
  for (const queue_share& share : options.queues) check_name("queue name", share.name);
  if (options.concurrency > most_concurrency) {
    throw error{errc::invalid_argument, fmt::format("a worker's concurrency is {}; at most {} handlers run at once",
                                                    options.concurrency, most_concurrency)};
  }
  if (options.prefetch > most_prefetch) {
    throw error{errc::invalid_argument, fmt::format("a worker's prefetch is {}; at most {} jobs are held beyond those that run",
                                                    options.prefetch, most_prefetch)};
  }
  check_duration("a worker's shutdown_grace", options.shutdown_grace);
  check_duration("a worker's stop_grace", options.stop_grace);
  check_duration("a worker's unknown_kind_after", options.unknown_kind_after);
  if (options.concurrency == 0) options.concurrency = std::max(1U, granted_cpus());
  if (!options.retry) options.retry = exponential_backoff();
  return options;
}

}  // namespace

worker_core::worker_core(std::shared_ptr<ergon::broker> from, worker_options options)
    : broker_(std::move(from)),
      runtime_(broker_->runtime()),
      options_(checked(std::move(options))),
      max_payload_(broker_->max_payload()),
      log_(options_.logger.value_or(default_logger())) {}

void worker_core::probe::run() noexcept {
  const auto core = std::move(keeps);
  const std::scoped_lock lock{core->lock_};
  queued = false;
}

worker_core::~worker_core() {
  if (consumer_ != nullptr && phase_ != phase::over && !abandoned_) consumer_->abandon();
}

void worker_core::add(std::unique_ptr<job_handler> handler, kind_names names, const std::type_info& type,
                      handler_options options) {
  if (phase_ != phase::created)
    throw error{errc::wrong_state, "a worker that runs takes no more handlers; add them before it runs"};
  if (!options.kind.empty()) names.kind = std::move(options.kind);
  std::vector<std::string> all{names.kind};
  for (auto* list : {&names.aliases, &options.aliases}) {
    for (std::string& name : *list) all.push_back(std::move(name));
  }
  for (const std::string& name : all) {
    if (by_kind_.contains(name)) {
      throw error{errc::duplicate_kind,
                  fmt::format("the kind {} has a handler in this worker already; a kind has one", quoted(name))};
    }
    claim_kind(name, type);
  }
  auto entry = std::make_unique<kind_entry>();
  entry->kind = names.kind;
  entry->handler = std::move(handler);
  entry->retry = std::move(options.retry);
  for (std::string& name : all) by_kind_.emplace(names_.emplace_back(std::move(name)), entry.get());
  entries_.push_back(std::move(entry));
}

void worker_core::use(middleware around) {
  if (phase_ != phase::created)
    throw error{errc::wrong_state, "a worker that runs takes no more middleware; add it before it runs"};
  if (!around) throw error{errc::invalid_argument, "a middleware is an empty function"};
  around_.push_back(std::move(around));
}

void worker_core::stop() noexcept {
  if (stops_.fetch_add(1) > 0) now_wanted_.set();
  stop_wanted_.set();
  changed_.set();
}

void worker_core::abandon() noexcept {
  consumer* mine = nullptr;
  {
    const std::scoped_lock lock{lock_};
    if (phase_ == phase::working || phase_ == phase::draining) mine = consumer_.get();
  }
  abandoned_.store(true);
  if (mine != nullptr) mine->abandon();
  stops_.fetch_add(2);
  now_wanted_.set();
  stop_wanted_.set();
  changed_.set();
}

const std::string& worker_core::consumer_id() const noexcept { return id_; }

std::string worker_core::id() const {
  const std::scoped_lock lock{lock_};
  return id_;
}

bool worker_core::is_quiet() const {
  const std::scoped_lock lock{lock_};
  const bool startable = can_start() && (!idle_.empty() || slots_.size() < options_.concurrency);
  const bool settleable = !settle_failing_ && (!pending_.empty() || settling_ > 0);
  return phase_ != phase::created && !wake_pending_ && !startable && !settleable;
}

void worker_core::close_for_suspect() {
  const std::scoped_lock lock{lock_};
  closed_ = true;
}

void worker_core::open_after_suspect() {
  after then;
  {
    const std::scoped_lock lock{lock_};
    closed_ = false;
    wake_one(then);
  }
  finish(then);
}

bool worker_core::runs_nothing() const {
  const std::scoped_lock lock{lock_};
  return running_ == given_up_;
}

/// Waits until `holds` (called under the lock) or `span` has passed; true if it holds. With `now_ends_it`, a second request to stop
/// ends the wait as well. `main`'s own.
template <class Condition>
task<bool> worker_core::until(Condition holds, std::chrono::nanoseconds span, bool now_ends_it) {
  const steady_time end = steady() + std::min<std::chrono::nanoseconds>(span, longest_duration);
  for (;;) {
    changed_.reset();
    {
      const std::scoped_lock lock{lock_};
      if (holds()) co_return true;
    }
    if (now_ends_it && now_wanted_.is_set()) co_return false;
    const auto left = end - steady();
    if (left.count() <= 0) co_return false;
    const auto waited = co_await as_result(timeout(left, wait_for(changed_)));
    // The runtime itself shuts down: nothing can be waited for any more.
    if (!waited && waited.error() == make_error_code(errc::cancelled)) co_return false;
  }
}

void worker_core::hand_back_unstarted(after& then) {
  const auto give = [&](const held_job& held) {
    push_ended(
        {.held = held, .lease = held.job->lease, .how = ergon::verdict::hand_back, .text = "the worker shut down", .delay = {}},
        then);
  };
  for (; ring_head_ < ring_.size(); ++ring_head_) give(ring_[ring_head_]);
  ring_.clear();
  ring_head_ = 0;
  for (const held_job& held : suspects_) give(held);
  suspects_.clear();
}

task<void> worker_core::join_broker() {
  {
    const std::scoped_lock lock{lock_};
    if (phase_ != phase::created) throw error{errc::wrong_state, "this worker runs already, or has run; make another"};
    phase_ = phase::joining;
  }
  for (std::uint32_t failures = 1;; ++failures) {
    std::string wrong;
    try {
      consumer_ =
          co_await broker_->join({.queues = options_.queues, .strict = options_.strict, .concurrency = options_.concurrency});
    } catch (const error& e) {
      if (e.reason() != errc::unavailable && e.reason() != errc::busy && e.reason() != errc::unknown_outcome) throw;
      wrong = e.what();
    }
    if (consumer_ != nullptr) break;
    const auto wait = half_jittered(backoff_bound(join_backoff, failures));
    {
      const std::scoped_lock lock{lock_};
      join_error_ = wrong;
    }
    log_.error("the store cannot be joined; trying again",
               {{"broker", broker_->url()}, {"error", wrong}, {"tries", log_number(failures)}, {"in", format_duration(wait)}});
    const auto stopped = co_await as_result(timeout(wait, wait_for(stop_wanted_)));
    if (stopped || stopped.error() == make_error_code(errc::cancelled)) co_return;
  }
  const std::scoped_lock lock{lock_};
  join_error_.clear();
  id_ = consumer_->id();
  phase_ = phase::working;
}

task<void> worker_core::main(std::shared_ptr<worker_core> self) {
  struct over {
    worker_core& core;
    ~over() {
      const std::scoped_lock lock{core.lock_};
      core.phase_ = phase::over;
    }
  };
  co_await self->join_broker();
  const over at_the_end{*self};
  if (self->consumer_ == nullptr) co_return;
  self->log_ = self->log_.with({{"worker", self->id()}});
  self->log_.info("a worker takes jobs",
                  {{"broker", self->broker_->url()}, {"concurrency", log_number(self->options_.concurrency)}});

  struct membership {
    worker_core& core;
    explicit membership(worker_core& of) : core(of) { process_gate::instance().join(core); }
    ~membership() { process_gate::instance().leave(core); }
  } const member{*self};

  auto fetching = self->runtime_.spawn(fetch_loop(self), "ergon worker: fetch");
  auto settling = self->runtime_.spawn(settle_loop(self), "ergon worker: settle");
  std::vector<join_handle<void>> beside;
  beside.push_back(self->runtime_.spawn(watch_loop(self), "ergon worker: watchdog"));
  beside.push_back(self->runtime_.spawn(news_loop(self), "ergon worker: news"));
  beside.push_back(self->runtime_.spawn(report_loop(self), "ergon worker: reports"));
  beside.push_back(self->runtime_.spawn(maintain_loop(self), "ergon worker: upkeep"));

  if (!co_await as_result(self->stop_wanted_.wait())) self->now_wanted_.set();

  if (self->abandoned_) {
    fetching.cancel();
    settling.cancel();
    for (auto& loop : beside) loop.cancel();
    self->stop_all(stop_cause::lost);
    co_await as_result(fetching);
    co_await as_result(settling);
    for (auto& loop : beside) co_await as_result(loop);
    self->release_slots();
    co_return;
  }
  after then;
  {
    const std::scoped_lock lock{self->lock_};
    self->phase_ = phase::draining;
    self->hand_back_unstarted(then);
  }
  self->finish(then);
  fetching.cancel();
  co_await as_result(fetching);
  then = {};
  {
    // What came in the last moment.
    const std::scoped_lock lock{self->lock_};
    self->hand_back_unstarted(then);
  }
  self->finish(then);
  co_await self->shut_down();

  for (auto& loop : beside) loop.cancel();
  for (auto& loop : beside) co_await as_result(loop);
  settling.cancel();
  co_await as_result(settling);
  std::string wrong;
  try {
    co_await self->consumer_->leave();
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  if (!wrong.empty())
    self->log_.error("the store could not be left in order; the leases run out by themselves",
                     {{"broker", self->broker_->url()}, {"error", wrong}});
  self->release_slots();
  co_await self->until([&core = *self] { return core.runners_ == core.running_; }, last_moment, false);
  self->log_.info("the worker has ended", {});
}

std::size_t worker_core::stop_all(stop_cause why) {
  std::vector<stopping> stops;
  {
    const std::scoped_lock lock{lock_};
    const steady_time now = steady();
    for (const auto& slot : slots_) {
      if (slot->running && slot->cause.load(std::memory_order_relaxed) == stop_cause::none)
        stops.push_back(stop_slot(*slot, why, now));
    }
  }
  const std::size_t count = stops.size();
  finish(stops);
  return count;
}

/// From the last fetch to the last settlement. Leases stay extended meanwhile.
task<void> worker_core::shut_down() {
  bool all_ended = co_await until([this] { return running_ == given_up_; }, options_.shutdown_grace, true);
  if (!all_ended) {
    const std::size_t stopped = stop_all(stop_cause::shutdown);
    log_.warn("the grace time is over; the handlers that still run are stopped and their jobs handed back",
              {{"handlers", log_number(stopped)}});
    all_ended =
        co_await until([this] { return running_ == given_up_; }, now_wanted_.is_set() ? last_moment : options_.stop_grace, true);
    if (!all_ended && now_wanted_.is_set()) co_await until([this] { return running_ == given_up_; }, last_moment, false);
  }
  after then;
  {
    const std::scoped_lock lock{lock_};
    for (const auto& slot : slots_) {
      if (!slot->running || slot->given_up) continue;
      slot->given_up = true;
      ++given_up_;
      if (slot->cause.load(std::memory_order_relaxed) == stop_cause::lost) continue;
      ++slot->held.batch->open;
      push_ended({.held = slot->held,
                  .lease = slot->held.job->lease,
                  .how = ergon::verdict::hand_back,
                  .text = "the worker shut down, and its handler did not stop",
                  .delay = {}},
                 then);
    }
  }
  finish(then);
  co_await until([this] { return pending_.empty() && settling_ == 0; }, options_.stop_grace, false);
}

void worker_core::release_slots() noexcept {
  std::vector<parking*> parked;
  {
    const std::scoped_lock lock{lock_};
    phase_ = phase::leaving;
    exiting_ = true;
    for (attempt* slot : idle_) parked.push_back(std::exchange(slot->parked, nullptr));
    idle_.clear();
  }
  for (parking* one : parked) one->wake();
}

worker_health worker_core::health() {
  worker_health out;
  std::shared_ptr<worker_core> probing;
  {
    const std::scoped_lock lock{lock_};
    const steady_time now = steady();
    out.ready = phase_ == phase::working && fetch_error_.empty() && !settle_failing_;
    out.concurrency = options_.concurrency;
    out.running = running_;
    out.waiting = static_cast<std::uint32_t>(ring_.size() - ring_head_ + suspects_.size());
    out.settling = static_cast<std::uint32_t>(pending_.size() + settling_);
    out.completed = completed_;
    out.failed = failed_;
    out.cancelled = cancelled_;
    out.buried = buried_;
    out.discarded = discarded_;
    out.handed_back = handed_back_;
    out.lost = lost_;
    for (const auto& entry : entries_) out.kinds.push_back(entry->statistics());

    for (const auto& slot : slots_) {
      if (!slot->running || slot->cause.load(std::memory_order_relaxed) == stop_cause::none) continue;
      const delivery& job = *slot->held.job;
      out.overdue.push_back({.id = public_id(job),
                             .kind = std::string{job.kind},
                             .queue = std::string{job.queue},
                             .attempt = job.failures + 1,
                             .since = now - slot->stopped_at,
                             .given_up = slot->given_up});
    }
    for (const overdue_handler& late : out.overdue) {
      if (late.given_up) {
        out.reasons.push_back(
            fmt::format("the handler of job {} (kind {}) was told to stop {} ago and has not; its place stays taken", late.id,
                        late.kind, format_duration(late.since)));
      }
    }
    if (!join_error_.empty()) out.reasons.push_back(fmt::format("{} cannot be joined: {}", broker_->url(), join_error_));
    if (!fetch_error_.empty())
      out.reasons.push_back(fmt::format("no jobs can be taken from {}: {}", broker_->url(), fetch_error_));
    if (settle_failing_) out.reasons.push_back(fmt::format("{} does not take how jobs ended: {}", broker_->url(), settle_error_));
    std::erase_if(not_understood_, [now](const auto& seen) { return now - seen.second > shown_for; });
    for (const auto& [text, when] : not_understood_) out.reasons.push_back(text);

    if (ring_head_ < ring_.size() && !closed_ && now - ring_[ring_head_].since > stuck_after) {
      out.live = false;
      out.reasons.push_back(fmt::format("jobs wait and none has started for {}", format_duration(now - ring_[ring_head_].since)));
    }
    if (phase_ == phase::working || phase_ == phase::draining) {
      if (!probe_.queued) {
        probe_.queued = true;
        probe_.asked = now;
        probing = shared_from_this();
      } else if (now - probe_.asked > stuck_after) {
        out.live = false;
        out.reasons.push_back(
            fmt::format("the runtime has run nothing for {}: something blocks its threads", format_duration(now - probe_.asked)));
      }
    }
  }
  if (probing != nullptr) {
    ergon::runtime& on = runtime_;
    probe_.keeps = std::move(probing);
    on.post(probe_);
  }
  return out;
}

}  // namespace ergon::detail
