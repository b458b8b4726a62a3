#include "broker/sqlite/inspector.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "broker/job_id.hpp"
#include "broker/rules.hpp"
#include "broker/sqlite/store.hpp"

namespace ergon::sqlite {

namespace {

/// Rows that one page looks at before it gives what it has.
constexpr std::size_t page_budget = 5000;
/// Running jobs that a worker is shown with.
constexpr std::size_t shown_running = 100;

/// A read transaction: all statements in it see one state of the store.
class snapshot {
 public:
  explicit snapshot(sqlite3* db) : db_{db} { execute(db, "BEGIN", "read"); }
  snapshot(const snapshot&) = delete;
  snapshot& operator=(const snapshot&) = delete;
  ~snapshot() { sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr); }

 private:
  sqlite3* db_;
};

wall_time from_us(std::int64_t us) noexcept { return wall_time{std::chrono::microseconds{us}}; }
wall_time from_ms(std::int64_t ms) noexcept { return wall_time{std::chrono::milliseconds{ms}}; }

/// Where a listing stands: in the phase'th table, after this key.
struct position {
  int phase = 0;
  std::int64_t after = std::numeric_limits<std::int64_t>::min();
};

position read_cursor(std::string_view cursor) {
  position at;
  if (cursor.empty()) {
    return at;
  }
  long long after = 0;
  if (std::sscanf(std::string{cursor}.c_str(), "%d:%lld", &at.phase, &after) != 2 || at.phase < 0 || at.phase > 2) {
    throw error{errc::invalid_argument, fmt::format("the cursor {} is none that a listing gave", quoted(cursor))};
  }
  at.after = after;
  return at;
}

/// "name weight name weight …": names hold no blanks.
std::vector<std::pair<std::string, std::uint32_t>> read_queues(std::string_view text) {
  std::vector<std::pair<std::string, std::uint32_t>> queues;
  while (!text.empty()) {
    const auto name = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    const auto weight = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), weight.size() + 1));
    queues.emplace_back(name, static_cast<std::uint32_t>(std::strtoul(std::string{weight}.c_str(), nullptr, 10)));
  }
  return queues;
}

}  // namespace

inspector::inspector(connection db, ergon::clock& clock) : db_{std::move(db)}, clock_{clock} {}

std::vector<inspector::queue_place> inspector::places() {
  std::vector<queue_place> all;
  statement read{db_.get(), "SELECT id, name, paused, head, front_head FROM ergon_queue ORDER BY name"};
  while (read.step()) {
    all.push_back({.id = read.integer(0),
                   .name = std::string{read.bytes(1)},
                   .paused = read.integer(2) != 0,
                   .head = read.integer(3),
                   .front_head = read.integer(4)});
  }
  return all;
}

std::int64_t inspector::store_now() {
  const auto epoch = query_integer(db_.get(), "SELECT value FROM ergon_meta WHERE key = 'epoch'");
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.boot()).count() + epoch;
}

wall_time inspector::wall_of(std::int64_t store_ms) { return clock_.wall() + std::chrono::milliseconds{store_ms - store_now()}; }

std::optional<std::uint64_t> inspector::serial_of(std::string_view id, std::string_view queue) {
  const job_name name = parse_job_id(id);
  const bool names_a_life = id.find('@') != std::string_view::npos && name.serial;
  if (!name.custom_id.empty() && !names_a_life) {
    statement own{db_.get(),
                  "SELECT o.serial FROM ergon_own o JOIN ergon_queue q ON q.id = o.queue WHERE q.name = ? AND o.id = ?"};
    if (own(queue, name.custom_id).step()) {
      return static_cast<std::uint64_t>(own.integer(0));
    }
  }
  return name.serial;
}

job_info inspector::of_job(std::int64_t seq, std::string_view body, const queue_place& in) {
  const record rec = decode_record(body);
  const bool active = (seq & stream_mask) < in.head_of(is_front(seq));
  job_info info = info_of(rec, static_cast<std::uint64_t>(seq), in.name, active ? job_state::active : job_state::ready);
  if (active) {
    statement holder{db_.get(),
                     "SELECT w.name, l.last FROM ergon_lease l LEFT JOIN ergon_worker w ON w.id = l.owner WHERE l.first <= ? "
                     "ORDER BY l.first DESC LIMIT 1"};
    if (holder(seq).step() && holder.integer(1) >= seq) {
      info.worker = holder.bytes(0);
    }
    statement progress{db_.get(), "SELECT done, note FROM ergon_progress WHERE seq = ?"};
    if (progress(seq).step()) {
      info.progress = progress.real(0);
      info.note = progress.bytes(1);
    }
  }
  return info;
}

