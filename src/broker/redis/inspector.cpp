#include "broker/redis/inspector.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

#include "broker/record.hpp"
#include "broker/rules.hpp"

namespace ergon::redis_store {

namespace {

constexpr std::size_t listed_running = 100;
constexpr std::size_t list_bytes = std::size_t{1} << 20U;
/// Calls of the server, and jobs looked at, for one page.
constexpr int list_calls = 32;
constexpr std::size_t list_budget = 10'000;

wall_time at_ms(std::int64_t ms) noexcept { return wall_time{std::chrono::milliseconds{ms}}; }

std::int64_t number_of(std::string_view text) noexcept {
  std::int64_t read = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

template <class Use>
void each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const auto at = line.find('='); at != std::string_view::npos) use(line.substr(0, at), line.substr(at + 1));
  }
}

struct found_job {
  std::string_view name;
  std::string_view holder;
  std::string_view due;
  std::string_view note;
  entry fields;
};

job_state state_at(std::string_view place, const found_job& job) noexcept {
  switch (place.front()) {
    case 'd':
      return job_state::scheduled;
    case 'a':
      return job_state::retry;
    case 't':
      return job_state_of(job.fields.state).value_or(job_state::dead);
    default:
      return job.holder.empty() ? job_state::ready : job_state::active;
  }
}

/// `place` is that of a job, or the letter of its section.
job_info info_of(const partition& in, std::string_view place, const found_job& job) {
  record r = record_of(job.fields);
  const auto own = parse_serial(job.fields.serial);
  const serial which = own ? *own : parse_serial(job.name).value_or(serial{});
  if (r.fit == record_fit::garbage) {
    record shown = record_of_garbage(job.fields.record, which.born());
    shown.raw_errors = r.raw_errors;
    shown.failures = r.failures;
    shown.losses = r.losses;
    shown.ending = r.ending;
    r = shown;
  }
  job_info out = ergon::info_of(r, 0, in.queue, state_at(place, job));
  out.id = public_id_of(in.number, which, job.fields.own_id);
  out.enqueued_at = which.born();
  if (!job.due.empty()) out.due = at_ms(number_of(job.due));
  out.worker = job.holder;
  if (job.fields.ended_ms != 0) out.ended_at = at_ms(static_cast<std::int64_t>(job.fields.ended_ms));
  if (!job.note.empty()) {
    const auto space = job.note.find(' ');
    double done = 0;
    (void)std::from_chars(job.note.data(), job.note.data() + std::min(space, job.note.size()), done);
    out.progress = done;
    if (space != std::string_view::npos) out.note = job.note.substr(space + 1);
  }
  return out;
}

std::string_view text_or(redis::value v) { return v.is_text() ? v.text() : std::string_view{}; }

[[noreturn]] void refuse_cursor(std::string_view cursor) {
  throw error{errc::invalid_argument, fmt::format("the cursor {} is none that a listing gave", quoted(cursor))};
}

struct section {
  std::string_view name;
  std::string_view only;
};

/// Where jobs of a state are, or all jobs.
std::vector<section> sections_of(std::optional<job_state> state) {
  if (!state) {
    return {{"f", ""}, {"r", ""}, {"d", ""}, {"a", ""}, {"completed", ""}, {"dead", ""}, {"cancelled", ""}, {"discarded", ""}};
  }
  switch (*state) {
    case job_state::ready:
      return {{"f", "1"}, {"r", "1"}};
    case job_state::active:
      return {{"f", "2"}, {"r", "2"}};
    case job_state::scheduled:
      return {{"d", ""}};
    case job_state::retry:
      return {{"a", ""}};
    case job_state::waiting:
      return {};
    default:
      return {{to_string(*state), ""}};
  }
}

struct list_place {
  std::uint32_t queue = 0;
  std::size_t section = 0;
  std::string position;
};

std::string cursor_of(const list_place& at) {
  std::string text = fmt::format("{}.{}.{}", at.queue, at.section, at.position);
  std::ranges::replace(text, ' ', '_');
  return text;
}

list_place place_of(std::string_view cursor) {
  list_place at;
  const char* const end = cursor.data() + cursor.size();
  const auto queue = std::from_chars(cursor.data(), end, at.queue);
  if (queue.ec != std::errc{} || queue.ptr == end || *queue.ptr != '.') refuse_cursor(cursor);
  const auto part = std::from_chars(queue.ptr + 1, end, at.section);
  if (part.ec != std::errc{} || part.ptr == end || *part.ptr != '.') refuse_cursor(cursor);
  at.position.assign(part.ptr + 1, end);
  for (const char c : at.position) {
    if ((c < '0' || c > '9') && c != '-' && c != '+' && c != '_') refuse_cursor(cursor);
  }
  std::ranges::replace(at.position, '_', ' ');
  return at;
}

}  // namespace

