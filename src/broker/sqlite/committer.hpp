// Group commit: operations that arrive within one turn of the runtime share a transaction, and so do those that arrive while
// another transaction is written.
//
// Locking. `mutex_` guards the queue, the idle fetches and who executes; it is never held while SQLite works. At most one thread executes at a time,
// and only it touches the connection, the store and operations that it took from the queue. An operation that arrives while nobody executes is
// executed by a work item that the runtime runs after what is ready now, in place if the lock between processes is free: going to
// another thread and back would cost more than the commit. If the lock is taken, or every commit waits for the disk
// (synchronous=full), a thread of ours does it, so that the runtime's never waits. A thread that must not depend on the runtime
// (heartbeats) calls `run_now`.
//
// An executor that finds the queue empty gives up its role under `mutex_`; an operation that is queued under `mutex_` before that is its to
// execute, one after that finds nobody and posts. So none is left behind.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/runtime.hpp>

#include "broker/sqlite/database.hpp"
#include "broker/sqlite/process_mark.hpp"
#include "broker/sqlite/side_file.hpp"
#include "broker/sqlite/store.hpp"

namespace ergon::sqlite {

class fetch_base;

/// Something to do in a transaction.
class operation_base {
 public:
  operation_base() = default;
  operation_base(const operation_base&) = delete;
  operation_base& operator=(const operation_base&) = delete;

  /// False after a look at the store without a transaction: there is nothing to write. A transaction that is needed for others runs it all the same.
  virtual bool is_needed(store& /*in*/) { return true; }
  /// May run again after `undo`, if the transaction could not be stored.
  virtual void run(store& in) = 0;
  virtual void undo() noexcept {}
  /// The transaction stands.
  virtual void stored() noexcept {}
  /// The last call: `failure` is set or it is done. The operation may be destroyed in it.
  virtual void finish() noexcept = 0;
  virtual fetch_base* as_fetch() noexcept { return nullptr; }

  std::exception_ptr failure;
  /// It makes room: even a full store should take it (promise 11).
  bool drains = false;

 protected:
  ~operation_base() = default;
};

/// A fetch: an operation that stays with the committer until it has found something. One per consumer.
class fetch_base : public operation_base {
 public:
  [[nodiscard]] virtual bool found() const noexcept = 0;
  /// Whether one of these queues is its.
  [[nodiscard]] virtual bool wants(std::span<queue_row* const> queues) const noexcept = 0;
  /// Looks once more within a transaction in which jobs became ready.
  virtual void run_again(store& in) = 0;
  fetch_base* as_fetch() noexcept final { return this; }

 protected:
  ~fetch_base() = default;

 private:
  friend class committer;
  enum class state : std::uint8_t { idle, queued, waiting };
  state state_ = state::idle;
  /// Taken back while it was executed.
  bool withdrawn_ = false;
};

struct committer_options {
  std::string path;
  bool in_place = true;
  /// The largest size of the file in pages; nought means that only the disk bounds it.
  std::int64_t max_pages = 0;
  /// Called after each transaction with what others must hear of, by the thread that executed it.
  std::function<void(effects&)> told;
};

class committer : public std::enable_shared_from_this<committer> {
 public:
  committer(ergon::runtime& rt, connection db, std::unique_ptr<store> in, side_file& side, committer_options options);
  committer(const committer&) = delete;
  committer& operator=(const committer&) = delete;
  ~committer();

  /// Queues an operation; `finish` is called once it is stored or has failed. Throws `errc::closed`.
  void submit(operation_base& what);
  /// Queues an operation for the caller's `run_now`, without waking the runtime. Throws `errc::closed`.
  void enlist(operation_base& what);
  /// Queues a fetch, unless it waits already.
  void submit_fetch(fetch_base& what);
  /// Takes a fetch back. False: it is being executed; `finish` is called when that is over, whether it has found something or not.
  bool withdraw(fetch_base& what) noexcept;
  /// Lets the fetches that wait look once more; then execute with `run_now`.
  void wake_fetches();
  /// Makes the reserve that a full disk lets go of, if it is missing. By the executor alone: call it in an operation.
  void load_ballast() noexcept;
  /// Gives free pages back to the disk, while nobody has anything to store.
  void tidy();
  /// Executes what is queued on this thread, unless another thread is at it.
  void run_now();

  /// Fails what is queued with `errc::closed` and closes the connection. No other call may come after it, except by work
  /// that was posted before.
  void close() noexcept;

 private:
  struct ticket final : work {
    void run() noexcept override { std::exchange(self, nullptr)->run_posted(); }
    std::shared_ptr<committer> self;
  };

  enum class role : std::uint8_t { in_place, thread };

  void check_open() const;
  void kick(std::unique_lock<std::mutex>& held);
  /// Lets the thread execute in this one's place; `mutex_` is held and `executing_` true.
  void hand_over();
  void run_posted() noexcept;
  void cycle(role as, std::unique_lock<std::mutex>& held);
  void write_forever();
  /// False: the store is locked by another program, and `as` must not wait.
  [[nodiscard]] bool execute(role as);
  void attempt(std::span<operation_base* const> group);
  void drain_full_store(const failure& why);
  void conclude();
  void free_ballast() noexcept;
  void bound_pages(std::int64_t spare);

  process_mark process_;
  ergon::runtime& runtime_;
  connection db_;
  std::unique_ptr<store> store_;
  side_file& side_;
  committer_options options_;
  std::string ballast_;
  bool ballast_free_ = true;

  std::mutex mutex_;
  std::condition_variable handed_over_;
  std::condition_variable settled_;
  std::vector<operation_base*> queue_;
  std::vector<fetch_base*> waiting_;
  /// Counts `wake_fetches`: a fetch that looked before the last one looks again.
  std::uint64_t rings_ = 0;
  bool executing_ = false;
  bool posted_ = false;
  bool to_thread_ = false;
  bool closed_ = false;
  ticket ticket_;
  std::thread thread_;

  // The executor's.
  std::vector<operation_base*> batch_;
  std::uint64_t rings_before_ = 0;
};

/// An operation that calls `run` and lies in the frame that awaits it.
template <class Run>
class awaited_operation final : public operation_base {
 public:
  awaited_operation(Run run, bool makes_room) : run_{std::move(run)} { drains = makes_room; }
  void run(store& in) override { run_(in); }
  void finish() noexcept override { done.complete(); }

  completion done;

 private:
  Run run_;
};

enum class room : std::uint8_t {
  /// A full store refuses it.
  taken,
  /// It makes room: a full store takes it.
  made,
};

/// Runs `what` in a transaction, shared with whatever else there is, and ends when that is stored. Throws what it threw. Finishes even if the
/// awaiting task is cancelled.
template <class Run>
task<void> commit(committer& by, room how, Run what) {
  awaited_operation op{std::move(what), how == room::made};
  by.submit(op);
  co_await op.done;
  if (op.failure) {
    std::rethrow_exception(op.failure);
  }
}

}  // namespace ergon::sqlite
