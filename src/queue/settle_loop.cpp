// What has ended goes to the broker: all of one turn together, one settlement at a time on its way. Nothing is given up until it
// is stored or its lease is known to be lost.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/text.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/worker_core.hpp"

namespace ergon::detail {

namespace {

constexpr std::size_t most_at_once = 512;
constexpr std::size_t most_bytes_at_once = 1 << 20;
constexpr backoff_options settle_backoff{
    .base = std::chrono::milliseconds{50}, .factor = 2.0, .cap = std::chrono::seconds{5}, .jitter = true};

/// Another try cannot help: the settlement itself is wrong.
bool is_hopeless(errc reason) noexcept {
  return reason == errc::invalid_argument || reason == errc::too_large || reason == errc::bad_payload ||
         reason == errc::not_supported;
}

/// It may be one settlement alone that the store cannot take; otherwise it is the store that is away.
bool concerns_one(errc reason) noexcept { return reason == errc::store_full || is_hopeless(reason); }

}  // namespace

void worker_core::count_end(const ended_job& job, ergon::settled how) noexcept {
  switch (how) {
    case ergon::settled::yes:
      switch (job.how) {
        case ergon::verdict::complete:
          ++completed_;
          break;
        case ergon::verdict::retry:
          ++failed_;
          break;
        case ergon::verdict::bury:
          ++failed_;
          ++buried_;
          break;
        case ergon::verdict::hand_back:
          ++handed_back_;
          break;
        case ergon::verdict::discard:
          ++discarded_;
          break;
        case ergon::verdict::cancel:
          ++cancelled_;
          break;
      }
      break;
    case ergon::settled::buried:
      ++failed_;
      ++buried_;
      break;
    case ergon::settled::lost:
      ++lost_;
      break;
  }
}

void worker_core::log_end(const ended_job& job, ergon::settled how) const {
  const delivery& of = *job.held.job;
  if (how == ergon::settled::lost) {
    if (job.how != ergon::verdict::hand_back) {
      log_.warn("a job ended after its lease was lost; what its handler said is ignored",
                {{"job", public_id(of)}, {"kind", of.kind}, {"queue", of.queue}});
    }
  } else if (how == ergon::settled::buried || job.how == ergon::verdict::bury) {
    log_.error("a job is dead", {{"job", public_id(of)},
                                 {"kind", of.kind},
                                 {"queue", of.queue},
                                 {"failures", log_number(of.failures + 1)},
                                 {"reason", job.text}});
  } else if (job.how == ergon::verdict::retry) {
    log_.warn("a job failed and will be tried again", {{"job", public_id(of)},
                                                       {"kind", of.kind},
                                                       {"queue", of.queue},
                                                       {"failures", log_number(of.failures + 1)},
                                                       {"in", format_duration(job.delay)},
                                                       {"error", job.text}});
  }
}

task<worker_core::answer> worker_core::settle_some(std::span<ended_job> some) {
  std::vector<settlement>& what = settle_what_;
  std::vector<settled>& out = settle_out_;
  what.clear();
  out.assign(some.size(), settled::yes);
  for (const ended_job& job : some) what.push_back({.lease = job.lease, .how = job.how, .text = job.text, .delay = job.delay});

  std::string wrong;
  errc reason{};
  try {
    co_await consumer_->settle(what, out);
  } catch (const error& e) {
    wrong = e.what();
    reason = e.reason();
  } catch (const std::exception& e) {
    wrong = e.what();
    reason = errc::unavailable;
  }
  if (!wrong.empty()) {
    if (some.size() == 1 && is_hopeless(reason)) {
      ended_job& job = some.front();
      log_.error("the store refuses how a job ended; it is buried instead",
                 {{"job", public_id(*job.held.job)}, {"kind", job.held.job->kind}, {"error", wrong}});
      job.how = ergon::verdict::bury;
      job.text = fmt::format("the store refused how it ended: {}", wrong);
      if (job.text.size() > 512) job.text.resize(utf8_prefix(std::string_view{job.text}.substr(0, 512)));
      job.delay = {};
    }
    const std::scoped_lock lock{lock_};
    settle_error_ = wrong;
    co_return concerns_one(reason) ? answer::refused : answer::away;
  }
  bool alone = false;
  after then;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (some[i].how != ergon::verdict::complete || out[i] != settled::yes) log_end(some[i], out[i]);
  }
  {
    const std::scoped_lock lock{lock_};
    for (std::size_t i = 0; i < some.size(); ++i) {
      const ended_job& job = some[i];
      count_end(job, out[i]);
      alone = alone || job.held.alone;
      release(job.held);
    }
    settling_ -= some.size();
    then.wake_main = phase_ != phase::working;
    if (fetcher_parked_ && room() >= fetch_threshold_) {
      fetcher_parked_ = false;
      then.wake_fetcher = true;
    }
  }
  if (alone) alone_settled_.set();
  steps_.fetch_add(1, std::memory_order_relaxed);
  finish(then);
  co_return answer::stored;
}