// Rows of ergon_parked: state, wall, due, body from column 1 on.
job_info inspector::of_parked(std::int64_t serial, statement& row, const queue_place& in) {
  job_info info =
      info_of(decode_record(row.bytes(4)), static_cast<std::uint64_t>(serial), in.name, static_cast<job_state>(row.integer(1)));
  info.due = row.integer(2) != 0 ? from_ms(row.integer(3)) : wall_of(row.integer(3));
  return info;
}

// Rows of ergon_ended: state, ended_at, body from column 1 on.
job_info inspector::of_ended(std::int64_t serial, statement& row, const queue_place& in) {
  const auto state = static_cast<job_state>(row.integer(1));
  const record rec = decode_record(row.bytes(3));
  job_info info = info_of(rec, static_cast<std::uint64_t>(serial), in.name, state);
  info.ended_at = from_us(row.integer(2));
  if (state != job_state::completed && rec.ending) {
    info.note = *rec.ending;
  }
  return info;
}

std::optional<job_info> inspector::find(std::string_view id, std::string_view queue) {
  const snapshot view{db_.get()};
  const auto serial = serial_of(id, queue);
  if (!serial) {
    return std::nullopt;
  }
  const auto all = places();
  const auto number = static_cast<std::int64_t>(*serial);
  const auto place_of = [&](std::int64_t queue_number) -> const queue_place* {
    const auto at = std::ranges::find(all, queue_number, &queue_place::id);
    return at == all.end() ? nullptr : &*at;
  };
  const queue_place* in = place_of(queue_of(number));
  if (in == nullptr) {
    return std::nullopt;
  }
  statement parked{db_.get(), "SELECT queue, state, wall, due, body FROM ergon_parked WHERE serial = ?"};
  if (parked(number).step()) {
    return of_parked(number, parked, *in);
  }
  std::int64_t seq = number;
  statement loc{db_.get(), "SELECT seq FROM ergon_loc WHERE serial = ?"};
  if (loc(number).step()) {
    seq = loc.integer(0);
  }
  statement job{db_.get(), "SELECT body FROM ergon_job WHERE seq = ?"};
  if (job(seq).step()) {
    const record rec = decode_record(job.bytes(0));
    if ((rec.serial != 0 ? static_cast<std::int64_t>(rec.serial) : seq) == number) {
      return of_job(seq, job.bytes(0), *in);
    }
  }
  statement ended{db_.get(), "SELECT queue, state, ended_at, body FROM ergon_ended WHERE serial = ? AND expires > ?"};
  if (ended(number, store_now()).step()) {
    return of_ended(number, ended, *in);
  }
  return std::nullopt;
}

inspector::ending inspector::look(std::string_view id, std::string_view queue) {
  ending answer;
  const auto info = find(id, queue);
  if (!info) {
    return answer;
  }
  answer.exists = true;
  answer.keeps = info->keep_result.count() > 0;
  answer.serial = parse_job_id(info->id).serial.value_or(0);
  if (answer.keeps && is_terminal(info->state)) {
    // Its trace may be kept for longer than its result.
    record kept;
    kept.retention = info->retention;
    kept.keep_result = info->keep_result;
    statement ended{db_.get(), "SELECT expires FROM ergon_ended WHERE serial = ?"};
    if (!ended(answer.serial).step() ||
        ended.integer(0) - rules::kept_for(info->state, kept).count() + kept.keep_result.count() <= store_now()) {
      answer.exists = false;
      return answer;
    }
    answer.end =
        job_end{.state = info->state, .text = info->state == job_state::completed ? info->result.value_or("") : info->note};
  }
  return answer;
}

