// The transitions of jobs in memory. Each public function is one critical section and one step: it either happens whole or, where it
// throws, not at all.
#include "broker/memory/store.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/id.hpp>
#include <ergon/base/text.hpp>

#include "broker/check.hpp"
#include "broker/job_id.hpp"
#include "broker/rules.hpp"

namespace ergon::memory {

namespace {

constexpr unsigned number_bits = 40;
constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;
/// A fetch stops once its records have this many bytes.
constexpr std::size_t fetch_bytes = std::size_t{1} << 20;
/// Free nodes that are kept for the next jobs, and how large a buffer they may keep.
constexpr std::size_t most_free = 16'384;
constexpr std::size_t kept_buffer = 1'024;
/// Transitions that maintenance makes under one lock.
constexpr std::size_t maintenance_step = 1'000;
/// Places that one call of `list` looks at.
constexpr std::size_t list_budget = 10'000;
constexpr std::size_t most_hours = 2'160;
constexpr std::size_t listed_running = 100;

constexpr std::size_t at(job_state state) noexcept { return static_cast<std::size_t>(state); }

std::int64_t ns(wall_time time) noexcept { return time.time_since_epoch().count(); }

std::int64_t later(std::int64_t from, std::chrono::nanoseconds span) noexcept {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  return from > 0 && span.count() > end - from ? end : from + span.count();
}

std::string shown_id(const node& n) {
  return make_job_id(n.serial, n.more ? std::string_view{n.more->own_id} : std::string_view{});
}

}  // namespace

store::~store() {
  const auto free_all = [](node* n) {
    while (n != nullptr) delete std::exchange(n, n->next);
  };
  free_all(free_);
  for (const auto& q : queues_) {
    q->jobs.walk(0, std::numeric_limits<std::size_t>::max(), [](node& n) {
      delete &n;
      return true;
    });
  }
}

// Nodes and their indexes

queue& store::queue_named(std::string_view name) {
  if (queue* q = find_queue(name)) return *q;
  auto made = std::make_unique<queue>();
  made->name = name;
  made->index = queues_.size() + 1;
  queues_.push_back(std::move(made));
  queue& q = *queues_.back();
  by_name_.emplace(q.name, &q);
  return q;
}

queue* store::find_queue(std::string_view name) noexcept {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

node* store::find_serial(std::uint64_t serial) noexcept {
  const std::uint64_t index = serial >> number_bits;
  if (index == 0 || index > queues_.size()) return nullptr;
  return queues_[index - 1]->jobs.find(serial & number_mask);
}

node* store::find_job(std::string_view id, std::string_view queue_name) {
  const job_name name = parse_job_id(id);
  if (name.serial) {
    node* n = find_serial(*name.serial);
    const std::string_view own = n != nullptr && n->more ? std::string_view{n->more->own_id} : std::string_view{};
    const bool exact = id.find('@') != std::string_view::npos;
    if (n != nullptr && own == (exact ? name.custom_id : std::string_view{})) {
      // A text of thirteen digits may be somebody's own id; that one goes first.
      queue* q = exact ? nullptr : find_queue(queue_name);
      if (q == nullptr || !q->ids.contains(name.custom_id)) return n;
    } else if (exact) {
      return nullptr;
    }
  }
  queue* q = find_queue(queue_name);
  if (q == nullptr) return nullptr;
  const auto it = q->ids.find(name.custom_id);
  return it == q->ids.end() ? nullptr : it->second;
}

node& store::need_job(std::string_view id, std::string_view queue_name) {
  if (node* n = find_job(id, queue_name)) return *n;
  throw error{errc::not_found,
              fmt::format("no job {} in the queue {}: it never was, or was not kept", quoted(id), quoted(queue_name))};
}

node* store::leased(const member& m, lease_token lease) noexcept {
  node* n = find_serial(lease.where);
  return n != nullptr && n->state == job_state::active && n->lease == lease.number && n->owner == &m ? n : nullptr;
}

node* store::live_holder_of_id(queue& q, std::string_view id) noexcept {
  const auto it = q.ids.find(id);
  return it == q.ids.end() || is_terminal(it->second->state) ? nullptr : it->second;
}

node* store::live_holder_of_key(queue& q, std::string_view key, std::int64_t boot) noexcept {
  const auto it = q.keys.find(key);
  return it == q.keys.end() || it->second->more->unique_until <= boot ? nullptr : it->second;
}

node& store::make(queue& q) {
  q.jobs.reserve_one();
  node* n = free_;
  if (n != nullptr) {
    free_ = n->next;
    --free_count_;
    n->next = nullptr;
  } else {
    n = new node;
  }
  n->home = &q;
  n->serial = q.index << number_bits | q.jobs.append(*n);
  return *n;
}

void store::drop(node& n) noexcept {
  queue& q = *n.home;
  q.jobs.erase(n.serial & number_mask);
  if (n.more) {
    if (!n.more->own_id.empty()) unlink_id(n);
    if (n.more->holds_key) release_key(n);
    n.more.reset();
  }
  bytes_ -= n.cost;
  if (free_count_ == most_free) {
    delete &n;
    return;
  }
  n.cost = 0;
  n.owner = nullptr;
  n.by_wall = n.keeps = n.marked = false;
  n.body.clear();
  if (n.body.capacity() > kept_buffer) n.body.shrink_to_fit();
  n.next = free_;
  free_ = &n;
  ++free_count_;
}

void store::account(node& n) noexcept {
  std::size_t cost = sizeof(node) + n.body.size();
  if (n.more) cost += sizeof(extra) + n.more->own_id.size() + n.more->unique_key.size() + n.more->note.size();
  bytes_ += cost - n.cost;
  n.cost = cost;
}

extra& store::extra_of(node& n) {
  if (!n.more) n.more = std::make_unique<extra>();
  return *n.more;
}

void store::link_id(node& n, std::string_view id) {
  extra& more = extra_of(n);
  more.own_id = id;
  node_by_name& ids = n.home->ids;
  const auto it = ids.find(id);
  node* older = it == ids.end() ? nullptr : it->second;
  // The map's key lies in the youngest life, so it changes with it.
  if (it != ids.end()) ids.erase(it);
  try {
    ids.emplace(more.own_id, &n);
  } catch (...) {
    if (older != nullptr) ids.emplace(older->more->own_id, older);
    more.own_id.clear();
    throw;
  }
  more.older = older;
  if (older != nullptr) older->more->younger = &n;
}

void store::unlink_id(node& n) noexcept {
  extra& more = *n.more;
  if (more.younger != nullptr) {
    more.younger->more->older = more.older;
  } else {
    n.home->ids.erase(std::string_view{more.own_id});
    if (more.older != nullptr) n.home->ids.emplace(more.older->more->own_id, more.older);
  }
  if (more.older != nullptr) more.older->more->younger = more.younger;
  more.older = more.younger = nullptr;
}

void store::take_key(node& n, std::string_view key, std::int64_t until) {
  extra& more = extra_of(n);
  more.unique_key = key;
  more.unique_until = until;
  node_by_name& keys = n.home->keys;
  if (const auto it = keys.find(key); it != keys.end()) {
    // Its time was up: the job goes on without the lock.
    it->second->more->holds_key = false;
    keys.erase(it);
  }
  keys.emplace(more.unique_key, &n);
  more.holds_key = true;
}

void store::release_key(node& n) noexcept {
  n.home->keys.erase(std::string_view{n.more->unique_key});
  n.more->holds_key = false;
}

// Places

void store::unhook(node& n) noexcept {
  queue& q = *n.home;
  --q.counts[at(n.state)];
  switch (n.state) {
    case job_state::ready:
      (n.place == 0 ? q.front : q.ready).remove(n);
      break;
    case job_state::scheduled:
    case job_state::retry:
      (n.by_wall ? by_wall_ : by_boot_).remove(n);
      break;
    case job_state::active:
      n.owner->leases.remove(n);
      n.owner = nullptr;
      n.marked = false;
      break;
    case job_state::waiting:
      break;
    case job_state::completed:
      expiring_.remove(n);
      break;
    case job_state::dead:
      expiring_.remove(n);
      q.dead.remove(n);
      break;
    case job_state::cancelled:
    case job_state::discarded:
      expiring_.remove(n);
      q.gone.remove(n);
      break;
  }
}

void store::make_ready(node& n, chain& in, instant now) noexcept {
  queue& q = *n.home;
  n.state = job_state::ready;
  n.since = now.boot;
  // A ready job is in no heap: its place says which of the two lists holds it.
  n.place = &in == &q.front ? 0 : node::nowhere;
  ++q.counts[at(job_state::ready)];
  in.push_back(n);
}

void store::park(node& n, job_state state, std::int64_t due, bool by_wall) {
  heap& in = by_wall ? by_wall_ : by_boot_;
  in.reserve_one();
  n.state = state;
  n.due = due;
  n.by_wall = by_wall;
  in.push(n);
  ++n.home->counts[at(state)];
  if (in.front() == &n) wake_maintainers();
}

void store::rewrite(node& n, const record& r) {
  scratch_.clear();
  encode_record(r, scratch_);
  n.body.swap(scratch_);
  account(n);
}

// Ends

void store::tell(node& n, job_state how, std::string_view text) {
  if (!n.more || n.more->waiters.empty()) return;
  for (waiter* w : n.more->waiters) {
    w->end = {.state = how, .text = std::string{text}};
    w->of = nullptr;
    w->told.set();
  }
  n.more->waiters.clear();
}

void store::end(node& n, job_state how, std::string_view text, instant now) {
  record r = decode_record(n.body);
  end(n, r, how, text, now);
}

void store::end(node& n, record& r, job_state how, std::string_view text, instant now) {
  queue& q = *n.home;
  const auto kept = rules::kept_for(how, r);
  if (kept.count() != 0) {
    expiring_.reserve_one();
    extra_of(n);
    if (r.fit == record_fit::garbage) r = record_of_garbage(n.body, now.wall);
    r.ending = text;
    rewrite(n, r);
  }
  hour_stats& hour = hour_of(q, now.wall);
  switch (how) {
    case job_state::completed:
      ++hour.completed;
      break;
    case job_state::dead:
      ++hour.dead;
      break;
    case job_state::cancelled:
      ++hour.cancelled;
      break;
    default:
      ++hour.discarded;
      break;
  }
  if (n.more && n.more->holds_key) release_key(n);
  tell(n, how, text);
  if (kept.count() == 0) {
    drop(n);
    return;
  }
  n.state = how;
  n.since = now.boot;
  n.due = later(now.boot, kept);
  n.more->ended_at = now.wall;
  n.more->result_until = later(now.boot, r.keep_result);
  ++q.counts[at(how)];
  expiring_.push(n);
  if (expiring_.front() == &n) wake_maintainers();
  if (how == job_state::dead) {
    q.dead.push_back(n);
    trim(q.dead, rules::dead_kept);
  } else if (how != job_state::completed) {
    q.gone.push_back(n);
    trim(q.gone, rules::gone_kept);
  }
}

void store::bury(node& n, record& r, std::string_view worker, std::string_view reason, instant now) {
  if (r.fit == record_fit::garbage) r = record_of_garbage(n.body, now.wall);
  errors_.clear();
  add_failure(r.raw_errors, now.wall, worker, rules::cut_error(reason), errors_);
  r.raw_errors = errors_;
  end(n, r, job_state::dead, rules::cut_error(reason), now);
}

void store::trim(chain& in, std::uint64_t most) noexcept {
  while (in.size() > most) {
    node& oldest = *in.front();
    unhook(oldest);
    drop(oldest);
  }
}

hour_stats& store::hour_of(queue& q, wall_time now) {
  const std::int64_t number = std::chrono::floor<std::chrono::hours>(now).time_since_epoch().count();
  if (q.hour != nullptr && q.hour_number == number) return *q.hour;
  hour_stats& hour = q.hours[number];
  hour.hour = wall_time{std::chrono::hours{number}};
  q.hour = &hour;
  q.hour_number = number;
  // The oldest goes, unless a clock that was set back has just made it.
  if (q.hours.size() > most_hours) q.hours.erase(q.hours.begin()->first == number ? std::prev(q.hours.end()) : q.hours.begin());
  return hour;
}

// Wake-ups

void store::unlist(member& m) noexcept {
  if (!m.idle) return;
  m.idle = false;
  for (queue* q : m.queues) std::erase(q->idle, &m);
}

void store::wake(queue& q, std::size_t jobs) noexcept {
  if (q.paused) return;
  for (; jobs > 0 && !q.idle.empty(); --jobs) {
    member& m = *q.idle.front();
    unlist(m);
    m.wake.set();
  }
}

void store::wake_maintainers() noexcept {
  for (event* e : maintainers_) e->set();
}

// Clients

void store::enqueue(std::span<const new_job> jobs, std::span<enqueued> out, instant now, const limits& within) {
  const std::scoped_lock lock{mutex_};
  made_.clear();
  const auto undo = [&] {
    for (; !made_.empty(); made_.pop_back()) {
      unhook(*made_.back());
      drop(*made_.back());
    }
  };
  try {
    queue* q = nullptr;
    made_.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const new_job& job = jobs[i];
      if (q == nullptr || q->name != job.queue) q = &queue_named(job.queue);
      node* holder = job.id.empty() ? nullptr : live_holder_of_id(*q, job.id);
      if (holder == nullptr && !job.unique_key.empty()) holder = live_holder_of_key(*q, job.unique_key, now.boot);
      if (holder != nullptr) {
        out[i] = {.id = shown_id(*holder), .created = false};
        continue;
      }

      headers_.clear();
      if (!job.headers.empty()) encode_headers(job.headers, headers_);
      node& n = make(*q);
      try {
        encode_record(record_of(job, now.wall, headers_), n.body);
        if (!job.id.empty()) link_id(n, job.id);
        if (!job.unique_key.empty()) take_key(n, job.unique_key, later(now.boot, job.unique_for));
        account(n);
        n.keeps = job.retention.count() != 0 || job.keep_result.count() != 0;
        if (within.store != 0 && bytes_ > within.store) {
          throw error{
              errc::store_full,
              fmt::format("the store holds {} bytes and may hold {} (option max_bytes): nothing of this enqueue was stored",
                          bytes_ - n.cost, within.store)};
        }
        out[i].id = make_job_id(n.serial, job.id);
        out[i].created = true;
        if (job.delay && job.delay->count() > 0) {
          park(n, job_state::scheduled, later(now.boot, *job.delay), false);
        } else if (job.due && *job.due > now.wall) {
          park(n, job_state::scheduled, ns(*job.due), true);
        } else {
          make_ready(n, q->ready, now);
        }
      } catch (...) {
        drop(n);
        throw;
      }
      made_.push_back(&n);
    }
  } catch (const std::bad_alloc&) {
    undo();
    throw error{errc::store_full, "the process is out of memory: nothing of this enqueue was stored"};
  } catch (...) {
    undo();
    throw;
  }

  for (std::size_t i = 0; i < made_.size();) {
    queue& q = *made_[i]->home;
    const std::size_t first = i;
    std::size_t ready = 0;
    for (; i < made_.size() && made_[i]->home == &q; ++i) ready += made_[i]->state == job_state::ready ? 1 : 0;
    hour_of(q, now.wall).enqueued += i - first;
    if (ready != 0 && !q.idle.empty()) wake(q, ready);
  }
}

std::string store::inject(std::string_view name, std::string_view bytes, instant now) {
  const std::scoped_lock lock{mutex_};
  queue& q = queue_named(name);
  node& n = make(q);
  n.body = bytes;
  account(n);
  make_ready(n, q.ready, now);
  ++hour_of(q, now.wall).enqueued;
  wake(q, 1);
  return shown_id(n);
}

std::optional<job_end> store::wait(std::string_view id, waiter& w, instant now) {
  const std::scoped_lock lock{mutex_};
  node& n = need_job(id, "default");
  const record r = decode_record(n.body);
  if (r.keep_result.count() == 0) {
    throw error{errc::no_result,
                fmt::format("the job {} keeps no result; enqueue it with keep_result to wait for it", quoted(id))};
  }
  if (is_terminal(n.state)) {
    if (n.more->result_until <= now.boot) {
      throw error{errc::not_found, fmt::format("the result of the job {} was kept for {} and is gone", quoted(id),
                                               format_duration(r.keep_result))};
    }
    return job_end{.state = n.state, .text = std::string{r.ending.value_or(std::string_view{})}};
  }
  extra_of(n).waiters.push_back(&w);
  w.of = &n;
  return std::nullopt;
}

void store::stop_waiting(waiter& w) noexcept {
  const std::scoped_lock lock{mutex_};
  if (w.of != nullptr) std::erase(w.of->more->waiters, &w);
}

// Consumers

std::shared_ptr<member> store::join(consumer_options options, std::string id, instant now) {
  auto m = std::make_shared<member>(std::move(options));
  m->id = std::move(id);
  m->started_at = m->seen_at = now.wall;
  const std::scoped_lock lock{mutex_};
  for (const queue_share& share : m->options.queues) m->queues.push_back(&queue_named(share.name));
  members_.push_back(m);
  return m;
}

std::size_t store::take(queue& q, member& m, std::size_t max, delivery_batch& out, instant now) {
  if (q.paused) return 0;
  std::size_t taken = 0;
  std::string_view name;
  while (taken < max && out.size_bytes() < fetch_bytes) {
    node* n = q.front.front() != nullptr ? q.front.front() : q.ready.front();
    if (n == nullptr) break;
    if (n->next != nullptr) __builtin_prefetch(n->next);
    const std::string_view bytes = out.keep(n->body);
    record r = decode_record(bytes);
    if (r.deadline && *r.deadline <= now.wall) {
      unhook(*n);
      end(*n, r, job_state::discarded, "its deadline passed before it was started", now);
      continue;
    }
    if (name.empty()) name = out.keep(q.name);
    const lease_token lease{.where = n->serial, .number = ++next_lease_};
    out.jobs.push_back(delivery_of(r, n->serial, lease, name));
    unhook(*n);
    n->state = job_state::active;
    n->lease = lease.number;
    n->owner = &m;
    m.leases.push_back(*n);
    ++q.counts[at(job_state::active)];
    ++taken;
  }
  return taken;
}

bool store::fetch(member& m, std::size_t max, delivery_batch& out, instant now) {
  const std::scoped_lock lock{mutex_};
  if (m.left || !m.alive) throw error{errc::closed, fmt::format("the worker {} has left the store", m.id)};
  unlist(m);
  const auto plan = m.turns.plan(max);
  std::size_t left = max;
  for (const bool first_way : {true, false}) {
    for (const shares::turn& turn : plan) {
      const std::size_t most = first_way ? std::min(left, turn.count) : left;
      if (most == 0 || out.size_bytes() >= fetch_bytes) continue;
      const std::size_t taken = take(*m.queues[turn.queue], m, most, out, now);
      m.turns.took(turn.queue, taken);
      left -= taken;
    }
    if (left == 0) break;
  }
  if (left != max) {
    // The job that this consumer was woken for may still be there, if it found others first.
    for (queue* q : m.queues) {
      if (!q->idle.empty()) wake(*q, q->front.size() + q->ready.size());
    }
    return true;
  }
  m.wake.reset();
  m.idle = true;
  for (queue* q : m.queues) q->idle.push_back(&m);
  return false;
}

void store::stop_waiting(member& m) noexcept {
  const std::scoped_lock lock{mutex_};
  if (m.idle) {
    unlist(m);
    return;
  }
  for (queue* q : m.queues) wake(*q, q->front.size() + q->ready.size());
}

void store::settle(member& m, std::span<const settlement> what, std::span<settled> out, instant now, const limits& within) {
  for (const settlement& s : what) {
    if (s.how == verdict::complete && s.text.size() > within.payload) {
      throw error{errc::too_large, fmt::format("a result has {} bytes; this store takes at most {} (option max_payload)",
                                               s.text.size(), within.payload)};
    }
  }
  const std::scoped_lock lock{mutex_};
  for (std::size_t i = 0; i < what.size(); ++i) {
    node* n = leased(m, what[i].lease);
    if (n == nullptr) {
      out[i] = settled::lost;
      continue;
    }
    out[i] = settled::yes;
    if (what[i].how == verdict::complete && !n->keeps && !n->more) {
      unhook(*n);
      ++hour_of(*n->home, now.wall).completed;
      drop(*n);
    } else {
      settle_one(m, *n, what[i], out[i], now);
    }
  }
}

void store::settle_one(member& m, node& n, const settlement& s, settled& out, instant now) {
  queue& q = *n.home;
  const auto delay = std::clamp(s.delay, std::chrono::nanoseconds{0}, longest_duration);
  switch (s.how) {
    case verdict::complete: {
      unhook(n);
      end(n, job_state::completed, s.text, now);
      return;
    }
    case verdict::retry: {
      record r = decode_record(n.body);
      ++hour_of(q, now.wall).failed;
      if (r.fit == record_fit::garbage) r = record_of_garbage(n.body, now.wall);
      const bool over = rules::count_failure(r, now.wall, m.id, s.text, errors_);
      unhook(n);
      if (over) {
        out = settled::buried;
        end(n, r, job_state::dead, rules::cut_error(s.text), now);
        return;
      }
      rewrite(n, r);
      break;
    }
    case verdict::bury: {
      ++hour_of(q, now.wall).failed;
      record r = decode_record(n.body);
      unhook(n);
      bury(n, r, m.id, s.text, now);
      return;
    }
    case verdict::hand_back:
      unhook(n);
      break;
    case verdict::discard:
      unhook(n);
      end(n, job_state::discarded, rules::cut_error(s.text), now);
      return;
    case verdict::cancel:
      unhook(n);
      end(n, job_state::cancelled, rules::cut_error(s.text), now);
      return;
  }
  if (delay.count() > 0) {
    park(n, job_state::retry, later(now.boot, delay), false);
  } else {
    make_ready(n, s.how == verdict::hand_back ? q.front : q.ready, now);
    wake(q, 1);
  }
}

bool store::mark(member& m, lease_token lease) {
  const std::scoped_lock lock{mutex_};
  node* n = leased(m, lease);
  if (n != nullptr) n->marked = true;
  return n != nullptr;
}

void store::report(member& m, lease_token lease, double done, std::string_view note) {
  const std::scoped_lock lock{mutex_};
  node* n = leased(m, lease);
  if (n == nullptr) return;
  extra& more = extra_of(*n);
  more.progress = std::clamp(done, 0.0, 1.0);
  more.note = rules::cut_error(note);
  account(*n);
}

std::vector<lease_token> store::take_news(member& m) {
  const std::scoped_lock lock{mutex_};
  if (m.left) throw error{errc::closed, fmt::format("the worker {} has left the store", m.id)};
  if (m.lost.empty()) m.news.reset();
  return std::exchange(m.lost, {});
}

void store::leave(member& m, instant now) {
  const std::scoped_lock lock{mutex_};
  if (m.left) return;
  while (node* n = m.leases.front()) {
    unhook(*n);
    make_ready(*n, n->home->front, now);
    wake(*n->home, 1);
  }
  unlist(m);
  m.left = true;
  m.wake.set();
  m.news.set();
  std::erase_if(members_, [&](const auto& other) { return other.get() == &m; });
}

void store::abandon(member& m, wall_time now) noexcept {
  const std::scoped_lock lock{mutex_};
  if (m.left || !m.alive) return;
  m.alive = false;
  m.seen_at = now;
  unlist(m);
  m.wake.set();
  deaths_ = true;
  wake_maintainers();
}

// Maintenance

void store::reclaim(member& m, node& n, instant now) {
  queue& q = *n.home;
  record r = decode_record(n.body);
  const bool over = rules::count_loss(r, n.marked);
  ++hour_of(q, now.wall).reclaimed;
  m.lost.push_back({.where = n.serial, .number = n.lease});
  m.news.set();
  unhook(n);
  if (over) {
    bury(n, r, m.id, rules::loss_reason(r), now);
    return;
  }
  // What cannot be read is passed on as it is: whoever gets it buries it.
  if (r.fit != record_fit::garbage) rewrite(n, r);
  make_ready(n, q.front, now);
  wake(q, 1);
}

bool store::maintain(instant now, agenda& next) {
  const std::scoped_lock lock{mutex_};
  std::size_t budget = maintenance_step;
  const auto promote = [&](heap& from, std::int64_t until) {
    for (; budget > 0 && !from.empty() && from.front()->due <= until; --budget) {
      node& n = *from.front();
      unhook(n);
      make_ready(n, n.home->ready, now);
      wake(*n.home, 1);
    }
  };
  promote(by_boot_, now.boot);
  promote(by_wall_, ns(now.wall));
  for (; budget > 0 && !expiring_.empty() && expiring_.front()->due <= now.boot; --budget) {
    node& n = *expiring_.front();
    unhook(n);
    drop(n);
  }
  if (deaths_) {
    for (const auto& m : members_) {
      for (; budget > 0 && !m->alive && !m->leases.empty(); --budget) reclaim(*m, *m->leases.front(), now);
    }
    std::erase_if(members_, [](const auto& m) { return !m->alive && m->leases.empty(); });
    deaths_ = std::ranges::any_of(members_, [](const auto& m) { return !m->alive; });
  }
  const auto first = [](const heap& h) { return h.empty() ? std::nullopt : std::optional{h.front()->due}; };
  next = {.boot = first(by_boot_), .wall = first(by_wall_), .expiry = first(expiring_)};
  return budget == 0;
}

void store::add_maintainer(event& news) {
  const std::scoped_lock lock{mutex_};
  maintainers_.push_back(&news);
}

void store::remove_maintainer(event& news) noexcept {
  const std::scoped_lock lock{mutex_};
  std::erase(maintainers_, &news);
}

// Inspection

job_info store::info(const node& n, instant now) const {
  job_info out = info_of(decode_record(n.body), n.serial, n.home->name, n.state);
  if (n.state == job_state::scheduled || n.state == job_state::retry) {
    out.due = n.by_wall ? wall_time{std::chrono::nanoseconds{n.due}} : now.wall + std::chrono::nanoseconds{n.due - now.boot};
  }
  if (n.owner != nullptr) out.worker = n.owner->id;
  if (n.more) {
    if (is_terminal(n.state)) out.ended_at = n.more->ended_at;
    out.progress = n.more->progress;
    out.note = n.more->note;
  }
  return out;
}

std::optional<job_info> store::find(std::string_view id, std::string_view queue_name, instant now) {
  const std::scoped_lock lock{mutex_};
  node* n = find_job(id, queue_name);
  if (n == nullptr) return std::nullopt;
  return info(*n, now);
}

job_page store::list(const job_filter& filter, std::string_view cursor, std::size_t limit, instant now) {
  std::uint64_t after = 0;
  if (!cursor.empty()) {
    const auto read = decode_u64(cursor);
    if (!read) throw error{errc::invalid_argument, fmt::format("the cursor {} is none that a listing gave", quoted(cursor))};
    after = *read;
  }
  const std::scoped_lock lock{mutex_};
  job_page page;
  std::size_t budget = list_budget;
  for (std::uint64_t index = std::max<std::uint64_t>(1, after >> number_bits); index <= queues_.size(); ++index) {
    const queue& q = *queues_[index - 1];
    if (!filter.queue.empty() && q.name != filter.queue) continue;
    const std::uint64_t from = after >> number_bits == index ? after & number_mask : 0;
    const std::uint64_t last = q.jobs.walk(from, budget, [&](node& n) {
      --budget;
      if (filter.state && n.state != *filter.state) return true;
      if (!filter.kind.empty() && decode_record(n.body).kind != filter.kind) return true;
      page.jobs.push_back(info(n, now));
      return page.jobs.size() < limit;
    });
    if (last != 0) {
      page.next = encode_u64(index << number_bits | last);
      break;
    }
    if (budget == 0 && index < queues_.size()) {
      page.next = encode_u64((index + 1) << number_bits);
      break;
    }
  }
  return page;
}

std::vector<queue_info> store::queues(instant now) {
  const std::scoped_lock lock{mutex_};
  std::vector<queue_info> out;
  out.reserve(queues_.size());
  for (const auto& q : queues_) {
    queue_info info;
    info.name = q->name;
    info.paused = q->paused;
    info.ready = q->counts[at(job_state::ready)];
    info.scheduled = q->counts[at(job_state::scheduled)];
    info.retry = q->counts[at(job_state::retry)];
    info.waiting = q->counts[at(job_state::waiting)];
    info.active = q->counts[at(job_state::active)];
    info.completed = q->counts[at(job_state::completed)];
    info.dead = q->counts[at(job_state::dead)];
    info.cancelled = q->counts[at(job_state::cancelled)];
    info.discarded = q->counts[at(job_state::discarded)];
    for (const chain* in : {&q->front, &q->ready}) {
      if (in->empty()) continue;
      const auto age =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds{now.boot - in->front()->since});
      info.latency = std::max(info.latency.value_or(age), age);
    }
    out.push_back(std::move(info));
  }
  return out;
}

