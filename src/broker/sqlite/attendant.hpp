// The thread that keeps a process's workers alive in a SQLite store, whatever its runtime and its handlers do: it renews their
// leases, hears the bell of other processes, and every two seconds sees whether a worker has died or a commit was not rung. It starts with
// the first worker or the first wait for a result.
//
// `mutex_` guards the lists of consumers and waiters. What the attendant does with a consumer or a waiter it does under `mutex_`, so that one that
// has been dismissed is left alone; that includes the few rows that a beat writes for each consumer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/event.hpp>

#include "broker/sqlite/committer.hpp"
#include "broker/sqlite/side_file.hpp"
#include "broker/sqlite/store.hpp"

namespace ergon::sqlite {

/// A consumer, seen by the attendant.
class enrolled {
 public:
  [[nodiscard]] virtual std::int64_t owner() const noexcept = 0;
  /// The bell bits of its queues.
  [[nodiscard]] virtual std::uint64_t bits() const noexcept = 0;
  /// There may be something to promote, reclaim or expire.
  virtual void stir() noexcept = 0;
  virtual void lost(std::span<const lease_token> leases) = 0;
  /// Its leases, for the executor of a transaction.
  [[nodiscard]] virtual lease_book& book() noexcept = 0;

 protected:
  ~enrolled() = default;
};

/// Somebody who waits for the end of a job.
struct waiter {
  std::uint64_t serial = 0;
  event rung;
};

class attendant {
 public:
  /// `log`: the path of the database's write-ahead log.
  attendant(committer& commits, side_file& side, ergon::clock& clock, std::chrono::milliseconds lease, std::string log);
  attendant(const attendant&) = delete;
  attendant& operator=(const attendant&) = delete;
  ~attendant();
  /// Ends the thread. No other call may come after it but `tell` and `judge`.
  void stop() noexcept;

  void enroll(enrolled& who);
  void dismiss(enrolled& who) noexcept;
  void add(waiter& who);
  void remove(waiter& who) noexcept;

  /// What a transaction of this process has done: passed on to whom it concerns, here and in other processes.
  void tell(effects& what);
  /// Lets every consumer here look at the schedule again.
  void stir() noexcept;
  /// Whether the worker of that row lives.
  [[nodiscard]] vitality judge(const member& who);
  [[nodiscard]] std::chrono::milliseconds lease() const noexcept { return lease_; }
  [[nodiscard]] std::int64_t steady_ms() const noexcept;

 private:
  class chore;
  class beat;
  class watch;
  class log_watch;

  void start(std::unique_lock<std::mutex>& held);
  void attend();
  void renew();
  [[nodiscard]] std::uint64_t wanted();

  committer& commits_;
  side_file& side_;
  ergon::clock& clock_;
  std::chrono::milliseconds lease_;
  std::string boot_;

  std::mutex mutex_;
  std::vector<enrolled*> consumers_;
  std::vector<waiter*> waiters_;
  bool started_ = false;
  std::atomic<bool> stop_{false};
  std::unique_ptr<beat> beat_;
  std::unique_ptr<watch> watch_;
  std::unique_ptr<log_watch> log_;
  std::shared_ptr<void> listening_;
  std::thread thread_;
};

}  // namespace ergon::sqlite