std::string describe_worker(const consumer_options& options, std::int64_t started_ms) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  std::string text =
      fmt::format("host={}\npid={}\nconcurrency={}\nstarted={}\n", host.data(), getpid(), options.concurrency, started_ms);
  for (const queue_share& share : options.queues) text += fmt::format("queue={} {}\n", share.weight, share.name);
  return text;
}

void read_worker(std::string_view text, worker_info& out) {
  each_line(text, [&](std::string_view name, std::string_view value) {
    if (name == "host") {
      out.host = value;
    } else if (name == "pid") {
      out.pid = static_cast<std::uint32_t>(number_of(value));
    } else if (name == "concurrency") {
      out.concurrency = static_cast<std::uint32_t>(number_of(value));
    } else if (name == "started") {
      out.started_at = at_ms(number_of(value));
    } else if (name == "queue") {
      if (const auto space = value.find(' '); space != std::string_view::npos) {
        out.queues.emplace_back(value.substr(space + 1), static_cast<std::uint32_t>(number_of(value)));
      }
    }
  });
}

task<std::optional<inspector::sight>> inspector::look(const partition& in, std::string serial, std::string own_id) {
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::look, in, 2);
  with->asked.arg(serial);
  with->asked.arg(own_id);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "look at a job");
  const auto answer = with->answers[0].root();
  if (answer.empty()) co_return std::nullopt;
  const found_job job{.name = answer[0].text(),
                      .holder = text_or(answer[2]),
                      .due = text_or(answer[3]),
                      .note = text_or(answer[4]),
                      .fields = read_entry(answer[5])};
  sight out{.job = info_of(in, answer[1].text(), job), .in = &in, .serial = std::string{job.name}, .ending = {}};
  if (is_terminal(out.job.state) && job.fields.ended_ms + static_cast<std::uint64_t>(out.job.keep_result.count()) >
                                        static_cast<std::uint64_t>(server_->now_ms())) {
    out.ending = job.fields.ending;
  }
  co_return out;
}

task<std::optional<inspector::sight>> inspector::look(std::string id, std::string queue) {
  const wide_job_name name = parse_wide_job_id(id);
  const bool exact = id.find('@') != std::string_view::npos && name.serial;
  if (!exact && !name.custom_id.empty()) {
    // A text that looks like a serial number may be somebody's own id; that one goes first.
    if (const partition* in = co_await server_->find_queue(queue)) {
      if (auto found = co_await look(*in, {}, name.custom_id)) co_return found;
    }
  }
  const auto address = address_in(name);
  if (!address) co_return std::nullopt;
  const partition* in = co_await server_->find_queue(address->queue);
  if (in == nullptr) co_return std::nullopt;
  auto found = co_await look(*in, to_text(address->which), {});
  if (found && found->job.id != id) co_return std::nullopt;
  co_return found;
}

task<inspector::sight> inspector::need(std::string id, std::string queue) {
  if (auto found = co_await look(id, queue)) co_return std::move(*found);
  throw error{errc::not_found,
              fmt::format("no job {} in the queue {}: it never was, or was not kept", quoted(id), quoted(queue))};
}

task<std::optional<job_info>> inspector::find(std::string id, std::string queue) {
  if (auto found = co_await look(std::move(id), std::move(queue))) co_return std::move(found->job);
  co_return std::nullopt;
}

