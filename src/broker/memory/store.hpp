// The jobs of one `memory:` store: what they are, where they are, who holds them. No coroutine and no clock in here: callers
// bring the time and do the waiting.
//
// One mutex guards everything that hangs off a store: queues, nodes, members. Every public member function takes it for as long as it runs. Events
// (a consumer's wake-up, its news, the end of a job, work for maintainers) are set under it: setting one only queues the task that waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/base/clock.hpp>
#include <ergon/broker/batch.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/broker/job.hpp>
#include <ergon/runtime/event.hpp>

#include "broker/memory/node.hpp"
#include "broker/memory/roll.hpp"
#include "broker/record.hpp"
#include "broker/shares.hpp"

namespace ergon::memory {

/// When an operation happens: the calendar, and nanoseconds of boot time.
struct instant {
  wall_time wall;
  std::int64_t boot = 0;
};

/// What one handle to a store allows.
struct limits {
  std::size_t payload = std::size_t{16} << 20;
  /// Of the whole store, in bytes; nought means no limit.
  std::uint64_t store = 0;
};

using node_by_name = boost::unordered_flat_map<std::string_view, node*>;

struct queue {
  std::string name;
  std::uint64_t index = 0;
  bool paused = false;
  /// Handed back or taken from the dead: served before `ready`.
  chain front;
  chain ready;
  /// By the time of their end, for the bounds.
  chain dead;
  chain gone;
  roll<node> jobs;
  std::array<std::uint64_t, 9> counts{};
  /// The youngest life of each own id, live or kept.
  node_by_name ids;
  /// Who holds each unique key.
  node_by_name keys;
  /// Consumers with nothing to do that take from it.
  std::vector<member*> idle;
  /// By hours since 1970.
  std::map<std::int64_t, hour_stats> hours;
  hour_stats* hour = nullptr;
  std::int64_t hour_number = 0;
};

/// A consumer as the store sees it.
struct member {
  explicit member(consumer_options given) : options(std::move(given)), turns(options.queues, options.strict) {}

  std::string id;
  consumer_options options;
  shares turns;
  std::vector<queue*> queues;
  wall_time started_at;
  /// When it was last known to live.
  wall_time seen_at;
  bool alive = true;
  /// It has left; nothing may be asked of it any more.
  bool left = false;
  chain leases;

  /// In the `idle` lists of its queues.
  bool idle = false;
  event wake;
  std::vector<lease_token> lost;
  event news;
};

/// What a maintainer has to wait for.
struct agenda {
  std::optional<std::int64_t> boot;
  std::optional<std::int64_t> wall;
  /// The end of the next thing kept for a while.
  std::optional<std::int64_t> expiry;
};

class store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store();

  /// Checked before: see check.hpp.
  void enqueue(std::span<const new_job> jobs, std::span<enqueued> out, instant now, const limits& within);

  std::shared_ptr<member> join(consumer_options options, std::string id, instant now);
  /// False: nothing there, and `m.wake` will be set when there is.
  bool fetch(member& m, std::size_t max, delivery_batch& out, instant now);
  /// A wait for `m.wake` was given up: if it was woken, somebody else gets the wake-up.
  void stop_waiting(member& m) noexcept;
  void settle(member& m, std::span<const settlement> what, std::span<settled> out, instant now, const limits& within);
  bool mark(member& m, lease_token lease);
  void report(member& m, lease_token lease, double done, std::string_view note);
  /// Empty: `m.news` will be set.
  std::vector<lease_token> take_news(member& m);
  void leave(member& m, instant now);
  /// It is dead from now on: its leases may be taken.
  void abandon(member& m, wall_time now) noexcept;

  /// Promotes, reclaims and expires what is due, at most a bounded number under one lock. True: there was more.
  bool maintain(instant now, agenda& next);
  /// `news` is set when something earlier than the last agenda came up.
  void add_maintainer(event& news);
  void remove_maintainer(event& news) noexcept;

  /// The end, or nothing: then `w.told` will be set.
  std::optional<job_end> wait(std::string_view id, waiter& w, instant now);
  void stop_waiting(waiter& w) noexcept;

  std::optional<job_info> find(std::string_view id, std::string_view queue, instant now);
  job_page list(const job_filter& filter, std::string_view cursor, std::size_t limit, instant now);
  std::vector<queue_info> queues(instant now);
  std::vector<hour_stats> stats(std::string_view queue, std::uint32_t hours, wall_time now);
  std::vector<worker_info> workers(wall_time now);

  job_state cancel(std::string_view id, std::string_view queue, instant now);
  std::string run(std::string_view id, std::string_view queue, instant now);
  void remove(std::string_view id, std::string_view queue, instant now);
  void set_paused(std::string_view queue, bool paused);

  /// Puts bytes where a record should be: for tests of what a store does with what it cannot read.
  std::string inject(std::string_view queue, std::string_view bytes, instant now);

 private:
  queue& queue_named(std::string_view name);
  queue* find_queue(std::string_view name) noexcept;
  node* find_serial(std::uint64_t serial) noexcept;
  node* find_job(std::string_view id, std::string_view queue);
  node& need_job(std::string_view id, std::string_view queue);
  node* leased(const member& m, lease_token lease) noexcept;
  node* live_holder_of_id(queue& q, std::string_view id) noexcept;
  node* live_holder_of_key(queue& q, std::string_view key, std::int64_t boot) noexcept;

  node& make(queue& q);
  /// Takes a node out of every index and gives it back. It is in no chain and no heap.
  void drop(node& n) noexcept;
  void account(node& n) noexcept;
  extra& extra_of(node& n);
  void link_id(node& n, std::string_view id);
  void unlink_id(node& n) noexcept;
  void take_key(node& n, std::string_view key, std::int64_t until);
  void release_key(node& n) noexcept;

  /// Takes it out of the chain or heap that its state says.
  void unhook(node& n) noexcept;
  void make_ready(node& n, chain& in, instant now) noexcept;
  void park(node& n, job_state state, std::int64_t due, bool by_wall);
  void rewrite(node& n, const record& r);
  void end(node& n, job_state how, std::string_view text, instant now);
  void end(node& n, record& r, job_state how, std::string_view text, instant now);
  void bury(node& n, record& r, std::string_view worker, std::string_view reason, instant now);
  void trim(chain& in, std::uint64_t most) noexcept;
  void tell(node& n, job_state how, std::string_view text);

  std::size_t take(queue& q, member& m, std::size_t max, delivery_batch& out, instant now);
  void settle_one(member& m, node& n, const settlement& s, settled& out, instant now);
  void reclaim(member& m, node& n, instant now);
  hour_stats& hour_of(queue& q, wall_time now);
  void wake(queue& q, std::size_t jobs) noexcept;
  void unlist(member& m) noexcept;
  void wake_maintainers() noexcept;
  [[nodiscard]] job_info info(const node& n, instant now) const;

  std::mutex mutex_;
  std::vector<std::unique_ptr<queue>> queues_;
  boost::unordered_flat_map<std::string_view, queue*> by_name_;
  std::vector<std::shared_ptr<member>> members_;
  heap by_boot_;
  heap by_wall_;
  heap expiring_;
  std::vector<event*> maintainers_;
  /// A consumer died with leases since the last look.
  bool deaths_ = false;
  std::uint64_t next_lease_ = 0;
  std::uint64_t bytes_ = 0;
  node* free_ = nullptr;
  std::size_t free_count_ = 0;
  std::vector<node*> made_;
  std::string scratch_;
  std::string headers_;
  std::string errors_;
};

}  // namespace ergon::memory
