#include "broker/redis/redis_broker.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "broker/check.hpp"
#include "broker/record.hpp"
#include "broker/redis/member.hpp"
#include "broker/redis/serial.hpp"

namespace ergon {

namespace redis_store {

namespace {

constexpr std::uint64_t largest_payload = std::uint64_t{256} << 20U;

std::int64_t ms_of(wall_time time) noexcept {
  return std::chrono::ceil<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::int64_t ms_of(std::chrono::nanoseconds span) noexcept { return std::chrono::ceil<std::chrono::milliseconds>(span).count(); }

bool is_plain(const new_job& job, std::int64_t now_ms) noexcept {
  return job.id.empty() && job.unique_key.empty() && (!job.delay || job.delay->count() <= 0) &&
         (!job.due || ms_of(*job.due) <= now_ms);
}

/// What no transition ever changes of a job. The store keeps the rest beside it.
void encode_job(const new_job& job, std::string& headers, std::string& out) {
  headers.clear();
  if (!job.headers.empty()) encode_headers(job.headers, headers);
  record r = ergon::record_of(job, wall_time{}, headers);
  r.custom_id = {};
  r.unique_key = {};
  r.unique_for = {};
  out.clear();
  encode_record(r, out);
}

/// The XADD of a plain job.
void add_entry(exchange& to, const new_job& job, const partition& in, std::string_view clock) {
  encode_job(job, to.more_scratch, to.scratch);
  const bool keeps = job.keep_result.count() > 0;
  to.asked.begin(keeps ? 7 : 5);
  to.asked.arg("XADD");
  to.asked.arg(in.keys[partition::ready]);
  if (clock.empty()) {
    to.asked.arg("*");
  } else {
    to.asked.arg(fmt::format("{}-*", clock));
  }
  to.asked.arg("r");
  to.asked.arg(to.scratch);
  if (keeps) {
    to.asked.arg("k");
    to.asked.arg(job.keep_result.count());
  }
}

void add_count(redis::commands& to, const partition& in, std::uint64_t many, std::int64_t now_ms) {
  char hour[40];
  const auto end = fmt::format_to(hour, "{}:enqueued", now_ms / 3'600'000);
  to.add("HINCRBY", in.keys[partition::stats], std::string_view{hour, end}, many);
}

/// The public id of the job whose XADD was answered so.
std::string id_in(redis::value answer, const partition& in) {
  redis::raise(answer, "XADD");
  const auto which = parse_serial(answer.text());
  if (!which)
    throw error{errc::bad_reply, fmt::format("XADD was answered {}, and should have been an entry's id", answer.describe())};
  return public_id_of(in.number, *which, {});
}

}  // namespace

redis_broker::redis_broker(std::string url, std::shared_ptr<server> at)
    : url_(std::move(url)),
      server_(std::move(at)),
      hints_(std::make_shared<hints>(server_)),
      inspector_(server_),
      ids_(server_->clock()) {}

redis_broker::~redis_broker() {
  hints_->close();
  server_->close();
}

// Clients

task<void> redis_broker::enqueue(std::span<const new_job> jobs, std::span<enqueued> out) {
  check_new_jobs(jobs, max_payload());
  if (jobs.empty()) co_return;
  for (const new_job& job : jobs) {
    if (server_->known(job.queue) == nullptr) (void)co_await server_->queue(std::string{job.queue});
  }
  const std::int64_t now = server_->now_ms();
  if (std::ranges::all_of(jobs, [&](const new_job& job) { return is_plain(job, now); })) {
    if (jobs.size() == 1) {
      co_await put_one(jobs[0], out[0]);
    } else {
      co_await put_plain(jobs, out);
    }
    co_return;
  }
  // What belongs to one queue goes in at once.
  for (std::size_t first = 0; first < jobs.size();) {
    std::size_t end = first + 1;
    while (end < jobs.size() && jobs[end].queue == jobs[first].queue) ++end;
    co_await put_rich(jobs.subspan(first, end - first), out.subspan(first, end - first));
    first = end;
  }
}

task<void> redis_broker::put_one(const new_job& job, enqueued& out) {
  const partition& in = *server_->known(job.queue);
  const auto count = counts_.add(in, clock().steady());
  if (count.starts_timer) (void)runtime().spawn(flush_counts_later(weak_from_this()), "redis counts");
  const server::borrowed with{*server_};
  add_entry(*with, job, in, server_->clock_argument());
  if (count.now != 0) add_count(with->asked, in, count.now, server_->now_ms());
  try {
    co_await server_->perform(server_->work(), *with, may_repeat::no);
    out.id = id_in(with->answers[0].root(), in);
    out.created = true;
  } catch (...) {
    // Neither it nor, as far as is known, those that it was to be counted with.
    counts_.correct(in, static_cast<std::int64_t>(count.now) - 1);
    throw;
  }
}

task<void> redis_broker::flush_counts(bool ends_timer) {
  const auto all = counts_.take(ends_timer);
  if (all.empty()) co_return;
  const server::borrowed with{*server_};
  for (const auto& [in, many] : all) add_count(with->asked, *in, many, server_->now_ms());
  co_await server_->perform(server_->control(), *with, may_repeat::no);
}

task<void> redis_broker::flush_counts_later(std::weak_ptr<redis_broker> self) {
  co_await sleep_for(enqueue_counts::moment);
  // The broker may end on this task; it closes itself from anywhere.
  if (const auto alive = self.lock()) {
    try {
      co_await alive->flush_counts(true);
    } catch (const error&) {
      // They are figures for people; the store being away is said by others.
    }
  }
}

task<void> redis_broker::put_plain(std::span<const new_job> jobs, std::span<enqueued> out) {
  const server::borrowed with{*server_};
  redis::commands& asked = with->asked;
  const std::string clock = server_->clock_argument();
  asked.add("MULTI");
  const partition* in = nullptr;
  std::size_t of_queue = 0;
  const auto count = [&] {
    if (of_queue != 0) add_count(asked, *in, of_queue, server_->now_ms());
    of_queue = 0;
  };
  for (const new_job& job : jobs) {
    if (in == nullptr || in->queue != job.queue) {
      count();
      in = server_->known(job.queue);
    }
    add_entry(*with, job, *in, clock);
    ++of_queue;
  }
  count();
  asked.add("EXEC");
  co_await server_->perform(server_->work(), *with, may_repeat::no);

  // Refused while it was queued, as a full server does it: nothing of it was done.
  for (const redis::reply& answer : with->room().first(asked.count() - 1)) check(answer, "enqueue");
  const auto done = with->answers[asked.count() - 1].root();
  redis::raise(done, "enqueue");
  std::size_t i = 0;
  in = server_->known(jobs[0].queue);
  for (const auto& answer : done) {
    if (i == jobs.size()) break;
    if (jobs[i].queue == in->queue) {
      out[i].id = id_in(answer, *in);
      out[i].created = true;
      ++i;
    } else {
      // The counter of the queue before.
      in = server_->known(jobs[i].queue);
    }
  }
}

task<void> redis_broker::put_rich(std::span<const new_job> jobs, std::span<enqueued> out) {
  const partition* const in = server_->known(jobs[0].queue);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::enqueue, *in, 6 * jobs.size());
  for (const new_job& job : jobs) {
    encode_job(job, with->more_scratch, with->scratch);
    with->asked.arg(with->scratch);
    with->asked.arg(job.id);
    if (job.delay && job.delay->count() > 0) {
      with->asked.arg(ms_of(*job.delay));
    } else if (job.due) {
      with->asked.arg(fmt::format("@{}", ms_of(*job.due)));
    } else {
      with->asked.arg("");
    }
    with->asked.arg(job.unique_key);
    with->asked.arg(job.unique_for.count());
    with->asked.arg(job.keep_result.count());
  }
  co_await server_->perform(server_->work(), *with, may_repeat::no);
  check(with->answers[0], "enqueue");
  std::size_t i = 0;
  for (const auto& answer : with->answers[0].root()) {
    const bool created = answer[0].text() == "1";
    const auto which = parse_serial(answer[1].text());
    if (!which || i == jobs.size()) throw error{errc::bad_reply, fmt::format("an enqueue was answered {}", answer.describe())};
    out[i].created = created;
    out[i].id = public_id_of(in->number, *which, created ? jobs[i].id : answer[2].text());
    ++i;
  }
}

task<job_end> redis_broker::wait(std::string id) {
  const auto look = [this](std::string name) -> task<inspector::sight> {
    auto seen = co_await inspector_.look(name, "default");
    if (!seen)
      throw error{errc::not_found, fmt::format("there is no job {}, or it ended and what it kept has expired", quoted(name))};
    if (seen->job.keep_result.count() == 0) {
      throw error{errc::no_result,
                  fmt::format("the job {} keeps no result; enqueue it with keep_result to wait for it", quoted(name))};
    }
    if (is_terminal(seen->job.state) && !seen->ending) {
      throw error{errc::not_found, fmt::format("the result of the job {} was kept for its time and is gone", quoted(name))};
    }
    co_return std::move(*seen);
  };
  auto seen = co_await look(id);
  // From now on this life is meant.
  const std::string life = seen.job.id;
  if (!seen.ending) {
    hints::subscription end{hints_, seen.in->end_channel(seen.serial)};
    do {
      co_await end.heard.wait();
      end.heard.reset();
      seen = co_await look(life);
    } while (!seen.ending);
  }
  co_return job_end{.state = seen.job.state, .text = std::move(*seen.ending)};
}

// Consumers

task<std::unique_ptr<consumer>> redis_broker::join(consumer_options options) {
  auto made = std::make_shared<member>(server_, hints_, std::move(options), ids_.next());
  co_await made->join();
  {
    const std::scoped_lock lock{mutex_};
    std::erase_if(members_, [](const auto& it) { return it.expired(); });
    members_.push_back(made);
  }
  co_return std::make_unique<redis_consumer>(shared_from_this(), std::move(made));
}

// Operators

task<std::optional<job_info>> redis_broker::find(std::string id, std::string queue) {
  return inspector_.find(std::move(id), std::move(queue));
}
task<job_page> redis_broker::list(job_filter filter, std::string cursor, std::size_t limit) {
  return inspector_.list(std::move(filter), std::move(cursor), limit);
}
task<std::vector<queue_info>> redis_broker::queues() { return inspector_.queues(); }
task<std::vector<hour_stats>> redis_broker::stats(std::string queue, std::uint32_t hours) {
  co_await flush_counts(false);
  co_return co_await inspector_.stats(std::move(queue), hours);
}
task<std::vector<worker_info>> redis_broker::workers() { return inspector_.workers(); }
task<job_state> redis_broker::cancel(std::string id, std::string queue) {
  return inspector_.cancel(std::move(id), std::move(queue));
}
task<std::string> redis_broker::run(std::string id, std::string queue) { return inspector_.run(std::move(id), std::move(queue)); }
task<void> redis_broker::remove(std::string id, std::string queue) { return inspector_.remove(std::move(id), std::move(queue)); }

task<void> redis_broker::pause(std::string queue) { return set_paused(std::move(queue), true); }
task<void> redis_broker::resume(std::string queue) { return set_paused(std::move(queue), false); }

task<void> redis_broker::set_paused(std::string queue, bool paused) {
  const partition* in = co_await server_->find_queue(queue);
  if (in == nullptr) throw error{errc::not_found, fmt::format("there is no queue {}", quoted(queue))};
  {
    const server::borrowed with{*server_};
    if (paused) {
      with->asked.add("HSET", in->keys[partition::meta], "paused", "1");
    } else {
      with->asked.add("HDEL", in->keys[partition::meta], "paused");
    }
    with->asked.add("PUBLISH", server_->hint_channel(), fmt::format("{} {}", paused ? "pause" : "resume", queue));
    co_await server_->perform(server_->control(), *with, may_repeat::yes);
    check(with->answers[0], paused ? "pause" : "resume");
  }
  // Those of this broker need not hear of it: when this has ended they take nothing any more.
  std::vector<std::shared_ptr<member>> own;
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& it : members_) {
      if (auto alive = it.lock()) own.push_back(std::move(alive));
    }
  }
  for (const auto& it : own) co_await it->set_paused(queue, paused);
}

}  // namespace redis_store