task<job_page> inspector::list(job_filter filter, std::string cursor, std::size_t limit) {
  if (limit < 1 || limit > 1000)
    throw error{errc::invalid_argument, fmt::format("a page of {} jobs; 1 to 1000 are allowed", limit)};
  list_place at;
  if (!cursor.empty()) at = place_of(cursor);
  const auto sections = sections_of(filter.state);
  if (at.section > sections.size()) refuse_cursor(cursor);

  job_page page;
  std::size_t seen = 0;
  int calls = 0;
  for (const partition* in : co_await server_->queues()) {
    if (in->number < at.queue || (!filter.queue.empty() && in->queue != filter.queue)) continue;
    if (in->number > at.queue) at = {.queue = in->number, .section = 0, .position = {}};
    while (at.section < sections.size()) {
      if (page.jobs.size() == limit || calls == list_calls || seen >= list_budget) {
        page.next = cursor_of(at);
        co_return page;
      }
      ++calls;
      const section& part = sections[at.section];
      const server::borrowed with{*server_};
      server_->begin(with->asked, scripts::list, *in, 5);
      with->asked.arg(part.name);
      with->asked.arg(at.position);
      // What a filter leaves out does not count for the page.
      const std::size_t most =
          filter.kind.empty() ? limit - page.jobs.size() : std::min<std::size_t>(limit - page.jobs.size(), 500);
      with->asked.arg(most);
      with->asked.arg(list_bytes);
      with->asked.arg(part.only);
      co_await server_->perform(server_->control(), *with, may_repeat::yes);
      check(with->answers[0], "list jobs");
      const auto answer = with->answers[0].root();
      auto item = answer.begin();
      at.position = item->text();
      for (++item; item != answer.end(); ++item) {
        ++seen;
        const auto& it = *item;
        const found_job job{.name = it[0].text(),
                            .holder = text_or(it[1]),
                            .due = part.name == "d" || part.name == "a" ? text_or(it[2]) : std::string_view{},
                            .note = text_or(it[3]),
                            .fields = read_entry(it[4])};
        if (!filter.kind.empty() && decode_record(job.fields.record).kind != filter.kind) continue;
        page.jobs.push_back(info_of(*in, part.name.size() == 1 ? part.name : std::string_view{"t"}, job));
      }
      if (at.position.empty()) ++at.section;
    }
  }
  co_return page;
}

task<std::vector<queue_info>> inspector::queues() {
  const auto all = co_await server_->queues();
  std::vector<queue_info> out;
  if (all.empty()) co_return out;
  const server::borrowed with{*server_};
  for (const partition* in : all) server_->begin(with->asked, scripts::counts, *in, 0);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    check(with->answers[i], fmt::format("count the jobs of the queue {}", all[i]->queue));
    const auto answer = with->answers[i].root();
    const auto count = [&](std::size_t at) {
      return static_cast<std::uint64_t>(std::max<std::int64_t>(0, answer[at].integer()));
    };
    queue_info& info = out.emplace_back();
    info.name = all[i]->queue;
    info.paused = answer[0].text() == "1";
    info.ready = count(1);
    info.scheduled = count(2);
    info.retry = count(3);
    info.active = count(4);
    info.completed = count(5);
    info.dead = count(6);
    info.cancelled = count(7);
    info.discarded = count(8);
    if (const std::string_view oldest = answer[9].text(); !oldest.empty()) {
      info.latency = std::chrono::milliseconds{std::max<std::int64_t>(0, answer[10].integer() - number_of(oldest))};
    }
  }
  co_return out;
}

task<std::vector<hour_stats>> inspector::stats(std::string queue, std::uint32_t hours) {
  if (hours < 1 || hours > 2160) {
    throw error{errc::invalid_argument, fmt::format("statistics of {} hours; 1 to 2160 are kept", hours)};
  }
  std::vector<hour_stats> out;
  const partition* in = co_await server_->find_queue(queue);
  if (in == nullptr) co_return out;
  const server::borrowed with{*server_};
  with->asked.add("HGETALL", in->keys[partition::stats]);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "read statistics");
  const std::int64_t first = server_->now_ms() / 3'600'000 - hours;
  std::map<std::int64_t, hour_stats> by_hour;
  const auto all = with->answers[0].root();
  for (auto at = all.begin(); at != all.end(); ++at) {
    const std::string_view field = at->text();
    if (++at == all.end()) break;
    const auto colon = field.find(':');
    const std::int64_t hour = number_of(field);
    if (colon == std::string_view::npos || hour <= first) continue;
    const std::string_view name = field.substr(colon + 1);
    constexpr std::array<std::pair<std::string_view, std::uint64_t hour_stats::*>, 7> names{
        {{"enqueued", &hour_stats::enqueued},
         {"completed", &hour_stats::completed},
         {"failed", &hour_stats::failed},
         {"dead", &hour_stats::dead},
         {"cancelled", &hour_stats::cancelled},
         {"discarded", &hour_stats::discarded},
         {"reclaimed", &hour_stats::reclaimed}}};
    const auto known = std::ranges::find(names, name, &std::pair<std::string_view, std::uint64_t hour_stats::*>::first);
    if (known == names.end()) continue;
    hour_stats& of = by_hour[hour];
    of.hour = wall_time{std::chrono::hours{hour}};
    of.*known->second += static_cast<std::uint64_t>(std::max<std::int64_t>(0, at->integer()));
  }
  for (auto& [hour, of] : by_hour) out.push_back(of);
  co_return out;
}

