#include "broker/sqlite/sqlite_consumer.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <ergon/runtime/sleep.hpp>

#include "broker/rest.hpp"

namespace ergon::sqlite {

namespace {

constexpr std::size_t promote_step = 500;
constexpr std::size_t reclaim_step = 200;
constexpr std::size_t expire_step = 500;
constexpr std::chrono::seconds sweep_every{60};

/// A fetch whose frame is destroyed must not find jobs for nobody.
class withdrawal {
 public:
  withdrawal(committer& from, fetch_base& fetch, std::atomic<bool>& wanted) : from_{from}, fetch_{fetch}, wanted_{wanted} {
    wanted_ = true;
  }
  withdrawal(const withdrawal&) = delete;
  withdrawal& operator=(const withdrawal&) = delete;
  ~withdrawal() {
    if (wanted_.exchange(false)) {
      from_.withdraw(fetch_);
    }
  }
  /// Says that nobody waits any more. True: what it has found, if anything, is there; false: `finish` is on its way.
  bool give_up() noexcept {
    wanted_ = false;
    return from_.withdraw(fetch_);
  }
  void found() noexcept { wanted_ = false; }

 private:
  committer& from_;
  fetch_base& fetch_;
  std::atomic<bool>& wanted_;
};

}  // namespace

/// Settlements of one call.
class sqlite_consumer::settling final : public operation_base {
 public:
  settling(sqlite_consumer& by, std::span<const settlement> what, std::span<settled> out) : by_{by}, what_{what}, out_{out} {
    drains = true;
  }

  void run(store& in) override { in.settle(by_.name_, what_, out_, by_.book_); }
  void undo() noexcept override { by_.book_.undo(); }
  void stored() noexcept override { by_.book_.settle_changes(); }
  void finish() noexcept override { done.complete(); }

  completion done;

