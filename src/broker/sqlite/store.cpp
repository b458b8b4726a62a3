#include "broker/sqlite/store.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include <fmt/format.h>
#include <xxhash.h>

#include <ergon/base/text.hpp>

#include "broker/check.hpp"
#include "broker/job_id.hpp"
#include "broker/rules.hpp"

namespace ergon::sqlite {

namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr std::size_t fetch_bytes = std::size_t{1} << 20;

std::int64_t wall_ms(wall_time t) noexcept { return duration_cast<milliseconds>(t.time_since_epoch()).count(); }
std::int64_t wall_us(wall_time t) noexcept { return duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count(); }
std::int64_t hour_of(wall_time t) noexcept { return duration_cast<std::chrono::hours>(t.time_since_epoch()).count(); }

/// A delay rounded up: nothing becomes due early.
std::int64_t delay_ms(std::chrono::nanoseconds d) noexcept { return std::chrono::ceil<milliseconds>(d).count(); }

std::array<char, 16> hash_of(std::string_view key) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(key.data(), key.size()));
  std::array<char, 16> bytes{};
  std::ranges::copy(canonical.digest, bytes.begin());
  return bytes;
}

void keep_body(std::string_view bytes, std::vector<char>& body) { body.assign(bytes.begin(), bytes.end()); }
std::string_view view_of(const std::vector<char>& body) noexcept { return {body.data(), body.size()}; }

}  // namespace

lease_token token_of(std::int64_t seq, const record& rec) noexcept {
  const bool plain = rec.fit == record_fit::readable && rec.serial == 0 && rec.custom_id.empty() && rec.unique_key.empty() &&
                     rec.retention.count() == 0 && rec.keep_result.count() == 0 && !rules::is_suspect(rec);
  return {.where = plain ? 0U : 1U, .number = static_cast<std::uint64_t>(seq)};
}

// --- leases ----------------------------------------------------------------------------------------------------------------------------

void lease_book::add(std::int64_t first, std::int64_t last, std::uint32_t jobs) {
  const auto at = std::ranges::lower_bound(ranges_, first, {}, &range::first);
  ranges_.insert(at, {.first = first, .last = last, .left = jobs, .taken = 0, .added = true});
  touched_ = true;
}

bool lease_book::holds(std::int64_t seq) const noexcept {
  const auto after = std::ranges::upper_bound(ranges_, seq, {}, &range::first);
  return after != ranges_.begin() && seq <= std::prev(after)->last;
}

std::optional<std::int64_t> lease_book::ended(std::int64_t seq) {
  auto at = std::ranges::upper_bound(ranges_, seq, {}, &range::first);
  if (at == ranges_.begin()) {
    return std::nullopt;
  }
  --at;
  if (seq > at->last || at->left == 0) {
    return std::nullopt;
  }
  touched_ = true;
  --at->left;
  ++at->taken;
  return at->left == 0 ? std::optional{at->first} : std::nullopt;
}

void lease_book::settle_changes() noexcept {
  if (!touched_) {
    return;
  }
  touched_ = false;
  std::erase_if(ranges_, [](const range& r) { return r.left == 0; });
  for (range& r : ranges_) {
    r.taken = 0;
    r.added = false;
  }
}