job_page inspector::list(const job_filter& filter, std::string_view cursor, std::size_t limit) {
  const snapshot view{db_.get()};
  job_page page;
  position at = read_cursor(cursor);
  std::size_t budget = page_budget;
  const auto all = places();
  const auto wanted_queue = [&](const queue_place& q) { return filter.queue.empty() || q.name == filter.queue; };
  const auto wanted = [&](const job_info& info) {
    return (!filter.state || *filter.state == info.state) && (filter.kind.empty() || filter.kind == info.kind);
  };
  const auto wanted_states = [&](std::initializer_list<job_state> states) {
    return !filter.state || std::ranges::find(states, *filter.state) != states.end();
  };
  const auto full = [&] { return page.jobs.size() >= limit || budget == 0; };
  const auto here = [&] { return fmt::format("{}:{}", at.phase, at.after); };

  if (at.phase == 0) {
    if (wanted_states({job_state::ready, job_state::active})) {
      // A stream at a time, so that a queue's own keys are walked and nobody else's; ready and active ones have their side of the head.
      statement rows{db_.get(), "SELECT seq, body FROM ergon_job WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?"};
      std::vector<const queue_place*> by_number;
      for (const auto& q : all) {
        by_number.push_back(&q);
      }
      std::ranges::sort(by_number, {}, &queue_place::id);
      for (const queue_place* q : by_number) {
        for (const bool front : {false, true}) {
          if (!wanted_queue(*q)) {
            continue;
          }
          const auto head = key_of(q->id, front, q->head_of(front));
          auto low = key_of(q->id, front, 0);
          auto high = key_of(q->id, front, stream_mask);
          if (filter.state == job_state::ready) {
            low = head - 1;
          } else if (filter.state == job_state::active) {
            high = head;
          }
          if (at.after >= high) {
            continue;
          }
          rows(std::max(low, at.after), high, budget);
          while (rows.step()) {
            at.after = rows.integer(0);
            --budget;
            if (auto info = of_job(at.after, rows.bytes(1), *q); wanted(info)) {
              page.jobs.push_back(std::move(info));
            }
            if (full()) {
              rows.done();
              page.next = here();
              return page;
            }
          }
        }
      }
    }
    at = {.phase = 1};
  }
  for (; at.phase <= 2; at = {.phase = at.phase + 1}) {
    const bool parked = at.phase == 1;
    if (parked ? !wanted_states({job_state::scheduled, job_state::retry})
               : !wanted_states({job_state::completed, job_state::dead, job_state::cancelled, job_state::discarded})) {
      continue;
    }
    statement rows{db_.get(),
                   parked
                       ? "SELECT queue, state, wall, due, body, serial FROM ergon_parked WHERE serial > ? ORDER BY serial LIMIT ?"
                       : "SELECT queue, state, ended_at, body, serial FROM ergon_ended WHERE serial > ? ORDER BY serial LIMIT ?"};
    rows(at.after, budget);
    while (rows.step()) {
      at.after = rows.integer(parked ? 5 : 4);
      --budget;
      const auto in = std::ranges::find(all, rows.integer(0), &queue_place::id);
      if (in != all.end() && wanted_queue(*in) && (!filter.state || static_cast<int>(*filter.state) == rows.integer(1))) {
        if (auto info = parked ? of_parked(at.after, rows, *in) : of_ended(at.after, rows, *in); wanted(info)) {
          page.jobs.push_back(std::move(info));
        }
      }
      if (full()) {
        rows.done();
        page.next = here();
        return page;
      }
    }
  }
  return page;
}

std::vector<queue_info> inspector::queues() {
  const snapshot view{db_.get()};
  std::vector<queue_info> all;
  statement count{db_.get(), "SELECT count(*) FROM ergon_job WHERE seq >= ? AND seq < ?"};
  statement first{db_.get(), "SELECT body FROM ergon_job WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT 1"};
  statement parked{db_.get(), "SELECT queue, state, count(*) FROM ergon_parked GROUP BY queue, state"};
  statement ended{db_.get(), "SELECT state, count(*) FROM ergon_ended WHERE queue = ? GROUP BY state"};
  const auto between = [&](std::int64_t low, std::int64_t high) {
    count(low, high).step();
    const auto n = static_cast<std::uint64_t>(count.integer(0));
    count.done();
    return n;
  };
  const auto queues = places();
  for (const auto& q : queues) {
    queue_info info{.name = q.name, .paused = q.paused};
    std::optional<wall_time> oldest;
    for (const bool front : {false, true}) {
      const auto head = key_of(q.id, front, q.head_of(front));
      const auto end = key_of(q.id, front, stream_mask);
      info.active += between(key_of(q.id, front, 0), head);
      info.ready += between(head, end);
      if (first(head, end).step()) {
        const auto stamp = decode_record(first.bytes(0)).enqueued_at;
        oldest = oldest ? std::min(*oldest, stamp) : stamp;
        first.done();
      }
    }
    if (oldest) {
      info.latency =
          std::max(std::chrono::milliseconds{0}, std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall() - *oldest));
    }
    ended(q.id);
    while (ended.step()) {
      const auto n = static_cast<std::uint64_t>(ended.integer(1));
      switch (static_cast<job_state>(ended.integer(0))) {
        case job_state::completed:
          info.completed = n;
          break;
        case job_state::dead:
          info.dead = n;
          break;
        case job_state::cancelled:
          info.cancelled = n;
          break;
        default:
          info.discarded = n;
          break;
      }
    }
    all.push_back(std::move(info));
  }
  while (parked.step()) {
    const auto at = std::ranges::find(queues, parked.integer(0), &queue_place::id);
    if (at != queues.end()) {
      queue_info& info = all[static_cast<std::size_t>(at - queues.begin())];
      (static_cast<job_state>(parked.integer(1)) == job_state::scheduled ? info.scheduled : info.retry) +=
          static_cast<std::uint64_t>(parked.integer(2));
    }
  }
  return all;
}

