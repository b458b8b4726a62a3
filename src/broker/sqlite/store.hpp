// The transitions of jobs in a SQLite store, as plain functions inside one write transaction: no threads, no waiting, no other
// process. Whoever calls owns the connection and wraps the calls in `begin` and `commit` (or, inside a transaction of the
// caller's program, `enter` and `flush`). A transition looks before it changes anything, so an `ergon::error` that is not a
// `sqlite::failure` leaves the transaction as it was.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/broker/broker.hpp>

#include "broker/record.hpp"
#include "broker/rules.hpp"
#include "broker/shares.hpp"
#include "broker/sqlite/database.hpp"

namespace ergon::sqlite {

enum counter : std::uint8_t { c_enqueued, c_completed, c_failed, c_dead, c_cancelled, c_discarded, c_reclaimed, counters };

/// A row of ergon_queue, cached for one transaction.
struct queue_row {
  std::int64_t id = 0;
  std::string name;
  bool paused = false;
  std::int64_t head = 1;
  std::int64_t tail = 1;
  std::int64_t front_head = 1;
  std::int64_t front_tail = 1;
  std::int64_t hour = 0;
  std::array<std::int64_t, counters> count{};

  /// The transaction that it was read in.
  std::uint64_t read_in = 0;
  bool dirty = false;
  /// Jobs that this transaction made ready.
  std::uint64_t made_ready = 0;

  [[nodiscard]] bool has_ready() const noexcept { return head < tail || front_head < front_tail; }
};

/// The leases of one consumer as ranges of keys, sorted. Changes belong to a transaction: `settle_changes` or `undo` ends them.
class lease_book {
 public:
  void add(std::int64_t first, std::int64_t last, std::uint32_t jobs);
  /// Whether the key is in a range of these leases.
  [[nodiscard]] bool holds(std::int64_t seq) const noexcept;
  /// One job of the range around `seq` has ended. The first key of the range once nothing of it is left.
  std::optional<std::int64_t> ended(std::int64_t seq);
  void settle_changes() noexcept;
  void undo() noexcept;
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> ranges() const;

 private:
  struct range {
    std::int64_t first;
    std::int64_t last;
    std::uint32_t left;
    /// What this transaction took from `left`; all of it for a range that it added.
    std::uint32_t taken;
    bool added;
  };
  std::vector<range> ranges_;
  bool touched_ = false;
};

/// What others must hear of once the transaction stands.
struct effects {
  std::vector<queue_row*> ready;
  /// Something became due earlier than anything before it.
  bool earlier_due = false;
  /// Jobs that keep a result and have ended.
  std::vector<std::int64_t> ended;
  /// Workers that lost a lease without having asked.
  std::vector<std::int64_t> revoked;

  void clear() noexcept {
    ready.clear();
    earlier_due = false;
    ended.clear();
    revoked.clear();
  }
};

/// A worker's row, for the judgement of whether it lives.
struct member {
  std::int64_t id = 0;
  std::string name;
  std::string boot;
  std::int64_t side = 0;
  std::int64_t slot = 0;
  std::int64_t token = 0;
  /// Milliseconds of CLOCK_MONOTONIC.
  std::int64_t beat = 0;
};
enum class vitality : std::uint8_t {
  alive,
  /// Its process may live, but its lease has run out.
  silent,
  /// Its process is gone.
  dead,
};

/// When there is something to promote next, on either axis.
struct next_due {
  std::optional<std::int64_t> store_ms;
  std::optional<std::int64_t> wall_ms;
};

class store {
 public:
  /// Prepares its statements on `db`, which must outlive it.
  store(sqlite3* db, ergon::clock& clock);

  void begin();
  void commit();
  void rollback() noexcept;
  /// For a transaction that somebody else began: forgets what was cached; `flush` writes what was changed.
  void enter();
  void flush();
  /// Forgets what is known of the queues, whose making may have been rolled back.
  void forget() noexcept;
  [[nodiscard]] effects& happened() noexcept { return effects_; }

  /// The jobs have been checked (`check_new_jobs`).
  void enqueue(std::span<const new_job> jobs, std::span<enqueued> out);

