// The worker behind `ergon::worker`: what it holds, and the loops that move it.
//
//   fetch loop ──ring──▶ runners (one root per place, at most `concurrency`) ──pending──▶ settle loop
//
// A runner runs handler after handler on one root, without a spawn in between; it takes its next job in the same step in which it
// gives up the last. What ends in one turn of the runtime lies in `pending_` by the time the settle loop wakes, and goes out as
// one settlement. Beside them: the watchdog (time limits, what waits too long unstarted), the news loop (leases that were lost),
// the report loop (progress), the broker's `maintain`, and `main`, which starts them and sees to a good end.
//
// Stopping a handler cancels its root. The runner sees the end of the stopped path, settles, and makes room for a new root: a
// cancelled one can wait for nothing any more.
//
// Locking. `lock_` guards all that is not said to belong to one loop. It is taken once per job, and nothing is called out under
// it: whoever finds something to wake or to stop does so after it has unlocked (`after`). Order: a root's lock, the process gate's,
// `lock_`, an attempt's `told_lock`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/log.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/queue/worker.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/work.hpp>

#include "queue/attempt.hpp"
#include "queue/kind_entry.hpp"

namespace ergon::detail {

/// An attempt that is over, on its way to the broker.
struct ended_job {
  held_job held;
  lease_token lease;
  ergon::verdict how = ergon::verdict::complete;
  std::string text;
  std::chrono::nanoseconds delay{0};
};

class worker_core : public std::enable_shared_from_this<worker_core> {
 public:
  worker_core(std::shared_ptr<ergon::broker> from, worker_options options);
  worker_core(const worker_core&) = delete;
  worker_core& operator=(const worker_core&) = delete;
  ~worker_core();

  // Set-up: one thread, before `start`.
  void add(std::unique_ptr<job_handler> handler, kind_names names, const std::type_info& type, handler_options options);
  void use(middleware around);

  /// From joining to leaving. Throws what the broker says where it cannot join. Once.
  [[nodiscard]] static task<void> main(std::shared_ptr<worker_core> self);
  /// Once: begin the shutdown. Again: end the grace time. Any thread.
  void stop() noexcept;
  /// The worker object is gone: as a crash would leave it. Any thread.
  void abandon() noexcept;

  [[nodiscard]] worker_health health();
  [[nodiscard]] std::string id() const;
  /// For handlers: set before any of them starts.
  [[nodiscard]] const std::string& consumer_id() const noexcept;
  [[nodiscard]] const std::shared_ptr<ergon::broker>& broker() const noexcept { return broker_; }
  [[nodiscard]] ergon::runtime& runtime() const noexcept { return runtime_; }
  [[nodiscard]] ergon::clock& clock() const noexcept { return broker_->clock(); }
  [[nodiscard]] const ergon::logger& logger() const noexcept { return log_; }
  [[nodiscard]] std::uint32_t concurrency() const noexcept { return options_.concurrency; }
  [[nodiscard]] const std::vector<middleware>& around() const noexcept { return around_; }

  /// A number that grows with everything that happens here: the test kit's measure of rest.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_.load(std::memory_order_relaxed); }
  /// Nothing can be started or settled right now: what goes on waits for the broker, for time, or for a handler.
  [[nodiscard]] bool is_quiet() const;

  // For job_context.
  void progress_made() noexcept;

  // For the process gate.
  void close_for_suspect();
  void open_after_suspect();
  [[nodiscard]] bool runs_nothing() const;

 private:
  friend class parking;

  /// What is to be done once the lock is free.
  struct after {
    parking* wake_runner = nullptr;
    attempt* start_runner = nullptr;
    bool wake_settler = false;
    bool wake_fetcher = false;
    bool wake_main = false;
    bool tell_gate = false;
    bool rearm_watchdog = false;
  };
  /// A handler to stop: its root, and the stop source if it asked for the token.
  struct stopping {
    root_ref<task_root> root;
    std::optional<std::stop_source> source;
  };
  enum class next_step : std::uint8_t { run, park, retire, leave };
  enum class phase : std::uint8_t { created, joining, working, draining, leaving, over };
  enum class fetch_state : std::uint8_t { none, waits_for_room, asks, backs_off, waits_alone };

  // worker_core.cpp: life and death.
  task<void> join_broker();
  task<void> shut_down();
  template <class Condition>
  task<bool> until(Condition holds, std::chrono::nanoseconds span, bool now_ends_it);
  void hand_back_unstarted(after& then);
  std::size_t stop_all(stop_cause why);
  void release_slots() noexcept;

  // runner.cpp
  static task<void> run_slot(std::shared_ptr<worker_core> self, attempt& slot);
  static task<void> invoke(attempt& slot);
  void start_runner(attempt& slot) noexcept;
  void runner_ended() noexcept;
  /// False: nothing is to be settled.
  bool judge(attempt& slot, bool stopped, bool root_cancelled, ended_job& out);
  std::chrono::nanoseconds retry_delay(const held_job& held, std::string_view error) const noexcept;
  next_step step(attempt& slot, ended_job* ended, bool settle);

  // fetch_loop.cpp
  static task<void> fetch_loop(std::shared_ptr<worker_core> self);
  task<void> run_suspects();
  [[nodiscard]] std::size_t room() const noexcept;
  void accept(held_batch& batch, std::size_t asked, std::chrono::nanoseconds took);
  kind_entry* entry_of(std::string_view kind);
  void give_back_unknown(held_job held, std::string_view what, ended_job& out);