task<std::vector<worker_info>> inspector::workers() {
  std::vector<worker_info> out;
  {
    const server::borrowed with{*server_};
    with->asked.add("HGETALL", server_->key("workers"));
    with->asked.add("HGETALL", server_->key("beats"));
    co_await server_->perform(server_->control(), *with, may_repeat::yes);
    check(with->answers[0], "list workers");
    check(with->answers[1], "list workers");
    const auto all = with->answers[0].root();
    const auto beats = with->answers[1].root();
    for (auto at = all.begin(); at != all.end(); ++at) {
      worker_info info;
      info.id = at->text();
      if (++at == all.end()) break;
      read_worker(at->text(), info);
      if (const auto beat = beats.find(info.id)) {
        const std::string_view text = text_or(*beat);
        info.seen_at = at_ms(number_of(text.substr(std::min(text.find(' '), text.size() - 1) + 1)));
      }
      out.push_back(std::move(info));
    }
  }
  for (worker_info& info : out) {
    for (const auto& [name, weight] : info.queues) {
      const partition* in = co_await server_->find_queue(name);
      if (in == nullptr) continue;
      const server::borrowed with{*server_};
      for (const auto stream : {partition::ready, partition::front}) {
        with->asked.add("XPENDING", in->keys[stream], "workers", "-", "+", 10'000, info.id);
      }
      co_await server_->perform(server_->control(), *with, may_repeat::yes);
      const server::borrowed reads{*server_};
      std::vector<std::string_view> ids;
      for (const auto stream : {partition::ready, partition::front}) {
        const auto pending = with->answers[stream].root();
        if (pending.is_error()) continue;
        info.leased += pending.size();
        for (const auto& it : pending) {
          if (info.running.size() + ids.size() == listed_running) break;
          ids.push_back(it[0].text());
          reads->asked.add("XRANGE", in->keys[stream], ids.back(), ids.back());
        }
      }
      if (ids.empty()) continue;
      co_await server_->perform(server_->control(), *reads, may_repeat::yes);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = reads->answers[i].root();
        if (found.is_error() || found.empty()) continue;
        const auto first = found[0];
        const found_job job{.name = ids[i], .holder = info.id, .due = {}, .note = {}, .fields = read_entry(first[1])};
        job_info about = info_of(*in, "r", job);
        info.running.push_back({.id = std::move(about.id), .queue = in->queue, .kind = std::move(about.kind)});
      }
    }
  }
  co_return out;
}

task<job_state> inspector::cancel(std::string id, std::string queue) {
  const sight job = co_await need(id, queue);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::cancel, *job.in, 3);
  with->asked.arg(job.serial);
  with->asked.arg("");
  with->asked.arg(rules::gone_kept_for.count());
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "cancel a job");
  const auto answer = with->answers[0].root();
  if (answer.empty()) throw error{errc::not_found, fmt::format("no job {}: it ended just now", quoted(id))};
  const auto state = job_state_of(answer[1].text()).value_or(job_state::ready);
  if (is_terminal(state)) {
    throw error{errc::wrong_state,
                fmt::format("the job {} is {}: only a job that has not ended can be cancelled", quoted(id), to_string(state))};
  }
  co_return state;
}

task<std::string> inspector::run(std::string id, std::string queue) {
  const sight job = co_await need(id, queue);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::run, *job.in, 2);
  with->asked.arg(job.serial);
  with->asked.arg("");
  co_await server_->perform(server_->control(), *with, may_repeat::no);
  check(with->answers[0], "run a job");
  const auto answer = with->answers[0].root();
  if (answer.empty()) throw error{errc::not_found, fmt::format("no job {}: it ended just now", quoted(id))};
  const std::string_view how = answer[0].text();
  if (how == "0") {
    throw error{errc::wrong_state,
                fmt::format("the job {} is {}: what can be run is scheduled, retry, dead, completed or cancelled", quoted(id),
                            answer[1].text())};
  }
  std::string named = public_id_of(job.in->number, parse_serial(answer[1].text()).value_or(serial{}), answer[2].text());
  if (how == "2") {
    throw error{errc::wrong_state,
                fmt::format("the job {} cannot run again: {} is live and has its id or its unique key", quoted(id), named)};
  }
  co_return named;
}

task<void> inspector::remove(std::string id, std::string queue) {
  const sight job = co_await need(id, queue);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::remove, *job.in, 2);
  with->asked.arg(job.serial);
  with->asked.arg("");
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "remove a job");
  if (text_or(with->answers[0].root()) == "active") {
    throw error{errc::wrong_state, fmt::format("the job {} is active: cancel it first", quoted(id))};
  }
}

}  // namespace ergon::redis_store