 private:
  sqlite_consumer& by_;
  std::span<const settlement> what_;
  std::span<settled> out_;
};

sqlite_consumer::sqlite_consumer(std::shared_ptr<sqlite_broker> of, std::string name, std::int64_t owner,
                                 std::vector<std::int64_t> queues, shares turns)
    : broker_{std::move(of)}, name_{std::move(name)}, owner_{owner}, queues_{std::move(queues)}, turns_{std::move(turns)} {
  for (const auto queue : queues_) {
    bits_ |= bell_queue(queue);
  }
  broker_->attends().enroll(*this);
}

sqlite_consumer::~sqlite_consumer() { abandon(); }

void sqlite_consumer::abandon() noexcept {
  if (std::exchange(gone_, true)) {
    return;
  }
  broker_->attends().dismiss(*this);
  while (!broker_->commits().withdraw(*this)) {
    std::this_thread::yield();
  }
}

bool sqlite_consumer::is_needed(store& in) { return wanted_ && !found() && in.anything_ready(queues_); }

void sqlite_consumer::run(store& in) {
  claimed_ = wanted_ && !found();
  if (claimed_) {
    in.claim(owner_, queues_, turns_, max_, staged_, book_);
  }
}

void sqlite_consumer::undo() noexcept {
  if (std::exchange(claimed_, false)) {
    staged_.clear();
  }
  book_.undo();
}

void sqlite_consumer::stored() noexcept {
  claimed_ = false;
  book_.settle_changes();
}

bool sqlite_consumer::wants(std::span<queue_row* const> queues) const noexcept {
  return wanted_ && std::ranges::any_of(
                        queues, [this](const queue_row* row) { return std::ranges::find(queues_, row->id) != queues_.end(); });
}

void sqlite_consumer::lost(std::span<const lease_token> leases) {
  const std::lock_guard held{news_mutex_};
  lost_.insert(lost_.end(), leases.begin(), leases.end());
  news_.set();
}

task<void> sqlite_consumer::fetch(std::size_t max, delivery_batch& out) {
  if (gone_) {
    throw error{errc::closed, fmt::format("the worker {} has left the store", name_)};
  }
  max_ = std::max<std::size_t>(1, max);
  withdrawal guard{broker_->commits(), *this, wanted_};
  ready_.reset();
  broker_->commits().submit_fetch(*this);
  auto found_or_stopped = ready_.wait();
  found_or_stopped.report_stop();
  co_await found_or_stopped;
  if (found_or_stopped.stopped() && !guard.give_up()) {
    // It is being executed. What it finds is leased and somebody's: it is given out, and the cancel stops the next wait.
    auto end = ready_.wait();
    end.ignore_cancel();
    co_await end;
  }
  guard.found();
  if (found_or_stopped.stopped() && !found() && !failure) {
    co_await detail::stop_here{};
  }
  if (auto failed = std::exchange(failure, nullptr)) {
    std::rethrow_exception(failed);
  }
  std::swap(out, staged_);
  staged_.clear();
}

task<void> sqlite_consumer::settle(std::span<const settlement> what, std::span<settled> out) {
  settling op{*this, what, out};
  broker_->commits().submit(op);
  co_await op.done;
  if (op.failure) {
    std::rethrow_exception(op.failure);
  }
}

task<bool> sqlite_consumer::mark(lease_token lease) {
  bool owned = false;
  co_await commit(broker_->commits(), room::made, [&](store& in) { owned = in.mark(static_cast<std::int64_t>(lease.number)); });
  co_return owned;
}

task<void> sqlite_consumer::report(lease_token lease, double done, std::string_view note) {
  co_await commit(broker_->commits(), room::taken,
                  [&](store& in) { in.report(static_cast<std::int64_t>(lease.number), done, note); });
}

task<consumer_news> sqlite_consumer::news() {
  for (;;) {
    {
      const std::lock_guard held{news_mutex_};
      news_.reset();
      if (!lost_.empty()) {
        co_return consumer_news{.lost = std::exchange(lost_, {})};
      }
    }
    co_await news_.wait();
  }
}

task<void> sqlite_consumer::maintain() {
  ergon::clock& clk = broker_->clock();
  attendant& attends = broker_->attends();
  committer& commits = broker_->commits();
  auto next_sweep = clk.steady();
  for (;;) {
    stirred_.reset();
    // Read before the store's clock is: if somebody moves the clock meanwhile, what was looked at is old and is looked at again.
    const steady_time began = clk.steady();
    const bool sweep = began >= next_sweep;
    bool more = false;
    next_due next;
    std::int64_t store_now = 0;
    co_await commit(commits, room::made, [&](store& in) {
      more = in.promote(promote_step);
      more = in.reclaim([&](const member& who) { return attends.judge(who); }, reclaim_step) || more;
      if (sweep) {
        more = in.expire(expire_step) || more;
        more = in.reclaim_orphans(reclaim_step) == reclaim_step || more;
        in.anchor_epoch();
        commits.load_ballast();
      }
      next = in.upcoming();
      store_now = in.store_now();
    });
    if (more) {
      co_await yield();
      continue;
    }
    if (sweep) {
      next_sweep = began + sweep_every;
      commits.tidy();
    }
    steady_time until = next_sweep;
    if (next.store_ms) {
      until = std::min(until, began + std::chrono::milliseconds{*next.store_ms - store_now});
    }
    std::chrono::nanoseconds pause = until - clk.steady();
    if (next.wall_ms) {
      pause = std::min<std::chrono::nanoseconds>(pause, wall_time{std::chrono::milliseconds{*next.wall_ms}} - clk.wall());
    }
    co_await rest(stirred_, pause);
  }
}

task<void> sqlite_consumer::leave() {
  while (!broker_->commits().withdraw(*this)) {
    co_await yield();
  }
  co_await commit(broker_->commits(), room::made, [this](store& in) {
    in.hand_back_all(book_);
    in.leave(owner_);
  });
  broker_->attends().dismiss(*this);
  gone_ = true;
}

}  // namespace ergon::sqlite