task<void> worker_core::settle_loop(std::shared_ptr<worker_core> self) {
  std::vector<ended_job> taken;
  std::vector<ended_job> stuck;
  std::uint32_t failures = 0;
  bool one_by_one = false;
  for (;;) {
    bool nothing = false;
    {
      const std::scoped_lock lock{self->lock_};
      if (self->pending_.empty() && stuck.empty()) {
        self->settle_wanted_.reset();
        self->settler_parked_ = true;
        nothing = true;
      } else {
        self->settling_ += self->pending_.size();
        taken.swap(self->pending_);
      }
    }
    if (nothing) {
      if (!co_await as_result(self->settle_wanted_.wait())) co_return;
      continue;
    }
    if (!stuck.empty()) {
      // What could not be stored goes first: its order among the rest does not matter, its age does.
      for (ended_job& job : taken) stuck.push_back(std::move(job));
      taken.swap(stuck);
      stuck.clear();
    }
    bool failed = false;
    for (std::size_t at = 0; at < taken.size();) {
      std::size_t count = 0;
      for (std::size_t bytes = 0; at + count < taken.size() && count < (one_by_one ? 1 : most_at_once); ++count) {
        bytes += taken[at + count].text.size() + 64;
        if (count > 0 && bytes > most_bytes_at_once) break;
      }
      const std::span<ended_job> some{taken.data() + at, count};
      const answer got = co_await self->settle_some(some);
      if (got == answer::refused && count > 1) {
        // One that the store does not take must not hold up the others.
        one_by_one = true;
        continue;
      }
      at += count;
      if (got == answer::stored) continue;
      failed = true;
      const std::size_t until = got == answer::away ? taken.size() : at;
      for (std::size_t i = at - count; i < until; ++i) stuck.push_back(std::move(taken[i]));
      at = until;
    }
    taken.clear();
    if (failed) {
      ++failures;
      std::string why;
      {
        const std::scoped_lock lock{self->lock_};
        self->settle_failing_ = true;
        why = self->settle_error_;
      }
      const auto wait = half_jittered(backoff_bound(settle_backoff, failures));
      self->log_.error(
          "the store does not take how jobs ended; they are kept and tried again",
          {{"broker", self->broker_->url()}, {"error", why}, {"jobs", log_number(stuck.size())}, {"in", format_duration(wait)}});
      if (!co_await as_result(sleep_for(wait))) co_return;
    } else if (failures > 0) {
      failures = 0;
      one_by_one = false;
      self->log_.info("the store takes how jobs ended again", {{"broker", self->broker_->url()}});
      after then;
      {
        const std::scoped_lock lock{self->lock_};
        self->settle_failing_ = false;
        self->settle_error_.clear();
        then.wake_fetcher = std::exchange(self->fetcher_parked_, false);
      }
      self->finish(then);
    }
  }
}

}  // namespace ergon::detail