std::vector<hour_stats> inspector::stats(std::string_view queue, std::uint32_t hours) {
  const snapshot view{db_.get()};
  const auto now = std::chrono::duration_cast<std::chrono::hours>(clock_.wall().time_since_epoch()).count();
  statement rows{db_.get(),
                 "SELECT hour, enqueued, completed, failed, dead, cancelled, discarded, reclaimed FROM (SELECT s.* FROM "
                 "ergon_stats s JOIN ergon_queue q ON "
                 "q.id = s.queue WHERE q.name = ?1 UNION ALL SELECT id, hour, enqueued, completed, failed, dead, cancelled, "
                 "discarded, reclaimed FROM "
                 "ergon_queue WHERE name = ?1) WHERE hour > ?2 AND enqueued + completed + failed + dead + cancelled + discarded "
                 "+ reclaimed > 0 ORDER BY hour"};
  std::vector<hour_stats> all;
  rows(queue, now - hours);
  const auto number = [&](int column) { return static_cast<std::uint64_t>(rows.integer(column)); };
  while (rows.step()) {
    all.push_back({.hour = wall_time{std::chrono::hours{rows.integer(0)}},
                   .enqueued = number(1),
                   .completed = number(2),
                   .failed = number(3),
                   .dead = number(4),
                   .cancelled = number(5),
                   .discarded = number(6),
                   .reclaimed = number(7)});
  }
  return all;
}

std::vector<worker_info> inspector::workers() {
  const snapshot view{db_.get()};
  const auto all = places();
  std::vector<worker_info> found;
  statement rows{db_.get(), "SELECT id, name, host, pid, concurrency, queues, started, seen FROM ergon_worker ORDER BY id"};
  statement leases{db_.get(), "SELECT first, last FROM ergon_lease WHERE owner = ? ORDER BY first"};
  statement jobs{db_.get(), "SELECT seq, body FROM ergon_job WHERE seq BETWEEN ? AND ? ORDER BY seq"};
  while (rows.step()) {
    worker_info info{.id = std::string{rows.bytes(1)},
                     .host = std::string{rows.bytes(2)},
                     .pid = static_cast<std::uint32_t>(rows.integer(3)),
                     .concurrency = static_cast<std::uint32_t>(rows.integer(4)),
                     .queues = read_queues(rows.bytes(5)),
                     .started_at = from_us(rows.integer(6)),
                     .seen_at = from_us(rows.integer(7)),
                     .leased = 0,
                     .running = {}};
    leases(rows.integer(0));
    while (leases.step()) {
      jobs(leases.integer(0), leases.integer(1));
      while (jobs.step()) {
        ++info.leased;
        if (info.running.size() < shown_running) {
          const auto seq = jobs.integer(0);
          const auto in = std::ranges::find(all, queue_of(seq), &queue_place::id);
          const job_info job = info_of(decode_record(jobs.bytes(1)), static_cast<std::uint64_t>(seq),
                                       in != all.end() ? in->name : "", job_state::active);
          info.running.push_back({.id = job.id, .queue = job.queue, .kind = job.kind});
        }
      }
    }
    found.push_back(std::move(info));
  }
  return found;
}

}  // namespace ergon::sqlite
