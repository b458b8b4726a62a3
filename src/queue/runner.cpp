// The hot path: a runner takes a job, calls its handler, says how it ended and takes the next.
#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/time.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/boundary.hpp"
#include "queue/middleware_chain.hpp"
#include "queue/process_gate.hpp"
#include "queue/worker_core.hpp"

namespace ergon::detail {

namespace {

/// Handlers that end without waiting run one after the other; after so many the runner lets others have the thread.
constexpr unsigned turns_without_yield = 64;

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    const std::string_view text = e.what();
    return text.empty() ? "an exception without a text" : std::string{text};
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

/// An outcome that was thrown is one that was returned.
void unpack_outcome(attempt_end& end) {
  try {
    std::rethrow_exception(end.thrown);
  } catch (ergon::outcome& verdict) {
    end.what = attempt_end::how::verdict;
    end.verdict = std::move(verdict);
  } catch (...) {
    return;
  }
  end.thrown = nullptr;
}

}  // namespace

bool parking::arm() noexcept {
  const std::scoped_lock lock{core_.lock_};
  if (core_.exiting_ || core_.can_start()) return false;
  slot_.parked = this;
  core_.idle_.push_back(&slot_);
  return true;
}

bool parking::disarm() noexcept {
  const std::scoped_lock lock{core_.lock_};
  if (slot_.parked != this) return false;
  slot_.parked = nullptr;
  std::erase(core_.idle_, &slot_);
  return true;
}

void worker_core::start_runner(attempt& slot) noexcept {
  {
    const std::scoped_lock lock{lock_};
    ++runners_;
  }
  try {
    const auto detached = runtime_.spawn(run_slot(shared_from_this(), slot), "ergon worker");
  } catch (...) {
    // The runtime is shutting down, or out of memory: the place stays empty.
    {
      const std::scoped_lock lock{lock_};
      if (std::exchange(slot.woken, false)) wake_pending_ = false;
    }
    runner_ended();
  }
}

void worker_core::runner_ended() noexcept {
  {
    const std::scoped_lock lock{lock_};
    --runners_;
  }
  changed_.set();
}

task<void> worker_core::run_slot(std::shared_ptr<worker_core> self, attempt& slot) {
  struct counted {
    worker_core& core;
    ~counted() { core.runner_ended(); }
  } const alive{*self};
  task_root& me = co_await this_root{};
  me.retain();
  {
    const std::scoped_lock lock{self->lock_};
    slot.root = root_ref<task_root>{&me};
  }
  unsigned turns = 0;
  ended_job ended;
  bool has_ended = false;
  bool settle = false;
  for (;;) {
    const next_step next = self->step(slot, has_ended ? &ended : nullptr, settle);
    has_ended = false;
    if (next == next_step::retire) {
      self->start_runner(slot);
      co_return;
    }
    if (next == next_step::leave) co_return;
    if (next == next_step::park) {
      parking wait{*self, slot};
      co_await wait;
      if (wait.stopped()) co_return;
      turns = 0;
      continue;
    }
    bool stopped = false;
    try {
      stopped = co_await boundary{invoke(slot)};
    } catch (...) {
      slot.end.what = attempt_end::how::threw;
      slot.end.thrown = std::current_exception();
    }
    settle = self->judge(slot, stopped, me.cancelled(), ended);
    has_ended = true;
    if (++turns == turns_without_yield) {
      turns = 0;
      co_await yield();
    }
  }
}

task<void> worker_core::invoke(attempt& slot) {
  if (slot.worker.around_.empty()) return slot.held.entry->handler->run(slot.context, slot.end);
  return run_around(slot);
}

std::chrono::nanoseconds worker_core::retry_delay(const held_job& held, std::string_view error) const noexcept {
  const std::uint32_t failures = held.job->failures + 1;
  try {
    const retry_policy& policy = held.entry != nullptr && held.entry->retry ? held.entry->retry : options_.retry;
    return std::clamp<std::chrono::nanoseconds>(policy(failures, error), std::chrono::nanoseconds{0}, longest_duration);
  } catch (...) {
    return jittered(backoff_bound({}, failures));
  }
}

bool worker_core::judge(attempt& slot, bool stopped, bool root_cancelled, ended_job& out) {
  attempt_end& end = slot.end;
  stop_cause cause = slot.cause.load(std::memory_order_acquire);
  out.held = slot.held;
  out.lease = slot.held.job->lease;
  out.how = ergon::verdict::complete;
  out.delay = {};
  const auto complete = [&] {
    if (end.text.size() > max_payload_) {
      out.how = ergon::verdict::bury;
      out.text = fmt::format("the result has {} bytes; this store takes at most {}", end.text.size(), max_payload_);
    } else {
      out.text.swap(end.text);
    }
    return true;
  };
  if (end.what == attempt_end::how::success && cause == stop_cause::none) return complete();
  if (cause == stop_cause::lost) return false;
  if (end.what == attempt_end::how::threw) unpack_outcome(end);
  // The runtime itself is being shut down.
  if (cause == stop_cause::none && stopped && root_cancelled) cause = stop_cause::shutdown;

  if (end.what == attempt_end::how::bad_payload) {
    out.how = ergon::verdict::bury;
    out.text.swap(end.text);
    return true;
  }
  if (end.what == attempt_end::how::verdict) {
    switch (end.verdict.verdict()) {
      case ergon::outcome::how::success:
        end.what = attempt_end::how::success;
        end.text = end.verdict.text();
        break;
      case ergon::outcome::how::retry:
        out.how = ergon::verdict::retry;
        out.delay = end.verdict.delay();
        out.text = end.verdict.text();
        return true;
      case ergon::outcome::how::fail:
        out.how = ergon::verdict::bury;
        out.text = end.verdict.text();
        return true;
      case ergon::outcome::how::cancel:
        out.how = ergon::verdict::cancel;
        out.text = end.verdict.text();
        return true;
    }
  }
  if (end.what == attempt_end::how::success) {
    // A plain function that never asked whether it should stop has done its work.
    const bool knew_nothing = slot.held.entry->handler->is_plain() && !slot.token_taken.load(std::memory_order_acquire);
    if (cause == stop_cause::none || knew_nothing) return complete();
  }
  const std::string why = end.what == attempt_end::how::threw ? text_of(end.thrown) : std::string{};
  switch (cause) {
    case stop_cause::shutdown:
      out.how = ergon::verdict::hand_back;
      out.text = "the worker shut down";
      return true;
    case stop_cause::timed_out:
      out.how = ergon::verdict::retry;
      out.text = fmt::format("timed out after {}{}{}", format_duration(slot.timeout), why.empty() ? "" : ": ", why);
      break;
    case stop_cause::past_deadline:
      out.how = ergon::verdict::bury;
      out.text = fmt::format("its deadline {} passed while it ran{}{}", format_time(*slot.held.job->deadline),
                             why.empty() ? "" : ": ", why);
      return true;
    default:
      out.how = ergon::verdict::retry;
      out.text = why.empty() ? "the handler's task was cancelled" : why;
      break;
  }
  out.delay = retry_delay(slot.held, out.text);
  return true;
}

bool worker_core::can_start() const noexcept {
  return ring_head_ < ring_.size() && !closed_ && (phase_ == phase::working || ring_[ring_head_].alone);
}

void worker_core::release(const held_job& held) noexcept {
  if (--held.batch->open == 0) {
    held.batch->batch.clear();
    free_batches_.push_back(held.batch);
  }
}

void worker_core::push_ended(ended_job&& job, after& then) {
  pending_.push_back(std::move(job));
  if (settler_parked_) {
    settler_parked_ = false;
    then.wake_settler = true;
  }
}

/// One wake-up leads to the next: who is woken wakes another before it starts its job, as long as jobs wait. So a runner whose
/// handlers never wait does all the work alone, and one whose handlers wait is not waited for.
void worker_core::wake_one(after& then) {
  if (wake_pending_ || !can_start()) return;
  attempt* slot = nullptr;
  if (!idle_.empty()) {
    slot = idle_.back();
    idle_.pop_back();
    then.wake_runner = std::exchange(slot->parked, nullptr);
  } else if (slots_.size() < options_.concurrency) {
    slots_.push_back(std::make_unique<attempt>(*this));
    idle_.reserve(slots_.capacity());
    slot = slots_.back().get();
    then.start_runner = slot;
  } else {
    return;
  }
  slot->woken = true;
  wake_pending_ = true;
}

worker_core::next_step worker_core::step(attempt& slot, ended_job* ended, bool settle) {
  const steady_time now = steady();
  after then;
  next_step next = next_step::park;
  if (ended != nullptr) {
    slot.end.what = attempt_end::how::open;
    slot.end.text.clear();
    slot.end.thrown = nullptr;
    slot.forget_told();
  }
  {
    const std::scoped_lock lock{lock_};
    if (ended != nullptr) {
      slot.running = false;
      --running_;
      kind_entry& entry = *slot.held.entry;
      const auto took = now - slot.started;
      entry.durations.add(took);
      const auto sample = static_cast<double>(took.count());
      handler_ns_ = handler_ns_ < 0 ? sample : handler_ns_ + (sample - handler_ns_) / 16;
      const bool cancelled_root = slot.cause.exchange(stop_cause::none, std::memory_order_relaxed) != stop_cause::none;
      if (slot.given_up) {
        slot.given_up = false;
        --given_up_;
        release(slot.held);
      } else if (settle) {
        switch (ended->how) {
          case ergon::verdict::complete:
            ++entry.completed;
            break;
          case ergon::verdict::retry:
          case ergon::verdict::bury:
            ++entry.failed;
            break;
          case ergon::verdict::cancel:
            ++entry.cancelled;
            break;
          default:
            break;
        }
        push_ended(std::move(*ended), then);
      } else {
        ++entry.cancelled;
        if (slot.held.alone) alone_settled_.set();
        release(slot.held);
      }
      ended->text.clear();
      if (running_ == given_up_) {
        if (closed_) then.tell_gate = true;
        then.wake_main = phase_ != phase::working || !suspects_.empty();
      }
      if (cancelled_root) next = next_step::retire;
    }
    if (slot.woken) {
      slot.woken = false;
      wake_pending_ = false;
    }
    if (next != next_step::retire) {
      while (can_start()) {
        held_job& first = ring_[ring_head_];
        slot.held = first;
        if (++ring_head_ == ring_.size()) {
          ring_.clear();
          ring_head_ = 0;
          then.wake_main = then.wake_main || !suspects_.empty();
        }
        const delivery& job = *slot.held.job;
        slot.due = steady_time::max();
        if (job.deadline) {
          const wall_time wall = clock().wall();
          if (wall >= *job.deadline) {
            push_ended({.held = slot.held,
                        .lease = job.lease,
                        .how = ergon::verdict::discard,
                        .text = "its deadline passed before it was started",
                        .delay = {}},
                       then);
            continue;
          }
          slot.due = now + std::min<std::chrono::nanoseconds>(*job.deadline - wall, longest_duration);
          slot.due_by_deadline = true;
        }
        if (job.timeout.count() > 0 && job.timeout < slot.due - now) {
          slot.due = now + job.timeout;
          slot.due_by_deadline = false;
        }
        slot.timeout = job.timeout;
        slot.started = now;
        slot.running = true;
        ++running_;
        if (slot.due < armed_until_) {
          armed_until_ = slot.due;
          then.rearm_watchdog = true;
        }
        next = next_step::run;
        break;
      }
      if (next == next_step::park && exiting_) next = next_step::leave;
    } else {
      slot.woken = true;
      wake_pending_ = true;
    }
    if (next == next_step::run) wake_one(then);
    if (fetcher_parked_ && room() >= fetch_threshold_) {
      fetcher_parked_ = false;
      then.wake_fetcher = true;
    }
  }
  steps_.fetch_add(1, std::memory_order_relaxed);
  finish(then);
  return next;
}

void worker_core::finish(after& then) noexcept {
  if (then.wake_runner != nullptr) then.wake_runner->wake();
  if (then.start_runner != nullptr) start_runner(*then.start_runner);
  if (then.wake_settler) settle_wanted_.set();
  if (then.wake_fetcher) fetch_wanted_.set();
  if (then.wake_main) {
    changed_.set();
    rest_changed_.set();
  }
  if (then.rearm_watchdog) watch_wanted_.set();
  if (then.tell_gate) process_gate::instance().changed();
}

}  // namespace ergon::detail