void lease_book::undo() noexcept {
  if (!touched_) {
    return;
  }
  touched_ = false;
  std::erase_if(ranges_, [](const range& r) { return r.added; });
  for (range& r : ranges_) {
    r.left += std::exchange(r.taken, 0);
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> lease_book::ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (const range& r : ranges_) {
    all.emplace_back(r.first, r.last);
  }
  return all;
}

// --- transactions ----------------------------------------------------------------------------------------------------------------------

store::store(sqlite3* db, ergon::clock& clock) : db_{db}, clock_{clock} {
  const auto sql = [db](std::string_view text) { return statement{db, text}; };
  begin_ = sql("BEGIN IMMEDIATE");
  commit_ = sql("COMMIT");

  constexpr std::string_view queue_columns =
      "SELECT id, name, paused, head, tail, front_head, front_tail, hour, enqueued, completed, failed, dead, cancelled, "
      "discarded, reclaimed "
      "FROM ergon_queue WHERE ";
  queue_by_name_ = sql(fmt::format("{}name = ?", queue_columns));
  queue_by_id_ = sql(fmt::format("{}id = ?", queue_columns));
  queue_add_ = sql("INSERT INTO ergon_queue(name) VALUES (?)");
  queue_write_ =
      sql("UPDATE ergon_queue SET head = ?2, tail = ?3, front_head = ?4, front_tail = ?5, hour = ?6, enqueued = ?7, completed = "
          "?8, failed = ?9, dead = ?10, "
          "cancelled = ?11, discarded = ?12, reclaimed = ?13 WHERE id = ?1");
  queue_pause_ = sql("UPDATE ergon_queue SET paused = ? WHERE name = ?");
  queue_ready_ = sql("SELECT 1 FROM ergon_queue WHERE id = ? AND paused = 0 AND (head < tail OR front_head < front_tail)");
  stats_add_ =
      sql("INSERT INTO ergon_stats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET enqueued = enqueued + "
          "excluded.enqueued, completed = "
          "completed + excluded.completed, failed = failed + excluded.failed, dead = dead + excluded.dead, cancelled = cancelled "
          "+ excluded.cancelled, "
          "discarded = discarded + excluded.discarded, reclaimed = reclaimed + excluded.reclaimed");

  job_add_ = sql("INSERT INTO ergon_job(seq, body) VALUES (?, ?)");
  job_claim_ = sql("SELECT seq, body FROM ergon_job WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT ?");
  job_body_ = sql("SELECT body FROM ergon_job WHERE seq = ?");
  job_delete_ = sql("DELETE FROM ergon_job WHERE seq = ?");
  job_delete_run_ = sql("DELETE FROM ergon_job WHERE seq BETWEEN ? AND ?");
  job_count_run_ = sql("SELECT count(*) FROM ergon_job WHERE seq BETWEEN ? AND ?");
  job_range_ = sql("SELECT seq FROM ergon_job WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?");
  lease_add_ = sql("INSERT INTO ergon_lease(first, last, owner) VALUES (?, ?, ?)");
  lease_delete_ = sql("DELETE FROM ergon_lease WHERE first = ?");
  lease_of_ = sql("SELECT last, owner FROM ergon_lease WHERE first <= ? ORDER BY first DESC LIMIT 1");
  lease_owner_ = sql("SELECT first, last FROM ergon_lease WHERE owner = ? LIMIT 1");
  orphan_find_ =
      sql("SELECT j.seq FROM ergon_queue q CROSS JOIN (SELECT 0 AS f UNION ALL SELECT 1) s CROSS JOIN ergon_job j "
          "WHERE j.seq >= ((q.id * 2 + s.f) << 40) AND j.seq < ((q.id * 2 + s.f) << 40) + iif(s.f, q.front_head, q.head) "
          "AND NOT EXISTS (SELECT 1 FROM (SELECT l.last AS last FROM ergon_lease l WHERE l.first <= j.seq ORDER BY l.first DESC "
          "LIMIT 1) WHERE last >= j.seq) "
          "LIMIT ?");

  parked_add_ = sql("INSERT INTO ergon_parked(serial, queue, state, wall, due, body) VALUES (?, ?, ?, ?, ?, ?)");
  parked_get_ = sql("SELECT queue, state, body FROM ergon_parked WHERE serial = ?");
  parked_delete_ = sql("DELETE FROM ergon_parked WHERE serial = ?");
  parked_due_ = sql("SELECT serial FROM ergon_parked WHERE wall = ? AND due <= ? ORDER BY due LIMIT ?");
  parked_first_ = sql("SELECT due FROM ergon_parked WHERE wall = ? ORDER BY due LIMIT 1");
  loc_get_ = sql("SELECT seq FROM ergon_loc WHERE serial = ?");
  loc_set_ = sql("INSERT OR REPLACE INTO ergon_loc(serial, seq) VALUES (?, ?)");
  loc_delete_ = sql("DELETE FROM ergon_loc WHERE serial = ?");
  own_get_ = sql("SELECT serial, live FROM ergon_own WHERE queue = ? AND id = ?");
  own_set_ = sql("INSERT OR REPLACE INTO ergon_own(queue, id, serial, live) VALUES (?, ?, ?, 1)");
  own_end_ = sql("UPDATE ergon_own SET live = 0 WHERE queue = ? AND id = ? AND serial = ?");
  own_delete_ = sql("DELETE FROM ergon_own WHERE queue = ? AND id = ? AND serial = ?");
  unique_get_ = sql("SELECT serial, expires FROM ergon_unique WHERE queue = ? AND key = ?");
  unique_set_ = sql("INSERT OR REPLACE INTO ergon_unique(queue, key, serial, expires) VALUES (?, ?, ?, ?)");
  unique_delete_ = sql("DELETE FROM ergon_unique WHERE queue = ? AND key = ? AND serial = ?");
  ended_add_ = sql("INSERT INTO ergon_ended(serial, queue, state, ended_at, expires, body) VALUES (?, ?, ?, ?, ?, ?)");
  ended_get_ = sql("SELECT queue, state, body, expires FROM ergon_ended WHERE serial = ?");
  ended_delete_ = sql("DELETE FROM ergon_ended WHERE serial = ?");
  ended_expired_ = sql("SELECT serial FROM ergon_ended WHERE expires <= ? ORDER BY expires LIMIT ?");
  ended_count_ = sql("SELECT count(*) FROM ergon_ended WHERE queue = ? AND state = ?");
  ended_oldest_ = sql("SELECT serial FROM ergon_ended WHERE queue = ? AND state = ? ORDER BY expires LIMIT ?");

  worker_add_ =
      sql("INSERT INTO ergon_worker(name, host, pid, boot, side, slot, token, beat, started, seen, concurrency, queues) VALUES "
          "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "?, ?)");
  worker_beat_ = sql("UPDATE ergon_worker SET beat = ?2, seen = ?3 WHERE id = ?1");
  worker_delete_ = sql("DELETE FROM ergon_worker WHERE id = ?");
  worker_all_ = sql("SELECT id, boot, side, slot, token, beat, name FROM ergon_worker ORDER BY id");
  mark_add_ = sql("INSERT OR IGNORE INTO ergon_mark(seq) VALUES (?)");
  mark_get_ = sql("SELECT 1 FROM ergon_mark WHERE seq = ?");
  mark_delete_ = sql("DELETE FROM ergon_mark WHERE seq = ?");
  progress_set_ = sql("INSERT OR REPLACE INTO ergon_progress(seq, done, note) VALUES (?, ?, ?)");
  progress_clear_ = sql("DELETE FROM ergon_progress WHERE seq = ?");
  revoked_add_ = sql("INSERT OR REPLACE INTO ergon_revoked(owner, seq, token) VALUES (?, ?, ?)");
  revoked_get_ = sql("SELECT seq, token FROM ergon_revoked WHERE owner = ?");
  revoked_clear_ = sql("DELETE FROM ergon_revoked WHERE owner = ?");
}

void store::enter() {
  ++transaction_;
  effects_.clear();
  dirty_.clear();
  wall_ = clock_.wall();
  now_ = store_now();
}

void store::begin() {
  begin_.run();
  enter();
}

void store::flush() {
  for (queue_row* row : dirty_) {
    write(*row);
  }
  dirty_.clear();
}

void store::commit() {
  flush();
  commit_.run();
}

void store::rollback() noexcept {
  // A full disk has rolled back already.
  if (sqlite3_get_autocommit(db_) == 0) {
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  forget();
}

void store::forget() noexcept {
  dirty_.clear();
  effects_.clear();
  queues_.clear();
}

std::int64_t store::store_now() const noexcept { return duration_cast<milliseconds>(clock_.boot()).count() + epoch_; }

void store::open_epoch() {
  // Within one boot, store time is CLOCK_BOOTTIME plus a constant that every process reads here. The first opener after a reboot
  // sets another constant, so that the store's time goes on from where it was last noted, by the calendar.
  const auto boot_now = duration_cast<milliseconds>(clock_.boot()).count();
  const auto wall_now = wall_ms(clock_.wall());
  const std::string boot_id = clock_.boot_id();
  statement get{db_, "SELECT value FROM ergon_meta WHERE key = ?"};
  const auto integer = [&](const char* key) {
    std::optional<std::int64_t> value;
    if (get(key).step()) {
      value = get.integer(0);
      get.done();
    }
    return value;
  };
  std::string boot;
  if (get("boot").step()) {
    boot = get.bytes(0);
    get.done();
  }
  const auto epoch = integer("epoch");
  if (epoch && boot == boot_id) {
    epoch_ = *epoch;
    return;
  }
  const auto anchor_wall = integer("anchor_wall");
  const auto anchor_store = integer("anchor_store");
  const std::int64_t now =
      anchor_wall && anchor_store ? *anchor_store + std::max<std::int64_t>(0, wall_now - *anchor_wall) : wall_now;
  epoch_ = now - boot_now;
  statement set{db_, "INSERT OR REPLACE INTO ergon_meta(key, value) VALUES (?, ?)"};
  set("boot", boot_id).run();
  set("epoch", epoch_).run();
  anchor_epoch();
}

void store::anchor_epoch() {
  statement set{db_, "INSERT OR REPLACE INTO ergon_meta(key, value) VALUES (?, ?)"};
  set("anchor_wall", wall_ms(clock_.wall())).run();
  set("anchor_store", store_now()).run();
}

// --- queues ----------------------------------------------------------------------------------------------------------------------------

namespace {

void read_row(statement& from, queue_row& row) {
  row.id = from.integer(0);
  row.name = from.bytes(1);
  row.paused = from.integer(2) != 0;
  row.head = from.integer(3);
  row.tail = from.integer(4);
  row.front_head = from.integer(5);
  row.front_tail = from.integer(6);
  row.hour = from.integer(7);
  for (std::size_t i = 0; i < counters; ++i) {
    row.count[i] = from.integer(8 + static_cast<int>(i));
  }
  from.done();
}

}  // namespace

queue_row& store::current(queue_row& row) {
  if (row.read_in != transaction_) {
    if (!queue_by_id_(row.id).step()) {
      throw error{errc::not_found, fmt::format("the queue \"{}\" is not in the store any more", row.name)};
    }
    read_row(queue_by_id_, row);
    row.read_in = transaction_;
    row.dirty = false;
    row.made_ready = 0;
  }
  return row;
}

queue_row& store::queue(std::string_view name) {
  for (const auto& row : queues_) {
    if (row->name == name) {
      return current(*row);
    }
  }
  if (!queue_by_name_(name).step()) {
    check_queue_name(name);
    queue_add_(name).run();
    [[maybe_unused]] const bool found = queue_by_name_(name).step();
    assert(found);
  }
  auto row = std::make_unique<queue_row>();
  read_row(queue_by_name_, *row);
  // A queue that another process removed and made anew has another id under the old name.
  std::erase_if(queues_, [&](const auto& known) { return known->name == row->name; });
  row->read_in = transaction_;
  return *queues_.emplace_back(std::move(row));
}

queue_row& store::queue(std::int64_t id) {
  for (const auto& row : queues_) {
    if (row->id == id) {
      return current(*row);
    }
  }
  if (!queue_by_id_(id).step()) {
    throw error{errc::store_corrupt, fmt::format("the store \"{}\" has a job of queue number {}, which does not exist",
                                                 sqlite3_db_filename(db_, "main"), id)};
  }
  auto row = std::make_unique<queue_row>();
  read_row(queue_by_id_, *row);
  row->read_in = transaction_;
  return *queues_.emplace_back(std::move(row));
}

queue_row& store::changed(queue_row& row) noexcept {
  if (!row.dirty) {
    row.dirty = true;
    dirty_.push_back(&row);
  }
  return row;
}

void store::made_ready(queue_row& row) {
  if (row.made_ready++ == 0) {
    effects_.ready.push_back(&row);
  }
}

void store::write(queue_row& row) {
  row.dirty = false;
  if (const auto hour = hour_of(wall_); row.hour != hour) {
    // The counts of this transaction belong to this hour: what stood in the row before it goes to the hour that the row names.
    // They are told apart by reading the row once more, which happens once an hour.
    queue_row before;
    if (queue_by_id_(row.id).step()) {
      read_row(queue_by_id_, before);
    }
    const auto& c = before.count;
    if (std::ranges::any_of(c, [](auto n) { return n != 0; })) {
      stats_add_(row.id, before.hour, c[0], c[1], c[2], c[3], c[4], c[5], c[6]).run();
    }
    for (std::size_t i = 0; i < counters; ++i) {
      row.count[i] -= c[i];
    }
    row.hour = hour;
  }
  const auto& c = row.count;
  queue_write_(row.id, row.head, row.tail, row.front_head, row.front_tail, row.hour, c[0], c[1], c[2], c[3], c[4], c[5], c[6])
      .run();
}

void store::pause(std::string_view name, bool paused) {
  flush();
  queue_pause_(static_cast<int>(paused), name).run();
  if (sqlite3_changes(db_) == 0) {
    throw error{errc::not_found, fmt::format("there is no queue \"{}\"", name)};
  }
  for (const auto& row : queues_) {
    row->read_in = 0;
  }
  queue_row& row = queue(name);
  if (!paused) {
    made_ready(row);
  }
}

// --- putting in ------------------------------------------------------------------------------------------------------------------------

void store::insert_body(statement& into, std::int64_t key) { into(key, std::span<const char>{scratch_}).run(); }

void store::enqueue(std::span<const new_job> jobs, std::span<enqueued> out) {
  queue_row* row = nullptr;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const new_job& job = jobs[i];
    if (row == nullptr || row->name != job.queue) {
      row = &queue(job.queue);
    }
    out[i].created = true;
    if (const auto holder = id_holder(row->id, job.id)) {
      out[i] = {.id = make_job_id(static_cast<std::uint64_t>(*holder), job.id), .created = false};
      continue;
    }
    if (const auto holder = key_holder(row->id, job.unique_key)) {
      out[i] = {.id = name_of(*holder), .created = false};
      continue;
    }

    const auto serial = key_of(row->id, false, changed(*row).tail++);
    headers_.clear();
    if (!job.headers.empty()) {
      encode_headers(job.headers, headers_);
    }
    scratch_.clear();
    encode_record(record_of(job, wall_, headers_), scratch_);
    const bool by_wall = job.due && *job.due > wall_;
    const bool by_delay = job.delay && job.delay->count() > 0;
    if (by_wall || by_delay) {
      const auto due =
          by_wall ? std::chrono::ceil<milliseconds>(job.due->time_since_epoch()).count() : now_ + delay_ms(*job.delay);
      park(serial, row->id, job_state::scheduled, by_wall, due);
    } else {
      insert_body(job_add_, serial);
      made_ready(*row);
    }
    hold(row->id, serial, job.id, job.unique_key, job.unique_for);
    ++row->count[c_enqueued];
    out[i].id = make_job_id(static_cast<std::uint64_t>(serial), job.id);
  }
}

// --- finding ---------------------------------------------------------------------------------------------------------------------------

bool store::load(std::int64_t seq, located& into) {
  if (!job_body_(seq).step()) {
    return false;
  }
  keep_body(job_body_.bytes(0), into.body);
  job_body_.done();
  into.where = place::job;
  into.seq = seq;
  into.queue = queue_of(seq);
  into.rec = decode_record(view_of(into.body));
  // What cannot be read says nothing of who it was: it goes by its key.
  const bool moved = into.rec.fit != record_fit::garbage && into.rec.serial != 0;
  into.serial = moved ? static_cast<std::int64_t>(into.rec.serial) : seq;
  return true;
}

store::located store::locate(std::int64_t serial) {
  located found;
  const auto read = [&](statement& from, place where) {
    if (!from(serial).step()) {
      return false;
    }
    found.where = where;
    found.serial = serial;
    found.queue = from.integer(0);
    found.state = static_cast<job_state>(from.integer(1));
    keep_body(from.bytes(2), found.body);
    if (where == place::ended) {
      found.expires = from.integer(3);
    }
    from.done();
    found.rec = decode_record(view_of(found.body));
    return true;
  };
  if (read(parked_get_, place::parked)) {
    return found;
  }
  std::int64_t seq = serial;
  if (loc_get_(serial).step()) {
    seq = loc_get_.integer(0);
    loc_get_.done();
  }
  if (load(seq, found) && found.serial == serial) {
    const queue_row& row = queue(found.queue);
    found.state = (seq & stream_mask) < (is_front(seq) ? row.front_head : row.head) ? job_state::active : job_state::ready;
    return found;
  }
  found.where = place::nowhere;
  static_cast<void>(read(ended_get_, place::ended));
  return found;
}

std::int64_t store::serial_of(std::string_view id, std::string_view queue_name) {
  const job_name name = parse_job_id(id);
  const auto own = [&]() -> std::optional<std::int64_t> {
    if (name.custom_id.empty() || !queue_by_name_(queue_name).step()) {
      return std::nullopt;
    }
    const auto number = queue_by_name_.integer(0);
    queue_by_name_.done();
    if (!own_get_(number, name.custom_id).step()) {
      return std::nullopt;
    }
    const auto serial = own_get_.integer(0);
    own_get_.done();
    return serial;
  };
  // A name with a life in it says all; otherwise an own id goes before a serial number that looks the same.
  if (id.find('@') == std::string_view::npos || !name.serial) {
    if (const auto serial = own()) {
      return *serial;
    }
  }
  return name.serial ? static_cast<std::int64_t>(*name.serial) : 0;
}

store::located store::find(std::string_view id, std::string_view queue_name) {
  located found;
  if (const auto serial = serial_of(id, queue_name); serial > 0) {
    found = locate(serial);
  }
  // What was kept long enough is gone, whether or not it has been swept.
  if (found.where == place::ended && found.expires <= now_) {
    found.where = place::nowhere;
  }
  if (found.where == place::nowhere) {
    throw error{errc::not_found,
                fmt::format("there is no job {} (an own id is looked up in the queue \"{}\")", quoted(id), queue_name)};
  }
  return found;
}

std::string store::name_of(std::int64_t serial) {
  const located found = locate(serial);
  return make_job_id(static_cast<std::uint64_t>(serial),
                     found.where == place::nowhere ? std::string_view{} : found.rec.custom_id);
}

// --- leasing ---------------------------------------------------------------------------------------------------------------------------

bool store::anything_ready(std::span<const std::int64_t> queues) {
  return std::ranges::any_of(queues, [&](std::int64_t id) {
    const bool found = queue_ready_(id).step();
    queue_ready_.done();
    return found;
  });
}

void store::claim(std::int64_t owner, std::span<const std::int64_t> queues, shares& turns, std::size_t max, delivery_batch& out,
                  lease_book& book) {
  std::size_t taken = 0;
  const auto plan = turns.plan(max);
  for (const bool leftovers : {false, true}) {
    for (const auto& turn : plan) {
      if (taken >= max || out.size_bytes() >= fetch_bytes) {
        return;
      }
      queue_row& row = queue(queues[turn.queue]);
      if (row.paused) {
        continue;
      }
      const std::size_t before = taken;
      const std::size_t limit = std::min(max, leftovers ? max : taken + turn.count);
      for (const bool front : {true, false}) {
        if (taken < limit && (front ? row.front_head < row.front_tail : row.head < row.tail)) {
          take(row, front, limit - taken, owner, out, book, taken);
        }
      }
      turns.took(turn.queue, taken - before);
    }
  }
}

void store::take(queue_row& row, bool front, std::size_t count, std::int64_t owner, delivery_batch& out, lease_book& book,
                 std::size_t& taken) {
  std::int64_t& head = front ? row.front_head : row.head;
  const std::int64_t tail = front ? row.front_tail : row.tail;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint32_t leased = 0;
  std::size_t rows = 0;
  bool all_seen = true;
  std::string_view queue_name;
  std::vector<std::int64_t> overdue;
  job_claim_(key_of(row.id, front, head), key_of(row.id, front, tail), count);
  while (job_claim_.step()) {
    const std::int64_t seq = job_claim_.integer(0);
    first = first == 0 ? seq : first;
    last = seq;
    ++rows;
    const record stored = decode_record(job_claim_.bytes(1));
    if (stored.deadline && *stored.deadline <= wall_) {
      overdue.push_back(seq);
      continue;
    }
    if (queue_name.empty()) {
      queue_name = out.keep(row.name);
    }
    const record kept = decode_record(out.keep(job_claim_.bytes(1)));
    out.jobs.push_back(delivery_of(kept, static_cast<std::uint64_t>(seq), token_of(seq, kept), queue_name));
    ++leased;
    if (rows == count || out.size_bytes() >= fetch_bytes) {
      job_claim_.done();
      all_seen = false;
      break;
    }
  }
  all_seen = all_seen && rows < count;
  head = all_seen ? tail : (last & stream_mask) + 1;
  changed(row);
  for (const std::int64_t seq : overdue) {
    if (load(seq, job_)) {
      pull(job_);
      finish(job_, job_state::discarded, "its deadline came before it was started");
    }
  }
  if (leased > 0) {
    lease_add_(first, last, owner).run();
    book.add(first, last, leased);
    taken += leased;
  }
}

// --- ending ----------------------------------------------------------------------------------------------------------------------------

void store::settle(std::string_view worker, std::span<const settlement> what, std::span<settled> out, lease_book& book) {
  for (std::size_t i = 0; i < what.size();) {
    std::size_t run = i;
    while (run < what.size() && what[run].how == verdict::complete && is_plain(what[run].lease) &&
           (run == i || what[run].lease.number == what[run - 1].lease.number + 1)) {
      ++run;
    }
    if (run > i) {
      const auto done = settle_run(what.subspan(i, run - i), out.subspan(i, run - i), book);
      if (done > 0) {
        changed(queue(queue_of(static_cast<std::int64_t>(what[i].lease.number)))).count[c_completed] +=
            static_cast<std::int64_t>(done);
      }
    } else {
      // A token is good in its owner's hands alone.
      if (book.holds(static_cast<std::int64_t>(what[i].lease.number))) {
        settle_one(worker, what[i], out[i]);
      } else {
        out[i] = settled::lost;
      }
      ++run;
    }
    // What was lost leaves the book when its worker hears of it, once; a token that is settled twice must not take from the range again.
    for (; i < run; ++i) {
      if (out[i] != settled::lost) {
        end_range(static_cast<std::int64_t>(what[i].lease.number), book);
      }
    }
  }
}

void store::end_range(std::int64_t seq, lease_book& book) {
  if (const auto first = book.ended(seq)) {
    lease_delete_(*first).run();
  }
}

std::size_t store::settle_run(std::span<const settlement> run, std::span<settled> out, const lease_book& book) {
  const auto first = static_cast<std::int64_t>(run.front().lease.number);
  const auto last = static_cast<std::int64_t>(run.back().lease.number);
  if (run.size() > 1 && book.holds(first) && book.holds(last)) {
    job_count_run_(first, last).step();
    const auto there = static_cast<std::size_t>(job_count_run_.integer(0));
    job_count_run_.done();
    if (there == run.size()) {
      job_delete_run_(first, last).run();
      std::ranges::fill(out, settled::yes);
      return run.size();
    }
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    bool owned = book.holds(static_cast<std::int64_t>(run[i].lease.number));
    if (owned) {
      job_delete_(run[i].lease.number).run();
      owned = sqlite3_changes(db_) == 1;
    }
    out[i] = owned ? settled::yes : settled::lost;
    done += owned ? 1 : 0;
  }
  return done;
}

void store::settle_one(std::string_view worker, const settlement& s, settled& out) {
  if (!load(static_cast<std::int64_t>(s.lease.number), job_)) {
    out = settled::lost;
    return;
  }
  out = settled::yes;
  pull(job_);
  switch (s.how) {
    case verdict::complete:
      finish(job_, job_state::completed, s.text);
      break;
    case verdict::retry:
    case verdict::bury: {
      errors_.clear();
      const bool spent = rules::count_failure(job_.rec, wall_, worker, s.text, errors_);
      ++changed(queue(job_.queue)).count[c_failed];
      if (spent || s.how == verdict::bury) {
        out = s.how == verdict::bury ? settled::yes : settled::buried;
        finish(job_, job_state::dead, s.text);
      } else if (s.delay.count() > 0) {
        put_parked(job_, delay_ms(s.delay));
      } else {
        put_ready(job_, false);
      }
      break;
    }
    case verdict::hand_back:
      if (s.delay.count() > 0) {
        put_parked(job_, delay_ms(s.delay));
      } else {
        put_ready(job_, true);
      }
      break;
    case verdict::discard:
      finish(job_, job_state::discarded, s.text);
      break;
    case verdict::cancel:
      finish(job_, job_state::cancelled, s.text);
      break;
  }
}

void store::pull(const located& from) {
  switch (from.where) {
    case place::job:
      job_delete_(from.seq).run();
      if (from.seq != from.serial) {
        loc_delete_(from.serial).run();
      }
      if (rules::is_suspect(from.rec)) {
        mark_delete_(from.seq).run();
      }
      progress_clear_(from.seq).run();
      break;
    case place::parked:
      parked_delete_(from.serial).run();
      break;
    case place::ended:
      ended_delete_(from.serial).run();
      break;
    case place::nowhere:
      break;
  }
}

void store::rewrite(located& job) {
  scratch_.clear();
  if (job.rec.fit == record_fit::garbage) {
    scratch_ = view_of(job.body);
    return;
  }
  job.rec.serial = static_cast<std::uint64_t>(job.serial);
  encode_record(job.rec, scratch_);
}

void store::put_ready(located& job, bool front) {
  queue_row& row = changed(queue(job.queue));
  const auto seq = key_of(row.id, front, front ? row.front_tail++ : row.tail++);
  rewrite(job);
  insert_body(job_add_, seq);
  if (job.rec.fit == record_fit::garbage) {
    job.serial = seq;
  } else {
    loc_set_(job.serial, seq).run();
  }
  made_ready(row);
}

void store::put_parked(located& job, std::int64_t delay) {
  rewrite(job);
  park(job.serial, job.queue, job_state::retry, false, now_ + delay);
}

void store::park(std::int64_t serial, std::int64_t queue_number, job_state state, bool by_wall, std::int64_t due) {
  const int wall = by_wall ? 1 : 0;
  bool first = true;
  if (parked_first_(wall).step()) {
    first = due < parked_first_.integer(0);
    parked_first_.done();
  }
  parked_add_(serial, queue_number, static_cast<int>(state), wall, due, std::span<const char>{scratch_}).run();
  effects_.earlier_due = effects_.earlier_due || first;
}

std::optional<std::int64_t> store::id_holder(std::int64_t queue_number, std::string_view id) {
  if (id.empty() || !own_get_(queue_number, id).step()) {
    return std::nullopt;
  }
  const auto holder = own_get_.integer(0);
  const bool live = own_get_.integer(1) != 0;
  own_get_.done();
  return live ? std::optional{holder} : std::nullopt;
}

std::optional<std::int64_t> store::key_holder(std::int64_t queue_number, std::string_view key) {
  if (key.empty() || !unique_get_(queue_number, std::span<const char>{hash_of(key)}).step()) {
    return std::nullopt;
  }
  const auto holder = unique_get_.integer(0);
  const bool locked = unique_get_.integer(1) > now_;
  unique_get_.done();
  return locked ? std::optional{holder} : std::nullopt;
}

void store::hold(std::int64_t queue_number, std::int64_t serial, std::string_view id, std::string_view key,
                 milliseconds unique_for) {
  if (!id.empty()) {
    // An ended life of the same id keeps its own row; only the name moves on.
    own_set_(queue_number, id, serial).run();
  }
  if (!key.empty()) {
    unique_set_(queue_number, std::span<const char>{hash_of(key)}, serial, now_ + unique_for.count()).run();
  }
}

void store::finish(located& job, job_state end, std::string_view text, std::chrono::milliseconds kept_for) {
  record& rec = job.rec;
  const auto kept = kept_for.count();
  if (!rec.custom_id.empty()) {
    (kept > 0 ? own_end_ : own_delete_)(job.queue, rec.custom_id, job.serial).run();
  }
  if (!rec.unique_key.empty()) {
    unique_delete_(job.queue, std::span<const char>{hash_of(rec.unique_key)}, job.serial).run();
  }
  if (kept > 0) {
    if (rec.fit == record_fit::garbage) {
      rec = record_of_garbage(view_of(job.body), wall_);
    }
    rec.serial = 0;
    rec.ending = end == job_state::completed ? text : rules::cut_error(text);
    scratch_.clear();
    encode_record(rec, scratch_);
    ended_add_(job.serial, job.queue, static_cast<int>(end), wall_us(wall_), now_ + kept, std::span<const char>{scratch_}).run();
  }
  constexpr auto counter_of = [](job_state s) {
    switch (s) {
      case job_state::completed:
        return c_completed;
      case job_state::dead:
        return c_dead;
      case job_state::cancelled:
        return c_cancelled;
      default:
        return c_discarded;
    }
  };
  ++changed(queue(job.queue)).count[counter_of(end)];
  if (rec.keep_result.count() > 0) {
    effects_.ended.push_back(job.serial);
  }
}

void store::hand_back_all(lease_book& book) {
  std::vector<std::int64_t> keys;
  for (const auto& [first, last] : book.ranges()) {
    job_range_(first, last, std::numeric_limits<std::int64_t>::max());
    while (job_range_.step()) {
      keys.push_back(job_range_.integer(0));
    }
    lease_delete_(first).run();
  }
  for (const auto seq : keys) {
    if (load(seq, job_)) {
      pull(job_);
      put_ready(job_, true);
    }
    static_cast<void>(book.ended(seq));
  }
}

bool store::mark(std::int64_t seq) {
  const bool owned = job_body_(seq).step();
  job_body_.done();
  if (owned) {
    mark_add_(seq).run();
  }
  return owned;
}

void store::report(std::int64_t seq, double done, std::string_view note) {
  const bool owned = job_body_(seq).step();
  job_body_.done();
  if (owned) {
    progress_set_(seq, done, note).run();
  }
}

// --- workers ---------------------------------------------------------------------------------------------------------------------------

std::int64_t store::join(const member& who, std::string_view host, std::uint32_t pid, std::uint32_t concurrency,
                         std::string_view queues) {
  worker_add_(who.name, host, pid, who.boot, who.side, who.slot, who.token, who.beat, wall_us(wall_), wall_us(wall_), concurrency,
              queues)
      .run();
  return sqlite3_last_insert_rowid(db_);
}

std::vector<lease_token> store::beat(std::int64_t owner, std::int64_t steady_ms, lease_book& book) {
  worker_beat_(owner, steady_ms, wall_us(wall_)).run();
  std::vector<lease_token> lost;
  revoked_get_(owner);
  while (revoked_get_.step()) {
    lost.push_back({.where = static_cast<std::uint64_t>(revoked_get_.integer(1)),
                    .number = static_cast<std::uint64_t>(revoked_get_.integer(0))});
  }
  if (!lost.empty()) {
    revoked_clear_(owner).run();
  }
  for (const lease_token& lease : lost) {
    end_range(static_cast<std::int64_t>(lease.number), book);
  }
  return lost;
}

void store::leave(std::int64_t owner) {
  revoked_clear_(owner).run();
  worker_delete_(owner).run();
}

std::vector<member> store::members() {
  std::vector<member> all;
  worker_all_();
  while (worker_all_.step()) {
    all.push_back({.id = worker_all_.integer(0),
                   .name = std::string{worker_all_.bytes(6)},
                   .boot = std::string{worker_all_.bytes(1)},
                   .side = worker_all_.integer(2),
                   .slot = worker_all_.integer(3),
                   .token = worker_all_.integer(4),
                   .beat = worker_all_.integer(5)});
  }
  return all;
}

// --- keeping order ---------------------------------------------------------------------------------------------------------------------

bool store::promote(std::size_t limit) {
  std::vector<std::int64_t> due;
  for (const int wall : {0, 1}) {
    parked_due_(wall, wall == 0 ? now_ : wall_ms(wall_), limit - due.size());
    while (parked_due_.step()) {
      due.push_back(parked_due_.integer(0));
    }
    if (due.size() == limit) {
      break;
    }
  }
  for (const auto serial : due) {
    if (located job = locate(serial); job.where == place::parked) {
      pull(job);
      put_ready(job, false);
    }
  }
  return due.size() == limit;
}

next_due store::upcoming() {
  next_due next;
  for (const int wall : {0, 1}) {
    if (parked_first_(wall).step()) {
      (wall == 0 ? next.store_ms : next.wall_ms) = parked_first_.integer(0);
      parked_first_.done();
    }
  }
  return next;
}

void store::lose(located& job, std::string_view worker) {
  const bool marked = mark_get_(job.seq).step();
  mark_get_.done();
  const bool buried = rules::count_loss(job.rec, marked);
  mark_delete_(job.seq).run();
  pull(job);
  ++changed(queue(job.queue)).count[c_reclaimed];
  if (buried) {
    const std::string reason = rules::loss_reason(job.rec);
    errors_.clear();
    add_failure(job.rec.raw_errors, wall_, worker, reason, errors_);
    job.rec.raw_errors = errors_;
    finish(job, job_state::dead, reason);
  } else {
    put_ready(job, true);
  }
}

bool store::reclaim(const std::function<vitality(const member&)>& judge, std::size_t limit) {
  std::size_t taken = 0;
  for (const member& who : members()) {
    const vitality state = judge(who);
    if (state == vitality::alive) {
      continue;
    }
    while (lease_owner_(who.id).step()) {
      const auto first = lease_owner_.integer(0);
      const auto last = lease_owner_.integer(1);
      lease_owner_.done();
      std::vector<std::int64_t> keys;
      job_range_(first, last, limit - taken + 1);
      while (job_range_.step()) {
        keys.push_back(job_range_.integer(0));
      }
      for (const auto seq : keys) {
        if (taken == limit) {
          return true;
        }
        if (load(seq, job_)) {
          if (state == vitality::silent) {
            const auto token = token_of(seq, job_.rec);
            revoked_add_(who.id, seq, token.where).run();
          }
          lose(job_, who.name);
          ++taken;
        }
      }
      lease_delete_(first).run();
      if (state == vitality::silent) {
        effects_.revoked.push_back(who.id);
      }
    }
    if (state == vitality::dead) {
      leave(who.id);
    }
  }
  return false;
}

std::size_t store::reclaim_orphans(std::size_t limit) {
  // Heads as this transaction left them.
  flush();
  std::vector<std::int64_t> keys;
  orphan_find_(limit);
  while (orphan_find_.step()) {
    keys.push_back(orphan_find_.integer(0));
  }
  for (const auto seq : keys) {
    if (load(seq, job_)) {
      lose(job_, {});
    }
  }
  return keys.size();
}

void store::forget_ended(const located& job) {
  pull(job);
  if (!job.rec.custom_id.empty()) {
    own_delete_(job.queue, job.rec.custom_id, job.serial).run();
  }
}

void store::trim(std::int64_t queue_number, job_state state, std::uint64_t most) {
  ended_count_(queue_number, static_cast<int>(state)).step();
  const auto have = static_cast<std::uint64_t>(ended_count_.integer(0));
  ended_count_.done();
  if (have <= most) {
    return;
  }
  std::vector<std::int64_t> oldest;
  ended_oldest_(queue_number, static_cast<int>(state), std::min<std::uint64_t>(have - most, 1000));
  while (ended_oldest_.step()) {
    oldest.push_back(ended_oldest_.integer(0));
  }
  for (const auto serial : oldest) {
    if (const located job = locate(serial); job.where == place::ended) {
      forget_ended(job);
    }
  }
}

bool store::expire(std::size_t limit) {
  std::vector<std::int64_t> old;
  ended_expired_(now_, limit);
  while (ended_expired_.step()) {
    old.push_back(ended_expired_.integer(0));
  }
  for (const auto serial : old) {
    if (const located job = locate(serial); job.where == place::ended) {
      forget_ended(job);
    }
  }
  if (old.size() == limit) {
    return true;
  }
  std::vector<std::int64_t> queues;
  statement all{db_, "SELECT id FROM ergon_queue"};
  while (all.step()) {
    queues.push_back(all.integer(0));
  }
  for (const auto id : queues) {
    trim(id, job_state::dead, rules::dead_kept);
    trim(id, job_state::cancelled, rules::gone_kept);
    trim(id, job_state::discarded, rules::gone_kept);
  }
  constexpr std::int64_t stats_hours = 90 * 24;
  statement{db_, "DELETE FROM ergon_stats WHERE hour < ?"}(hour_of(wall_) - stats_hours).run();
  return false;
}

// --- by hand ---------------------------------------------------------------------------------------------------------------------------

void store::revoke(std::int64_t seq, const record& rec) {
  if (!lease_of_(seq).step()) {
    return;
  }
  const auto last = lease_of_.integer(0);
  const auto owner = lease_of_.integer(1);
  lease_of_.done();
  if (last >= seq) {
    revoked_add_(owner, seq, token_of(seq, rec).where).run();
    effects_.revoked.push_back(owner);
  }
}

job_state store::cancel(std::string_view id, std::string_view queue_name) {
  located job = find(id, queue_name);
  if (job.where == place::ended) {
    throw error{errc::wrong_state, fmt::format("the job {} is {} already: only a job that has not ended can be cancelled",
                                               quoted(id), to_string(job.state))};
  }
  if (job.state == job_state::active) {
    revoke(job.seq, job.rec);
  }
  pull(job);
  finish(job, job_state::cancelled, "cancelled");
  return job.state;
}

std::string store::run(std::string_view id, std::string_view queue_name) {
  located job = find(id, queue_name);
  if (job.where == place::job) {
    throw error{errc::wrong_state, fmt::format("the job {} is {} already", quoted(id), to_string(job.state))};
  }
  if (job.state == job_state::discarded) {
    throw error{errc::wrong_state, fmt::format("the job {} was discarded: enqueue it again if it is to run", quoted(id))};
  }
  if (job.where == place::parked) {
    pull(job);
    rules::renew(job.rec);
    put_ready(job, false);
    return make_job_id(static_cast<std::uint64_t>(job.serial), job.rec.custom_id);
  }
  if (id_holder(job.queue, job.rec.custom_id)) {
    throw error{errc::wrong_state, fmt::format("the job {} cannot run again: another live job has the id {}", quoted(id),
                                               quoted(job.rec.custom_id))};
  }
  if (const auto holder = key_holder(job.queue, job.rec.unique_key)) {
    throw error{errc::wrong_state,
                fmt::format("the job {} cannot run again: {} holds its unique key", quoted(id), name_of(*holder))};
  }
  // A new life: what waits for the old one keeps its end, and the two share nothing.
  queue_row& row = changed(queue(job.queue));
  const auto serial = key_of(row.id, false, row.tail++);
  ended_delete_(job.serial).run();
  rules::renew(job.rec);
  job.rec.serial = 0;
  job.rec.enqueued_at = wall_;
  scratch_.clear();
  encode_record(job.rec, scratch_);
  insert_body(job_add_, serial);
  hold(row.id, serial, job.rec.custom_id, job.rec.unique_key, job.rec.unique_for);
  ++row.count[c_enqueued];
  made_ready(row);
  return make_job_id(static_cast<std::uint64_t>(serial), job.rec.custom_id);
}

void store::remove(std::string_view id, std::string_view queue_name) {
  located job = find(id, queue_name);
  if (job.state == job_state::active) {
    throw error{errc::wrong_state, fmt::format("the job {} is active: cancel it first", quoted(id))};
  }
  if (job.where == place::ended) {
    forget_ended(job);
  } else {
    pull(job);
    finish(job, job_state::discarded, {}, {});
  }
}

}  // namespace ergon::sqlite