  // settle_loop.cpp
  static task<void> settle_loop(std::shared_ptr<worker_core> self);
  enum class answer : std::uint8_t { stored, refused, away };
  task<answer> settle_some(std::span<ended_job> some);
  void log_end(const ended_job& job, ergon::settled how) const;

  // watchdog.cpp
  static task<void> watch_loop(std::shared_ptr<worker_core> self);
  static task<void> news_loop(std::shared_ptr<worker_core> self);
  static task<void> report_loop(std::shared_ptr<worker_core> self);
  static task<void> maintain_loop(std::shared_ptr<worker_core> self);
  steady_time watch();
  void lose(std::span<const lease_token> leases);

  // Under the lock.
  void count_end(const ended_job& job, ergon::settled how) noexcept;
  void push_ended(ended_job&& job, after& then);
  void release(const held_job& held) noexcept;
  bool can_start() const noexcept;
  void wake_one(after& then);
  stopping stop_slot(attempt& slot, stop_cause why, steady_time now);
  // Without it.
  void finish(after& then) noexcept;
  static void finish(std::vector<stopping>& all) noexcept;

  [[nodiscard]] steady_time steady() const noexcept { return runtime_.clock().steady(); }
  held_batch* take_batch();

  const std::shared_ptr<ergon::broker> broker_;
  ergon::runtime& runtime_;
  worker_options options_;
  const std::size_t max_payload_;
  ergon::logger log_;
  std::vector<middleware> around_;
  std::vector<std::unique_ptr<kind_entry>> entries_;
  /// The names that `by_kind_` points to.
  std::deque<std::string> names_;
  boost::unordered_flat_map<std::string_view, kind_entry*> by_kind_;
  std::unique_ptr<consumer> consumer_;
  std::atomic<std::uint64_t> steps_{0};

  mutable std::mutex lock_;
  phase phase_ = phase::created;
  std::string id_;
  /// No job starts: a suspect of another worker of this process is to run, or runs, alone.
  bool closed_ = false;
  /// Runners end instead of parking.
  bool exiting_ = false;

  std::vector<std::unique_ptr<attempt>> slots_;
  std::vector<attempt*> idle_;
  bool wake_pending_ = false;
  std::uint32_t running_ = 0;
  /// Handlers whose jobs were settled without them.
  std::uint32_t given_up_ = 0;
  /// Roots of `run_slot` that have not ended.
  std::uint32_t runners_ = 0;

  /// What was fetched and has not started: from `ring_head_` on.
  std::vector<held_job> ring_;
  std::size_t ring_head_ = 0;
  /// Jobs that have to run alone, in the fetch loop's hands.
  std::vector<held_job> suspects_;
  std::vector<std::unique_ptr<held_batch>> batches_;
  std::vector<held_batch*> free_batches_;

  std::vector<ended_job> pending_;
  std::size_t settling_ = 0;
  bool settler_parked_ = false;
  bool settle_failing_ = false;
  std::string settle_error_;

  bool fetcher_parked_ = false;
  std::size_t fetch_threshold_ = 1;
  std::size_t ahead_ = 0;
  /// Moving averages; negative as long as nothing was measured.
  double handler_ns_ = -1;
  double round_trip_ns_ = -1;
  fetch_state fetch_state_ = fetch_state::none;
  std::string fetch_error_;
  std::string join_error_;

  steady_time armed_until_ = steady_time::max();
  bool dirty_ = false;

  std::uint64_t completed_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t buried_ = 0;
  std::uint64_t discarded_ = 0;
  std::uint64_t handed_back_ = 0;
  std::uint64_t lost_ = 0;
  /// What was handed back for want of somebody who understands it, with when it was last seen.
  std::map<std::string, steady_time, std::less<>> not_understood_;

  struct probe final : work {
    void run() noexcept override;
    std::shared_ptr<worker_core> keeps;
    steady_time asked{};
    bool queued = false;
  };
  probe probe_;

  // Events: any thread.
  event fetch_wanted_;
  event settle_wanted_;
  event watch_wanted_;
  event report_wanted_;
  /// Something that `main` may be waiting for has changed.
  event changed_;
  /// The same for the fetch loop, when a suspect waits to be alone.
  event rest_changed_;
  event stop_wanted_;
  event now_wanted_;
  event alone_settled_;
  std::atomic<std::uint32_t> stops_{0};
  std::atomic<bool> abandoned_{false};

  // The settle loop's own, kept for their memory.
  std::vector<settlement> settle_what_;
  std::vector<settled> settle_out_;

  // The fetch loop's own.
  std::vector<held_job> incoming_;
  std::string last_kind_;
  kind_entry* last_entry_ = nullptr;
  struct unknown_job {
    std::chrono::nanoseconds first{0};
    std::chrono::nanoseconds last{0};
    std::uint32_t times = 0;
  };
  std::unordered_map<std::string, unknown_job> unknown_jobs_;
};

/// The wait of a runner that has nothing to run.
class parking final : public operation {
 public:
  parking(worker_core& core, attempt& slot) noexcept : core_(core), slot_(slot) { report_stop(); }
  ~parking() = default;
  void await_resume() const noexcept {}
  using operation::wake;

 private:
  bool arm() noexcept override;
  bool disarm() noexcept override;

  worker_core& core_;
  attempt& slot_;
};

}  // namespace ergon::detail
