#include "broker/sqlite/attendant.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ergon::sqlite {

namespace {

/// An idle worker pays for each: most of it is waking up.
constexpr std::chrono::seconds tick{2};
/// A calendar or suspend step that is worth looking at the schedule again.
constexpr std::chrono::milliseconds step{20};

}  // namespace

/// Tells without a look into the store whether anybody, of any process, may have committed: every commit writes to the log, and that
/// moves the file's time of modification.
class attendant::log_watch {
 public:
  explicit log_watch(std::string log) : path_{std::move(log)} {}

  /// Since the last call. To be called before one looks.
  [[nodiscard]] bool changed(wall_time now) noexcept {
    struct stat found;
    if (::stat(path_.c_str(), &found) != 0) {
      settled_ = false;
      return true;
    }
    const bool same = settled_ && found.st_mtim.tv_sec == modified_.tv_sec && found.st_mtim.tv_nsec == modified_.tv_nsec;
    modified_ = found.st_mtim;
    const auto age =
        now.time_since_epoch() - std::chrono::seconds{modified_.tv_sec} - std::chrono::nanoseconds{modified_.tv_nsec};
    settled_ = age > coarse;
    return !same;
  }

 private:
  /// Two commits this close to each other may leave the same time.
  static constexpr std::chrono::milliseconds coarse{100};

  std::string path_;
  timespec modified_{};
  bool settled_ = false;
};

/// An operation of the attendant's own, of which at most one is under way.
class attendant::chore : public operation_base {
 public:
  explicit chore(attendant& of) : of_{of} {}

  [[nodiscard]] bool is_free() const noexcept { return !busy_.load(std::memory_order_acquire); }
  void enlist() {
    busy_.store(true, std::memory_order_release);
    try {
      of_.commits_.enlist(*this);
    } catch (const error&) {
      busy_.store(false, std::memory_order_release);
    }
  }
  /// A failed one is tried again when the next is due: the lease lasts three beats.
  void finish() noexcept override { busy_.store(false, std::memory_order_release); }

 protected:
  ~chore() = default;
  attendant& of_;

 private:
  std::atomic<bool> busy_{false};
};

/// Renews every consumer's lease in one transaction and brings back what they lost.
class attendant::beat final : public chore {
 public:
  explicit beat(attendant& of) : chore{of} { drains = true; }

  void enlist() {
    {
      const std::lock_guard held{of_.mutex_};
      if (of_.consumers_.empty()) {
        return;
      }
    }
    chore::enlist();
  }

  void run(store& in) override {
    const std::lock_guard held{of_.mutex_};
    lost_.clear();
    for (enrolled* who : of_.consumers_) {
      lost_.emplace_back(who->owner(), in.beat(who->owner(), of_.steady_ms(), who->book()));
    }
  }
  void undo() noexcept override {
    const std::lock_guard held{of_.mutex_};
    lost_.clear();
    for (enrolled* who : of_.consumers_) {
      who->book().undo();
    }
  }
  void stored() noexcept override {
    const std::lock_guard held{of_.mutex_};
    for (enrolled* who : of_.consumers_) {
      who->book().settle_changes();
      const auto at = std::ranges::find(lost_, who->owner(), &std::pair<std::int64_t, std::vector<lease_token>>::first);
      if (at != lost_.end() && !at->second.empty()) {
        who->lost(at->second);
      }
    }
  }

 private:
  std::vector<std::pair<std::int64_t, std::vector<lease_token>>> lost_;
};

/// Looks, without a transaction, who works on the store; taking over from the dead is `maintain`'s.
class attendant::watch final : public chore {
 public:
  using chore::chore;

  bool is_needed(store& in) override {
    look(in);
    return false;
  }
  void run(store& in) override { look(in); }
  void finish() noexcept override {
    judge();
    chore::finish();
  }
  /// Whether those who were there at the last look live still. While it is free.
  void judge() {
    if (std::ranges::any_of(members_, [this](const member& who) { return of_.judge(who) != vitality::alive; })) {
      of_.stir();
    }
  }

 private:
  void look(store& in) { members_ = in.members(); }

  std::vector<member> members_;
};

attendant::attendant(committer& commits, side_file& side, ergon::clock& clock, std::chrono::milliseconds lease, std::string log)
    : commits_{commits},
      side_{side},
      clock_{clock},
      lease_{lease},
      boot_{clock.boot_id()},
      beat_{std::make_unique<beat>(*this)},
      watch_{std::make_unique<watch>(*this)},
      log_{std::make_unique<log_watch>(std::move(log))} {}

attendant::~attendant() { stop(); }

void attendant::stop() noexcept {
  listening_.reset();
  if (thread_.joinable()) {
    stop_.store(true, std::memory_order_release);
    side_.ring_self();
    thread_.join();
  }
}

std::int64_t attendant::steady_ms() const noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.steady().time_since_epoch()).count();
}

void attendant::start(std::unique_lock<std::mutex>& held) {
  if (!std::exchange(started_, true)) {
    held.unlock();
    if (clock_.is_manual()) {
      listening_ = clock_.listen([this] {
        renew();
        stir();
      });
    }
    thread_ = std::thread{[this] { attend(); }};
    return;
  }
  held.unlock();
  side_.ring_self();
}

void attendant::enroll(enrolled& who) {
  std::unique_lock held{mutex_};
  consumers_.push_back(&who);
  start(held);
}