std::vector<hour_stats> store::stats(std::string_view name, std::uint32_t hours, wall_time now) {
  if (hours < 1 || hours > most_hours) {
    throw error{errc::invalid_argument, fmt::format("statistics of {} hours; 1 to {} are kept", hours, most_hours)};
  }
  const std::scoped_lock lock{mutex_};
  std::vector<hour_stats> out;
  const queue* q = find_queue(name);
  if (q == nullptr) return out;
  const std::int64_t current = std::chrono::floor<std::chrono::hours>(now).time_since_epoch().count();
  for (auto it = q->hours.upper_bound(current - hours); it != q->hours.end(); ++it) out.push_back(it->second);
  return out;
}

std::vector<worker_info> store::workers(wall_time now) {
  const std::scoped_lock lock{mutex_};
  std::vector<worker_info> out;
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  for (const auto& m : members_) {
    worker_info info;
    info.id = m->id;
    info.host = host.data();
    info.pid = static_cast<std::uint32_t>(getpid());
    info.concurrency = m->options.concurrency;
    for (const queue_share& share : m->options.queues) info.queues.emplace_back(share.name, share.weight);
    info.started_at = m->started_at;
    info.seen_at = m->alive ? now : m->seen_at;
    info.leased = m->leases.size();
    for (const node* n = m->leases.front(); n != nullptr && info.running.size() < listed_running; n = n->next) {
      info.running.push_back({.id = shown_id(*n), .queue = n->home->name, .kind = std::string{decode_record(n->body).kind}});
    }
    out.push_back(std::move(info));
  }
  return out;
}

