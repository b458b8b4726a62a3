// Jobs from the broker into the ring, as many as can start soon. Jobs that have to run alone do so here, between two fetches.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/text.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/process_gate.hpp"
#include "queue/worker_core.hpp"

namespace ergon::detail {

namespace {

constexpr backoff_options fetch_backoff{
    .base = std::chrono::milliseconds{100}, .factor = 2.0, .cap = std::chrono::seconds{15}, .jitter = true};
constexpr backoff_options unknown_backoff{
    .base = std::chrono::seconds{1}, .factor = 2.0, .cap = std::chrono::minutes{1}, .jitter = true};
constexpr std::size_t most_at_once = 1000;
/// Settlements that may wait before no more is fetched.
constexpr std::size_t most_unsettled = 4096;
constexpr std::size_t most_unknown_jobs = 10'000;

}  // namespace

held_batch* worker_core::take_batch() {
  const std::scoped_lock lock{lock_};
  if (free_batches_.empty()) {
    batches_.push_back(std::make_unique<held_batch>());
    free_batches_.reserve(batches_.capacity());
    return batches_.back().get();
  }
  held_batch* const batch = free_batches_.back();
  free_batches_.pop_back();
  return batch;
}

std::size_t worker_core::room() const noexcept {
  if (phase_ != phase::working || settle_failing_ || pending_.size() + settling_ > most_unsettled) return 0;
  const std::size_t held = running_ + (ring_.size() - ring_head_);
  const std::size_t capacity = options_.concurrency + ahead_;
  return capacity > held ? std::min(capacity - held, most_at_once) : 0;
}

kind_entry* worker_core::entry_of(std::string_view kind) {
  if (last_entry_ != nullptr && kind == last_kind_) return last_entry_;
  const auto found = by_kind_.find(kind);
  if (found == by_kind_.end()) return nullptr;
  last_kind_.assign(kind);
  last_entry_ = found->second;
  return last_entry_;
}

/// The wait grows with each time that this worker saw the job. A day counts from the first time, not from the enqueue: a job may
/// have been due long after that.
void worker_core::give_back_unknown(held_job held, std::string_view what, ended_job& out) {
  const auto now = runtime_.clock().boot();
  if (unknown_jobs_.size() >= most_unknown_jobs) {
    std::erase_if(unknown_jobs_, [now](const auto& job) { return now - job.second.last > std::chrono::minutes{10}; });
    if (unknown_jobs_.size() >= most_unknown_jobs) unknown_jobs_.clear();
  }
  const std::string name = public_id(*held.job);
  const auto [at, first_time] = unknown_jobs_.try_emplace(name);
  unknown_job& seen = at->second;
  if (first_time) seen.first = now;
  seen.last = now;
  ++seen.times;
  out.held = held;
  out.lease = held.job->lease;
  if (now - seen.first >= options_.unknown_kind_after) {
    out.how = ergon::verdict::bury;
    out.text = fmt::format("{} for {}", what, format_duration(options_.unknown_kind_after));
    unknown_jobs_.erase(at);
  } else {
    out.how = ergon::verdict::hand_back;
    out.delay = half_jittered(backoff_bound(unknown_backoff, seen.times));
    out.text = what;
  }
}

void worker_core::accept(held_batch& batch, std::size_t asked, std::chrono::nanoseconds took) {
  const steady_time now = steady();
  std::vector<delivery>& jobs = batch.batch.jobs;
  batch.open = jobs.size();
  std::vector<ended_job> at_once;
  std::vector<std::string> not_understood;
  incoming_.clear();
  for (const delivery& job : jobs) {
    const held_job held{.job = &job, .batch = &batch, .entry = entry_of(job.kind), .since = now, .alone = job.suspect};
    if (job.fit == record_fit::garbage) {
      at_once.push_back({.held = held,
                         .lease = job.lease,
                         .how = ergon::verdict::bury,
                         .text = "what is stored is no job: its record is damaged",
                         .delay = {}});
    } else if (job.fit == record_fit::newer) {
      const std::string what = "a newer release of ergon wrote this job, and no worker of that release took it";
      give_back_unknown(held, what, at_once.emplace_back());
      not_understood.emplace_back("jobs of a newer release of ergon are handed back; update this worker");
    } else if (held.entry == nullptr) {
      give_back_unknown(held, fmt::format("no worker had a handler for the kind {}", quoted(job.kind)), at_once.emplace_back());
      not_understood.emplace_back(
          fmt::format("jobs of the kind {} in the queue {} are handed back; this worker has no handler for it", quoted(job.kind),
                      quoted(job.queue)));
    } else {
      incoming_.push_back(held);
    }
  }
  for (const std::string& text : not_understood) {
    bool is_new = false;
    {
      const std::scoped_lock lock{lock_};
      // Names come from outside: what is remembered of them is bounded.
      if (const auto known = not_understood_.find(text); known != not_understood_.end()) {
        known->second = now;
      } else if (not_understood_.size() < 100) {
        not_understood_.emplace(text, now);
        is_new = true;
      }
    }
    if (is_new) log_.error(text);
  }

  after then;
  {
    const std::scoped_lock lock{lock_};
    if (jobs.size() == asked) {
      // Only a full batch tells how long a round trip takes: the others may have waited for jobs.
      const auto sample = static_cast<double>(took.count());
      round_trip_ns_ = round_trip_ns_ < 0 ? sample : round_trip_ns_ + (sample - round_trip_ns_) / 4;
    }
    ahead_ = 0;
    if (handler_ns_ >= 0 && handler_ns_ < round_trip_ns_) {
      const double soon = 2 * options_.concurrency * round_trip_ns_ / std::max(handler_ns_, 1.0);
      ahead_ = static_cast<std::size_t>(std::min<double>(std::ceil(soon), options_.prefetch));
    }
    if (jobs.empty()) {
      free_batches_.push_back(&batch);
    } else {
      if (ring_head_ == ring_.size()) {
        ring_.clear();
        ring_head_ = 0;
      } else if (ring_head_ >= most_at_once) {
        ring_.erase(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(ring_head_));
        ring_head_ = 0;
      }
      for (ended_job& job : at_once) push_ended(std::move(job), then);
      for (const held_job& held : incoming_) (held.alone ? suspects_ : ring_).push_back(held);
      wake_one(then);
      if (ring_head_ < ring_.size() && now + std::chrono::seconds{1} < armed_until_) then.rearm_watchdog = true;
    }
  }
  steps_.fetch_add(1, std::memory_order_relaxed);
  finish(then);
}

task<void> worker_core::run_suspects() {
  for (;;) {
    // First what is held already: it drains while nothing new is taken.
    for (;;) {
      rest_changed_.reset();
      {
        const std::scoped_lock lock{lock_};
        if (suspects_.empty()) co_return;
        fetch_state_ = fetch_state::waits_alone;
        if (ring_head_ == ring_.size() && running_ == given_up_) break;
      }
      co_await rest_changed_.wait();
    }
    struct passage {
      worker_core& core;
      ~passage() { process_gate::instance().exit(core); }
    } const alone{*this};
    co_await process_gate::instance().enter(*this);

    held_job suspect;
    {
      const std::scoped_lock lock{lock_};
      if (suspects_.empty()) co_return;
      suspect = suspects_.front();
    }
    bool owned = false;
    std::string wrong;
    try {
      owned = co_await consumer_->mark(suspect.job->lease);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    after then;
    bool started = false;
    {
      const std::scoped_lock lock{lock_};
      if (suspects_.empty() || suspects_.front().job != suspect.job) continue;
      suspects_.erase(suspects_.begin());
      alone_settled_.reset();
      if (!wrong.empty() || (owned && phase_ != phase::working)) {
        push_ended({.held = suspect,
                    .lease = suspect.job->lease,
                    .how = ergon::verdict::hand_back,
                    .text = {},
                    .delay = std::chrono::seconds{wrong.empty() ? 0 : 1}},
                   then);
        started = true;
      } else if (!owned) {
        ++lost_;
        release(suspect);
      } else {
        suspect.since = steady();
        ring_.clear();
        ring_head_ = 0;
        ring_.push_back(suspect);
        wake_one(then);
        started = true;
      }
    }
    finish(then);
    if (!wrong.empty())
      log_.error("a job that has to run alone could not be marked and is handed back",
                 {{"job", public_id(*suspect.job)}, {"error", wrong}});
    // Taken or not, the next fetch waits for the answer to its settlement.
    if (started) co_await alone_settled_.wait();
  }
}

task<void> worker_core::fetch_loop(std::shared_ptr<worker_core> self) {
  std::uint32_t failures = 0;
  for (;;) {
    co_await self->run_suspects();
    std::size_t want = 0;
    for (;;) {
      {
        const std::scoped_lock lock{self->lock_};
        self->fetch_threshold_ = std::max<std::size_t>(1, self->ahead_ / 2);
        want = self->room();
        if (want >= self->fetch_threshold_) {
          self->fetch_state_ = fetch_state::asks;
          break;
        }
        self->fetch_state_ = fetch_state::waits_for_room;
        self->fetch_wanted_.reset();
        self->fetcher_parked_ = true;
      }
      co_await self->fetch_wanted_.wait();
    }
    held_batch* const batch = self->take_batch();
    struct unused {
      worker_core& core;
      held_batch* batch;
      ~unused() {
        if (batch == nullptr) return;
        const std::scoped_lock lock{core.lock_};
        batch->batch.clear();
        core.free_batches_.push_back(batch);
      }
    } guard{*self, batch};
    std::string wrong;
    const steady_time asked_at = self->steady();
    try {
      co_await self->consumer_->fetch(want, batch->batch);
    } catch (const std::exception& e) {
      wrong = e.what();
      if (wrong.empty()) wrong = "an error without a text";
    }
    if (wrong.empty() || !batch->batch.jobs.empty()) {
      guard.batch = nullptr;
      self->accept(*batch, want, self->steady() - asked_at);
    }
    if (wrong.empty()) {
      if (failures > 0) {
        self->log_.info("jobs come again", {{"broker", self->broker_->url()}});
        failures = 0;
        const std::scoped_lock lock{self->lock_};
        self->fetch_error_.clear();
      }
      continue;
    }
    ++failures;
    const auto wait = half_jittered(backoff_bound(fetch_backoff, failures));
    {
      const std::scoped_lock lock{self->lock_};
      self->fetch_state_ = fetch_state::backs_off;
      self->fetch_error_ = wrong;
    }
    self->log_.error(
        "no jobs can be taken from the store; trying again",
        {{"broker", self->broker_->url()}, {"error", wrong}, {"tries", log_number(failures)}, {"in", format_duration(wait)}});
    co_await sleep_for(wait);
  }
}

}  // namespace ergon::detail
