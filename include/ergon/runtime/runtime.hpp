// `runtime`: worker threads that run tasks. A process usually has one, the default runtime; a test makes its own with a clock
// that it moves.
//
// Order. Each worker has a queue, first in, first out, for wake-ups, fired timers, posted work and yields, and a deque for the tasks that its tasks
// spawn or fork: the worker takes the newest of them, thieves the oldest. What a thread of the runtime makes ready goes to its own queue; what
// another thread makes ready goes to an idle worker, else to the workers in turn. An idle worker takes half (at most 64) of another's queue, or its
// oldest child, and parks in the kernel when there is nothing, until somebody has work or the next timer is due: an idle runtime uses no CPU.
//
// A fork copies no threads: a runtime must not be used in a forked child, not even destroyed; call `exec` or `_exit` there, or
// make the runtimes after forking. Nothing here may be called from a signal handler: see signals.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {

class blocking_executor;
namespace detail {
class scheduler;
class simulation;
}  // namespace detail

/// A task that keeps its worker, as a runtime's watchdog reports it.
struct stall_info {
  /// Which of the runtime's workers.
  unsigned worker = 0;
  /// What the task was spawned as; empty if nobody named it.
  std::string name;
  /// The coroutine that was resumed last, as in `task_info`.
  std::string function;
  /// So long by now.
  std::chrono::nanoseconds lasts{0};
};

struct runtime_options {
  /// Worker threads, at most 1024; 0 means as many as the process is granted CPUs (affinity and cgroup quota).
  unsigned threads = 0;
  /// What the threads are called in a debugger, with a number behind it.
  std::string name = "ergon";
  /// What timers go by; the machine's clock unless given. It must outlive the runtime. With a manual clock the runtime never
  /// waits for time to pass: timers fire, in order of time, when somebody moves the clock.
  ergon::clock* clock = nullptr;
  /// How long (machine time) a task may keep its worker before that is reported, by a thread that looks four times as often and makes the
  /// report; 0: nobody looks.
  std::chrono::nanoseconds stall_limit{0};
  /// What is done with a report, once for each time that a worker is kept; a line on standard error unless given. It must not throw.
  std::function<void(const stall_info&)> on_stall = {};
};

/// A living task, as `runtime::tasks` sees it.
struct task_info {
  /// What it was spawned as; empty if nobody named it.
  std::string name;
  /// What it waits in, `event::wait_operation` or `sleep_operation` for instance; empty while it runs or is ready to.
  std::string waits_in;
  /// The innermost coroutine that waits: its name where the program exports its symbols, else a file and an offset for addr2line.
  std::string function;
  bool cancelled = false;
};

class ERGON_EXPORT runtime {
 public:
  /// Starts the threads. Throws `errc::invalid_argument` for too many threads, or runtimes (4096 at a time), `std::system_error` if the system has none.
  explicit runtime(runtime_options options = {});
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// Cancels the tasks that are alive and waits until the last has ended, however long that takes. Not on one of its own threads.
  ~runtime();

  /// Cancels every task and waits for their end, at most for `deadline` (machine time). Returns how many are still alive. With 0
  /// the threads have ended and every later `spawn` throws; otherwise what is alive goes on, and `shutdown` may be called again.
  /// What is spawned while it goes on is born cancelled. Throws `errc::invalid_argument` on one of its own threads.
  std::size_t shutdown(std::chrono::nanoseconds deadline);

  /// Starts a task on this runtime. From any thread. `name` is shown where tasks are listed and must refer to static storage.
  /// Throws `errc::invalid_argument` for an empty task, `errc::closed` after shutdown.
  template <class T>
  join_handle<T> spawn(task<T> body, std::string_view name = {}) {
    detail::task_access::check(body);
    start(detail::task_access::promise(body), name);
    return detail::join_access::make<T>(detail::own_result(std::move(body)));
  }

  /// Runs a task to its end while the calling thread waits. Throws what the task throws, `errc::cancelled` if a shutdown stopped
  /// it, `errc::invalid_argument` on one of this runtime's own threads, which it would block.
  template <class T>
  T block_on(task<T> body) {
    check_may_block();
    detail::task_access::check(body);
    start(detail::task_access::promise(body), "block_on");
    auto result = detail::own_result(std::move(body));
    wait_for(*result);
    return result.take();
  }

  /// Queues an item; see `work`. From any thread. The item must run before the runtime ends: a task that waits for it sees to it.
  void post(work& item) noexcept;

  [[nodiscard]] ergon::clock& clock() const noexcept;
  [[nodiscard]] unsigned threads() const noexcept;
  /// Spawned tasks, children of groups and branches included, that have not ended. A snapshot.
  [[nodiscard]] std::size_t live_tasks() const noexcept;

  /// Every living task of this runtime and what it waits for, in no order. From any thread, also while a task hangs or blocks its
  /// worker. A snapshot: tasks go on meanwhile. It looks at every task of the process, about a tenth of a second for a million.
  [[nodiscard]] std::vector<task_info> tasks() const;
  /// The same as text for people, a line for each kind of task and wait with how many there are, the most first.
  [[nodiscard]] std::string describe_tasks() const;

  /// Waits until every worker is idle with nothing queued: each live task waits for a timer that is not due or for something
  /// outside. For tests that move a manual clock. Throws `errc::invalid_argument` on one of its own threads, `errc::not_supported` in a
  /// simulation, which moves its clock itself.
  void settle() const;

  /// Where `blocking` runs its calls. Safe while tasks run; calls under way keep the executor that they started on. Throws
  /// `errc::not_supported` in a simulation, which runs them itself.
  void set_blocking_executor(std::shared_ptr<blocking_executor> executor);
  /// Null until one was set.
  [[nodiscard]] std::shared_ptr<blocking_executor> blocking() const;

  /// The process's runtime, made on first use with a thread per granted CPU and never destroyed.
  [[nodiscard]] static runtime& default_runtime();
  /// The runtime whose worker the calling thread is, else null.
  [[nodiscard]] static runtime* current() noexcept;

 protected:
  /// A simulation.
  runtime(runtime_options options, std::uint64_t seed);
  [[nodiscard]] const detail::simulation& simulated() const noexcept;

 private:
  friend class detail::scheduler;
  void start(detail::task_root& root, std::string_view name);
  void check_may_block() const;
  void wait_for(detail::task_root& root) const;

  std::unique_ptr<detail::scheduler> scheduler_;
};

/// `spawn` on the runtime of the calling worker, else on the default runtime.
template <class T>
join_handle<T> spawn(task<T> body, std::string_view name = {}) {
  detail::task_access::check(body);
  detail::start_here(detail::task_access::promise(body), name);
  return detail::join_access::make<T>(detail::own_result(std::move(body)));
}

/// `block_on` on the default runtime.
template <class T>
T block_on(task<T> body) {
  return runtime::default_runtime().block_on(std::move(body));
}

}  // namespace ergon