  [[nodiscard]] std::int64_t queue_id(std::string_view name) { return queue(name).id; }
  /// Whether `claim` could find something, read outside a transaction.
  [[nodiscard]] bool anything_ready(std::span<const std::int64_t> queues);
  /// Leases up to `max` jobs into `out` and `book`.
  void claim(std::int64_t owner, std::span<const std::int64_t> queues, shares& turns, std::size_t max, delivery_batch& out,
             lease_book& book);
  void settle(std::string_view worker, std::span<const settlement> what, std::span<settled> out, lease_book& book);
  /// Puts every job of these ranges back to the front, uncounted, and ends the leases.
  void hand_back_all(lease_book& book);
  [[nodiscard]] bool mark(std::int64_t seq);
  void report(std::int64_t seq, double done, std::string_view note);

  [[nodiscard]] std::int64_t join(const member& who, std::string_view host, std::uint32_t pid, std::uint32_t concurrency,
                                  std::string_view queues);
  /// Renews the lease of a worker, returns what it lost without having asked, and takes that out of its book.
  [[nodiscard]] std::vector<lease_token> beat(std::int64_t owner, std::int64_t steady_ms, lease_book& book);
  void leave(std::int64_t owner);
  [[nodiscard]] std::vector<member> members();

  /// Promotes up to `limit` due jobs. True: there may be more.
  bool promote(std::size_t limit);
  [[nodiscard]] next_due upcoming();
  /// Takes up to `limit` jobs from workers that are not alive. True: there may be more.
  bool reclaim(const std::function<vitality(const member&)>& judge, std::size_t limit);
  /// Takes up to `limit` leased keys that no lease covers: damage, or a worker's row removed by hand. Returns how many.
  std::size_t reclaim_orphans(std::size_t limit);
  /// Forgets what was kept long enough, up to `limit`. True: there may be more.
  bool expire(std::size_t limit);

  job_state cancel(std::string_view id, std::string_view queue);
  std::string run(std::string_view id, std::string_view queue);
  void remove(std::string_view id, std::string_view queue);
  void pause(std::string_view queue, bool paused);

  /// The store's own time: since it was made, suspended time included, unmoved by the calendar clock; milliseconds.
  [[nodiscard]] std::int64_t store_now() const noexcept;
  /// Reads where the store's time stands; starts it anew after a reboot of the machine.
  void open_epoch();
  /// Notes how calendar and store time relate now, for the next boot.
  void anchor_epoch();

 private:
  enum class place : std::uint8_t { nowhere, job, parked, ended };
  struct located {
    place where = place::nowhere;
    std::int64_t serial = 0;
    std::int64_t seq = 0;
    std::int64_t queue = 0;
    job_state state = job_state::ready;
    /// Of an ended job, in store time.
    std::int64_t expires = 0;
    /// A vector, because a short string's bytes move with it and `rec` points into them.
    std::vector<char> body;
    record rec;
  };

  queue_row& queue(std::string_view name);
  queue_row& queue(std::int64_t id);
  queue_row& current(queue_row& row);
  queue_row& changed(queue_row& row) noexcept;
  void made_ready(queue_row& row);
  void write(queue_row& row);

  [[nodiscard]] std::int64_t serial_of(std::string_view id, std::string_view queue);
  [[nodiscard]] located locate(std::int64_t serial);
  /// `locate` for an id given by a person; throws `errc::not_found`.
  [[nodiscard]] located find(std::string_view id, std::string_view queue);
  [[nodiscard]] std::string name_of(std::int64_t serial);

  void take(queue_row& row, bool front, std::size_t count, std::int64_t owner, delivery_batch& out, lease_book& book,
            std::size_t& taken);
  void settle_one(std::string_view worker, const settlement& s, settled& out);
  [[nodiscard]] std::size_t settle_run(std::span<const settlement> run, std::span<settled> out, const lease_book& book);
  void end_range(std::int64_t seq, lease_book& book);
  /// A leased or ready job as it stands, or nothing.
  [[nodiscard]] bool load(std::int64_t seq, located& into);