// Operations

job_state store::cancel(std::string_view id, std::string_view queue_name, instant now) {
  const std::scoped_lock lock{mutex_};
  node& n = need_job(id, queue_name);
  const job_state was = n.state;
  if (is_terminal(was)) {
    throw error{errc::wrong_state,
                fmt::format("the job {} is {}: only a job that has not ended can be cancelled", quoted(id), to_string(was))};
  }
  if (n.owner != nullptr) {
    n.owner->lost.push_back({.where = n.serial, .number = n.lease});
    n.owner->news.set();
  }
  unhook(n);
  end(n, job_state::cancelled, "cancelled", now);
  return was;
}

std::string store::run(std::string_view id, std::string_view queue_name, instant now) {
  const std::scoped_lock lock{mutex_};
  node& n = need_job(id, queue_name);
  queue& q = *n.home;
  record r = decode_record(n.body);
  rules::renew(r);

  if (n.state == job_state::scheduled || n.state == job_state::retry) {
    rewrite(n, r);
    unhook(n);
    make_ready(n, q.ready, now);
    wake(q, 1);
    return shown_id(n);
  }
  if (n.state != job_state::dead && n.state != job_state::completed && n.state != job_state::cancelled) {
    throw error{errc::wrong_state,
                fmt::format("the job {} is {}: what can be run is scheduled, retry, dead, completed or cancelled", quoted(id),
                            to_string(n.state))};
  }
  if (!n.more->own_id.empty()) {
    if (const node* holder = live_holder_of_id(q, n.more->own_id)) {
      throw error{errc::wrong_state,
                  fmt::format("the job {} cannot run again: {} is live and has its id", quoted(id), shown_id(*holder))};
    }
  }
  if (!r.unique_key.empty()) {
    if (const node* holder = live_holder_of_key(q, r.unique_key, now.boot)) {
      throw error{errc::wrong_state,
                  fmt::format("the job {} cannot run again: {} is live and holds its unique key", quoted(id), shown_id(*holder))};
    }
  }

  node& life = make(q);
  try {
    r.serial = 0;
    r.enqueued_at = now.wall;
    encode_record(r, life.body);
    if (!n.more->own_id.empty()) link_id(life, n.more->own_id);
    if (!r.unique_key.empty()) take_key(life, r.unique_key, later(now.boot, r.unique_for));
    account(life);
  } catch (...) {
    drop(life);
    throw;
  }
  life.keeps = r.retention.count() != 0 || r.keep_result.count() != 0;
  unhook(n);
  drop(n);
  make_ready(life, q.ready, now);
  ++hour_of(q, now.wall).enqueued;
  wake(q, 1);
  return shown_id(life);
}

void store::remove(std::string_view id, std::string_view queue_name, instant now) {
  const std::scoped_lock lock{mutex_};
  node& n = need_job(id, queue_name);
  if (n.state == job_state::active) {
    throw error{errc::wrong_state, fmt::format("the job {} is active: cancel it first", quoted(id))};
  }
  if (!is_terminal(n.state)) {
    ++hour_of(*n.home, now.wall).discarded;
    tell(n, job_state::discarded, "removed");
  }
  unhook(n);
  drop(n);
}

void store::set_paused(std::string_view name, bool paused) {
  const std::scoped_lock lock{mutex_};
  queue* q = find_queue(name);
  if (q == nullptr) throw error{errc::not_found, fmt::format("there is no queue {}", quoted(name))};
  q->paused = paused;
  wake(*q, q->front.size() + q->ready.size());
}

}  // namespace ergon::memory