void attendant::dismiss(enrolled& who) noexcept {
  const std::lock_guard held{mutex_};
  std::erase(consumers_, &who);
}

void attendant::add(waiter& who) {
  std::unique_lock held{mutex_};
  waiters_.push_back(&who);
  // Said before the caller looks at the store again, or the end of the job could fall between.
  side_.want(bell_ended | bell_revoked | bell_due);
  start(held);
}

void attendant::remove(waiter& who) noexcept {
  const std::lock_guard held{mutex_};
  std::erase(waiters_, &who);
}

void attendant::stir() noexcept {
  const std::lock_guard held{mutex_};
  for (enrolled* who : consumers_) {
    who->stir();
  }
}

void attendant::tell(effects& what) {
  constexpr auto everybody = std::numeric_limits<std::uint64_t>::max();
  for (const queue_row* row : what.ready) {
    if (row->has_ready()) {
      side_.ring(bell_queue(row->id), std::max<std::uint64_t>(1, row->made_ready));
    }
  }
  if (what.earlier_due) {
    const std::lock_guard held{mutex_};
    if (consumers_.empty()) {
      side_.ring(bell_due, everybody);
    }
    for (enrolled* who : consumers_) {
      who->stir();
    }
  }
  if (!what.ended.empty()) {
    {
      const std::lock_guard held{mutex_};
      for (waiter* who : waiters_) {
        if (std::ranges::find(what.ended, static_cast<std::int64_t>(who->serial)) != what.ended.end()) {
          who->rung.set();
        }
      }
    }
    side_.ring(bell_ended, everybody);
  }
  if (!what.revoked.empty()) {
    bool ours = false;
    {
      const std::lock_guard held{mutex_};
      ours = std::ranges::any_of(
          consumers_, [&](const enrolled* who) { return std::ranges::find(what.revoked, who->owner()) != what.revoked.end(); });
    }
    if (ours) {
      // The attendant's own thread asks for what was lost: this one is in the middle of a commit.
      side_.want(wanted() & ~bell_revoked);
      side_.ring_self();
    }
    side_.ring(bell_revoked, everybody);
  }
}

vitality attendant::judge(const member& who) {
  if (who.side == side_.id()) {
    if (who.slot == side_.slot() && who.token == side_.token()) {
      const std::lock_guard held{mutex_};
      const bool here = std::ranges::any_of(consumers_, [&](const enrolled* e) { return e->owner() == who.id; });
      return here ? vitality::alive : vitality::dead;
    }
    if (!side_.is_held(who.slot, who.token)) {
      return vitality::dead;
    }
  }
  // Another incarnation of the side file says nothing about its process: only the lease counts.
  if (who.boot != boot_) {
    return vitality::dead;
  }
  return steady_ms() - who.beat > lease_.count() ? vitality::silent : vitality::alive;
}

std::uint64_t attendant::wanted() {
  const std::lock_guard held{mutex_};
  std::uint64_t bits = bell_revoked;
  if (!waiters_.empty()) {
    bits |= bell_ended;
  }
  for (const enrolled* who : consumers_) {
    bits |= who->bits() | bell_due;
  }
  return bits;
}

void attendant::renew() {
  if (beat_->is_free()) {
    beat_->enlist();
    commits_.run_now();
  }
}

void attendant::attend() {
  // Ticks are the machine's: with a manual clock they only cost a look.
  auto& machine = clock::system();
  auto next_tick = machine.steady();
  auto last_beat = clock_.steady() - lease_;
  auto offset = clock_.wall().time_since_epoch() - clock_.boot();
  auto asleep = clock_.boot() - clock_.steady().time_since_epoch();
  std::uint64_t said = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    const auto heard = side_.heard();
    const auto wants = wanted();
    const auto rung = said & ~side_.want(wants);
    said = wants;
    const auto now = machine.steady();
    const bool ticked = now >= next_tick;
    if (ticked) {
      next_tick = now + tick;
    }
    const bool missed = ticked && log_->changed(machine.wall());
    // A bell for a queue that was wanted a moment ago and is not any more does no harm.
    constexpr std::uint64_t queues = bell_revoked - 1;
    if (missed || (rung & queues) != 0) {
      commits_.wake_fetches();
    }
    if ((rung & bell_due) != 0) {
      stir();
    }
    if (missed || (rung & bell_ended) != 0) {
      const std::lock_guard held{mutex_};
      for (waiter* who : waiters_) {
        who->rung.set();
      }
    }
    if (ticked) {
      const auto new_offset = clock_.wall().time_since_epoch() - clock_.boot();
      const auto new_asleep = clock_.boot() - clock_.steady().time_since_epoch();
      if (std::chrono::abs(new_offset - offset) > step || std::chrono::abs(new_asleep - asleep) > step) {
        offset = new_offset;
        asleep = new_asleep;
        stir();
      }
      if (watch_->is_free()) {
        if (missed) {
          watch_->enlist();
        } else {
          watch_->judge();
        }
      }
    }
    if (beat_->is_free() && ((rung & bell_revoked) != 0 || clock_.steady() - last_beat >= lease_ / 3)) {
      last_beat = clock_.steady();
      beat_->enlist();
    }
    commits_.run_now();
    side_.wait(heard, std::max(std::chrono::nanoseconds{0}, next_tick - machine.steady()));
  }
}

}  // namespace ergon::sqlite