  /// Takes the job out of where it is; locks and places stay.
  void pull(const located& from);
  /// Puts the record as it stands now into `scratch_`; one that cannot be read stays byte for byte what it was.
  void rewrite(located& job);
  void put_ready(located& job, bool front);
  void put_parked(located& job, std::int64_t delay_ms);
  /// Stores `scratch_` as a parked job, and notes whether it is the next to become due.
  void park(std::int64_t serial, std::int64_t queue_number, job_state state, bool by_wall, std::int64_t due);
  /// The live job that has this own id, or holds this unique key; nothing for an empty one.
  [[nodiscard]] std::optional<std::int64_t> id_holder(std::int64_t queue_number, std::string_view id);
  [[nodiscard]] std::optional<std::int64_t> key_holder(std::int64_t queue_number, std::string_view key);
  /// Gives a new job its own id and its lock, as far as it asked for them.
  void hold(std::int64_t queue_number, std::int64_t serial, std::string_view id, std::string_view key,
            std::chrono::milliseconds unique_for);
  /// The end: releases what it held, keeps what is to be kept, counts.
  void finish(located& job, job_state end, std::string_view text) { finish(job, end, text, rules::kept_for(end, job.rec)); }
  void finish(located& job, job_state end, std::string_view text, std::chrono::milliseconds kept_for);
  void forget_ended(const located& job);
  void lose(located& job, std::string_view worker);
  void revoke(std::int64_t seq, const record& rec);
  void insert_body(statement& into, std::int64_t key);
  void trim(std::int64_t queue, job_state state, std::uint64_t most);

  sqlite3* db_;
  ergon::clock& clock_;
  std::uint64_t transaction_ = 0;
  wall_time wall_{};
  std::int64_t now_ = 0;
  std::int64_t epoch_ = 0;
  effects effects_;
  std::vector<std::unique_ptr<queue_row>> queues_;
  std::vector<queue_row*> dirty_;
  std::string scratch_;
  std::string headers_;
  std::string errors_;
  located job_;

  statement begin_, commit_;
  statement queue_by_name_, queue_by_id_, queue_add_, queue_write_, queue_pause_, queue_ready_, stats_add_;
  statement job_add_, job_claim_, job_body_, job_delete_, job_delete_run_, job_count_run_, job_range_;
  statement lease_add_, lease_delete_, lease_of_, lease_owner_, orphan_find_;
  statement parked_add_, parked_get_, parked_delete_, parked_due_, parked_first_;
  statement loc_get_, loc_set_, loc_delete_;
  statement own_get_, own_set_, own_end_, own_delete_;
  statement unique_get_, unique_set_, unique_delete_;
  statement ended_add_, ended_get_, ended_delete_, ended_expired_, ended_count_, ended_oldest_;
  statement worker_add_, worker_beat_, worker_delete_, worker_all_;
  statement mark_add_, mark_get_, mark_delete_;
  statement progress_set_, progress_clear_;
  statement revoked_add_, revoked_get_, revoked_clear_;
};

/// Keys: `stream << 40 | n`, two streams to a queue.
inline constexpr int stream_shift = 40;
inline constexpr std::int64_t stream_mask = (std::int64_t{1} << stream_shift) - 1;
[[nodiscard]] constexpr std::int64_t key_of(std::int64_t queue, bool front, std::int64_t n) noexcept {
  return ((queue * 2 + (front ? 1 : 0)) << stream_shift) | n;
}
[[nodiscard]] constexpr std::int64_t queue_of(std::int64_t key) noexcept { return (key >> stream_shift) / 2; }
[[nodiscard]] constexpr bool is_front(std::int64_t key) noexcept { return ((key >> stream_shift) & 1) != 0; }

/// A plain job has nothing to release at its end. The token says so, or completing would have to read the record.
[[nodiscard]] lease_token token_of(std::int64_t seq, const record& rec) noexcept;
[[nodiscard]] constexpr bool is_plain(lease_token t) noexcept { return t.where == 0; }

}  // namespace ergon::sqlite