std::shared_ptr<broker> open_redis(const url& where, broker_options options) {
  using namespace std::chrono_literals;
  option_reader read{where};
  const redis::connection_options to = redis::read_options(where, read);
  redis_store::settings how;
  how.name_space = read.take_text("namespace", how.name_space);
  how.max_payload = static_cast<std::size_t>(read.take_size("max_payload", how.max_payload, 1, redis_store::largest_payload));
  how.lease = std::chrono::ceil<std::chrono::milliseconds>(read.take_duration("lease", how.lease, 1s, 1h));
  read.done();
  if (how.name_space.empty() || how.name_space.find_first_of("{}: \n") != std::string::npos) {
    throw error{errc::bad_url, fmt::format("the namespace of {} is {}; it must not be empty, nor hold spaces, colons or braces",
                                           where.shown, quoted(how.name_space))};
  }
  ergon::runtime& on = options.runtime != nullptr ? *options.runtime : ergon::runtime::default_runtime();
  ergon::clock& by = options.clock != nullptr ? *options.clock : on.clock();

  // One broker per URL, runtime and clock: a client and a worker of one process share its connections.
  using key = std::tuple<std::string, std::string, std::string, ergon::runtime*, ergon::clock*>;
  static std::mutex mutex;
  static std::map<key, std::weak_ptr<redis_store::redis_broker>> opened;
  const key named{where.shown, where.user + ":" + where.password, to.user + ":" + to.password, &on, &by};
  {
    const std::scoped_lock lock{mutex};
    std::erase_if(opened, [](const auto& entry) { return entry.second.expired(); });
    if (const auto at = opened.find(named); at != opened.end()) {
      if (auto known = at->second.lock()) return known;
    }
  }
  auto at = std::make_shared<redis_store::server>(to, std::move(how), on, by, default_logger());
  try {
    on.block_on(at->greet());
  } catch (...) {
    at->close();
    throw;
  }
  auto made = std::make_shared<redis_store::redis_broker>(where.shown, std::move(at));
  const std::scoped_lock lock{mutex};
  opened[named] = made;
  return made;
}

}  // namespace ergon
