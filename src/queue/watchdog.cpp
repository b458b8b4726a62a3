// Beside the work: time limits, jobs that wait unstarted, leases that were lost, progress on its way to the inspector.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/time.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>

#include "queue/worker_core.hpp"

namespace ergon::detail {

namespace {

/// A job that has not started after this long goes back: somebody else may be idle.
constexpr std::chrono::nanoseconds unstarted_for = std::chrono::seconds{1};
constexpr std::chrono::nanoseconds report_every = std::chrono::milliseconds{500};
constexpr backoff_options loop_backoff{
    .base = std::chrono::milliseconds{200}, .factor = 2.0, .cap = std::chrono::seconds{30}, .jitter = true};

task<void> wait_for(event& on) { co_await on.wait(); }

struct token_hash {
  std::size_t operator()(const lease_token& token) const noexcept {
    return std::hash<std::uint64_t>{}(token.where * 0x9e3779b97f4a7c15U + token.number);
  }
};

}  // namespace

worker_core::stopping worker_core::stop_slot(attempt& slot, stop_cause why, steady_time now) {
  slot.cause.store(why, std::memory_order_release);
  slot.stopped_at = now;
  stopping out{.root = std::move(slot.root), .source = std::nullopt};
  const std::scoped_lock lock{slot.told_lock};
  out.source = slot.stop;
  return out;
}

void worker_core::finish(std::vector<stopping>& all) noexcept {
  for (stopping& one : all) {
    if (one.root) one.root->cancel();
    if (one.source) one.source->request_stop();
  }
  all.clear();
}

steady_time worker_core::watch() {
  struct late {
    held_job held;
    ergon::verdict how = ergon::verdict::retry;
    std::string text;
    std::chrono::nanoseconds delay{0};
  };
  const steady_time now = steady();
  steady_time next = steady_time::max();
  std::vector<stopping> stops;
  std::vector<late> given_up;
  after then;
  {
    const std::scoped_lock lock{lock_};
    const auto at = [&next](steady_time when) { next = std::min(next, when); };
    for (const auto& owned : slots_) {
      attempt& slot = *owned;
      if (!slot.running) continue;
      const delivery& job = *slot.held.job;
      const stop_cause cause = slot.cause.load(std::memory_order_relaxed);
      if (cause == stop_cause::none) {
        if (slot.due > now) {
          at(slot.due);
          continue;
        }
        if (slot.due_by_deadline) {
          const wall_time wall = clock().wall();
          if (wall < *job.deadline) {
            // Somebody set the calendar back.
            slot.due = now + std::min<std::chrono::nanoseconds>(*job.deadline - wall, longest_duration);
            at(slot.due);
            continue;
          }
        }
        stops.push_back(stop_slot(slot, slot.due_by_deadline ? stop_cause::past_deadline : stop_cause::timed_out, now));
        at(now + options_.stop_grace);
      } else if (!slot.given_up && cause != stop_cause::shutdown) {
        if (now - slot.stopped_at < options_.stop_grace) {
          at(slot.stopped_at + options_.stop_grace);
          continue;
        }
        slot.given_up = true;
        ++given_up_;
        then.wake_main = true;
        then.tell_gate = closed_;
        if (cause == stop_cause::lost) continue;
        // The handler still reads the job's bytes when the settlement is answered.
        ++slot.held.batch->open;
        if (cause == stop_cause::past_deadline) {
          given_up.push_back({.held = slot.held,
                              .how = ergon::verdict::bury,
                              .text = fmt::format("its deadline {} passed while it ran, and its handler does not stop",
                                                  format_time(*job.deadline)),
                              .delay = {}});
        } else {
          given_up.push_back(
              {.held = slot.held,
               .how = ergon::verdict::retry,
               .text = fmt::format("timed out after {}, and its handler does not stop", format_duration(slot.timeout)),
               .delay = {}});
        }
      }
    }
    bool went_back = false;
    while (ring_head_ < ring_.size() && !ring_[ring_head_].alone) {
      if (now - ring_[ring_head_].since < unstarted_for) {
        at(ring_[ring_head_].since + unstarted_for);
        break;
      }
      const held_job held = ring_[ring_head_++];
      push_ended({.held = held,
                  .lease = held.job->lease,
                  .how = ergon::verdict::hand_back,
                  .text = "it was not started in time",
                  .delay = {}},
                 then);
      went_back = true;
    }
    if (went_back) {
      if (ring_head_ == ring_.size()) {
        ring_.clear();
        ring_head_ = 0;
      }
      // What was measured is no guide any more: no prefetch until handlers were fast for a while.
      handler_ns_ = std::max(handler_ns_, 1e9);
      ahead_ = 0;
      then.wake_fetcher = std::exchange(fetcher_parked_, false);
      then.wake_main = true;
    }
    armed_until_ = next;
  }
  finish(stops);
  // A policy is the user's code: no lock is held.
  for (late& one : given_up) {
    if (one.how == ergon::verdict::retry) one.delay = retry_delay(one.held, one.text);
    log_.error(
        "a handler does not stop; its job is settled without it, its place stays taken",
        {{"job", public_id(*one.held.job)}, {"kind", one.held.job->kind}, {"queue", one.held.job->queue}, {"reason", one.text}});
    const std::scoped_lock lock{lock_};
    ++one.held.entry->failed;
    const lease_token lease = one.held.job->lease;
    push_ended({.held = one.held, .lease = lease, .how = one.how, .text = std::move(one.text), .delay = one.delay}, then);
  }
  finish(then);
  return next;
}

task<void> worker_core::watch_loop(std::shared_ptr<worker_core> self) {
  for (;;) {
    self->watch_wanted_.reset();
    const steady_time next = self->watch();
    if (next == steady_time::max()) {
      co_await self->watch_wanted_.wait();
      continue;
    }
    const auto span = next - self->steady();
    if (span.count() > 0) co_await as_result(timeout(span, wait_for(self->watch_wanted_)));
    co_await this_task::checkpoint();
  }
}

void worker_core::lose(std::span<const lease_token> leases) {
  if (leases.empty()) return;
  const std::unordered_set<lease_token, token_hash> gone{leases.begin(), leases.end()};
  const steady_time now = steady();
  std::vector<stopping> stops;
  std::vector<std::pair<std::string, std::string>> stopped;
  after then;
  bool alone = false;
  {
    const std::scoped_lock lock{lock_};
    const auto drop = [&](const held_job& held) {
      if (!gone.contains(held.job->lease)) return false;
      ++lost_;
      alone = alone || held.alone;
      release(held);
      return true;
    };
    for (const auto& slot : slots_) {
      if (!slot->running || slot->given_up || !gone.contains(slot->held.job->lease)) continue;
      ++lost_;
      stopped.emplace_back(public_id(*slot->held.job), slot->held.job->kind);
      if (slot->cause.load(std::memory_order_relaxed) == stop_cause::none) {
        stops.push_back(stop_slot(*slot, stop_cause::lost, now));
      } else {
        slot->cause.store(stop_cause::lost, std::memory_order_release);
      }
    }
    ring_.erase(std::remove_if(ring_.begin() + static_cast<std::ptrdiff_t>(ring_head_), ring_.end(), drop), ring_.end());
    if (ring_head_ == ring_.size()) {
      ring_.clear();
      ring_head_ = 0;
    }
    std::erase_if(suspects_, drop);
    then.wake_main = true;
    then.wake_fetcher = std::exchange(fetcher_parked_, false);
    if (!stops.empty()) then.rearm_watchdog = true;
  }
  for (const auto& [job, kind] : stopped) {
    log_.warn("a lease is lost (the job was cancelled, or another worker has it): its handler is stopped",
              {{"job", job}, {"kind", kind}});
  }
  finish(stops);
  if (alone) alone_settled_.set();
  finish(then);
}

task<void> worker_core::news_loop(std::shared_ptr<worker_core> self) {
  std::uint32_t failures = 0;
  for (;;) {
    std::string wrong;
    consumer_news news;
    try {
      news = co_await self->consumer_->news();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (wrong.empty()) {
      failures = 0;
      self->lose(news.lost);
      continue;
    }
    ++failures;
    const auto wait = half_jittered(backoff_bound(loop_backoff, failures));
    self->log_.error("no news about leases from the store; asking again",
                     {{"broker", self->broker_->url()}, {"error", wrong}, {"in", format_duration(wait)}});
    co_await sleep_for(wait);
  }
}

task<void> worker_core::maintain_loop(std::shared_ptr<worker_core> self) {
  std::uint32_t failures = 0;
  for (;;) {
    std::string wrong = "it ended";
    const steady_time began = self->steady();
    try {
      co_await self->consumer_->maintain();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (self->steady() - began > std::chrono::minutes{1}) failures = 0;
    ++failures;
    const auto wait = half_jittered(backoff_bound(loop_backoff, failures));
    self->log_.error("the upkeep of the store stopped; starting it again",
                     {{"broker", self->broker_->url()}, {"error", wrong}, {"in", format_duration(wait)}});
    co_await sleep_for(wait);
  }
}

void worker_core::progress_made() noexcept { report_wanted_.set(); }

task<void> worker_core::report_loop(std::shared_ptr<worker_core> self) {
  struct told {
    lease_token lease;
    double done;
    std::string note;
  };
  std::vector<told> latest;
  for (;;) {
    co_await self->report_wanted_.wait();
    self->report_wanted_.reset();
    {
      const std::scoped_lock lock{self->lock_};
      for (const auto& slot : self->slots_) {
        if (!slot->running || slot->given_up || slot->cause.load(std::memory_order_relaxed) == stop_cause::lost) continue;
        const std::scoped_lock told{slot->told_lock};
        if (!std::exchange(slot->progressed, false)) continue;
        latest.push_back({.lease = slot->held.job->lease, .done = slot->progress, .note = slot->note});
      }
    }
    for (const told& one : latest) {
      std::string wrong;
      try {
        co_await self->consumer_->report(one.lease, one.done, one.note);
      } catch (const std::exception& e) {
        wrong = e.what();
      }
      if (!wrong.empty()) {
        self->log_.debug("a progress report was lost", {{"broker", self->broker_->url()}, {"error", wrong}});
        break;
      }
    }
    latest.clear();
    co_await sleep_for(report_every);
  }
}

}  // namespace ergon::detail
