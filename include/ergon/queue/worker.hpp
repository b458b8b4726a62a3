// Takes jobs from a broker and runs their handlers: the leases, the time limits, the retries, the way out at the end. Made and set
// up by one thread; `stop` and `health` may be called from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/base/log.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/queue/handler.hpp>
#include <ergon/queue/health.hpp>
#include <ergon/queue/middleware.hpp>
#include <ergon/queue/retry_policy.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

struct worker_options {
  /// What it takes from, with weights of 1 to 1000. Each once.
  std::vector<queue_share> queues = {{"default", 1}};
  /// False: while several queues have jobs, each gets its part by weight. True: a queue is read only while all of higher weight
  /// are empty.
  bool strict = false;
  /// Handlers that run at once, at most 100,000. Nought: the CPUs that the cgroup grants.
  std::uint32_t concurrency = 0;
  /// Jobs that it may hold beyond those that run, and does only while handlers are faster than a fetch. At most 10,000; nought: none.
  std::uint32_t prefetch = 256;
  /// When failed jobs are tried again, for kinds whose handler names no policy of its own.
  retry_policy retry = {};
  /// At shutdown: how long running handlers may go on before they are stopped and their jobs handed back.
  std::chrono::nanoseconds shutdown_grace = std::chrono::seconds{25};
  /// How long a handler may take to end after it was told to stop. Then its job is settled without it.
  std::chrono::nanoseconds stop_grace = std::chrono::seconds{5};
  /// For how long jobs of kinds that have no handler here, and records of a newer release, are handed back before they are buried.
  std::chrono::nanoseconds unknown_kind_after = std::chrono::days{1};
  /// The process's default logger unless given.
  std::optional<ergon::logger> logger = std::nullopt;
  /// For the constructor that opens a broker.
  broker_options broker = {};
};

namespace detail {
class worker_core;
}  // namespace detail

class ERGON_EXPORT worker {
 public:
  /// Opens a broker. Throws as `open_broker` does, and `errc::invalid_argument` for options out of range.
  explicit worker(std::string_view url, worker_options options = {});
  /// Uses one that is open, on that broker's runtime.
  explicit worker(std::shared_ptr<ergon::broker> from, worker_options options = {});
  worker(worker&&) noexcept;
  worker& operator=(worker&&) = delete;
  /// Where it still runs, this is what a crash looks like: no job is settled, the leases run out. Does not wait.
  ~worker();

  /// Gives jobs of a kind to `f` (see handler.hpp for what it may be). Before it runs. Throws `errc::duplicate_kind` where the kind
  /// or an alias has a handler already, or belongs to another type.
  template <class F>
  worker& handle(F&& f, handler_options options = {}) {
    using handler = detail::typed_handler<std::decay_t<F>>;
    using payload = typename handler::payload;
    detail::kind_names names = detail::names_of<payload>();
    auto made = std::make_unique<handler>(std::forward<F>(f), options.where, options.strict);
    add(std::move(made), std::move(names), typeid(payload), std::move(options));
    return *this;
  }

  /// Puts a middleware around all handlers, inside those that were put there before. Before it runs.
  worker& use(middleware around);

  /// Works until SIGTERM or SIGINT, then shuts down: takes no more, hands back what has not started, gives handlers
  /// `shutdown_grace`, stops the rest and hands their jobs back. A second signal ends the grace time at once. Blocks; not on a
  /// thread of the runtime. Throws what the broker says where it cannot join (an unreachable store is tried again for ever).
  void run();
  /// The same until `stop` is requested; leaves signals alone.
  void run(std::stop_token stop);
  /// The same as a task. Cancelling it shuts down without grace time.
  [[nodiscard]] task<void> serve(std::stop_token stop = {});
  /// Begins the shutdown of a running `run` or `serve`, or ends the grace time of one that has begun. Does not wait.
  void stop() noexcept;

  /// A snapshot. Also while the runtime is stuck: that is what it is for.
  [[nodiscard]] worker_health health() const;
  /// What the store calls it; empty until it has joined.
  [[nodiscard]] std::string id() const;
  [[nodiscard]] const std::shared_ptr<ergon::broker>& broker() const noexcept;

 private:
  friend class test_kit;

  void add(std::unique_ptr<detail::job_handler> handler, detail::kind_names names, const std::type_info& type,
           handler_options options);

  std::shared_ptr<detail::worker_core> core_;
};

}  // namespace ergon
