#include "broker/redis/member.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "broker/redis/inspector.hpp"
#include "broker/redis/serial.hpp"
#include "broker/redis/upkeep.hpp"
#include "broker/rest.hpp"
#include "broker/rules.hpp"

namespace ergon::redis_store {

namespace {

constexpr unsigned ms_bits = 48;
constexpr std::uint64_t most_ms = (std::uint64_t{1} << ms_bits) - 1;
constexpr std::uint64_t front_bit = std::uint64_t{1} << ms_bits;
constexpr std::size_t most_queues = 32'768;

/// A fetch stops at about so many bytes.
constexpr double fetch_bytes = 1 << 20;
constexpr std::size_t most_at_once = 1000;
/// What one script settles: bounded, for the server does nothing else meanwhile.
constexpr std::size_t most_plain = 1000;
constexpr std::size_t most_rich = 100;
constexpr std::size_t most_rich_bytes = std::size_t{1} << 20U;
/// Entries that one beat asks for, of each stream.
constexpr std::size_t most_pending = 10'000;
constexpr int hand_back_step = 100;
constexpr std::chrono::seconds block_for{20};

lease_token token_of(std::size_t queue, bool is_front, const serial& id) noexcept {
  return {.where = std::uint64_t{queue} << (ms_bits + 1) | (is_front ? front_bit : 0) | id.ms, .number = id.number};
}

std::int64_t ms_of(std::chrono::nanoseconds span) noexcept {
  return std::chrono::ceil<std::chrono::milliseconds>(std::clamp(span, std::chrono::nanoseconds{0}, longest_duration)).count();
}

}  // namespace

entry_place entry_place::of(lease_token lease) noexcept {
  return {.queue = static_cast<std::size_t>(lease.where >> (ms_bits + 1)),
          .is_front = (lease.where & front_bit) != 0,
          .ms = lease.where & most_ms,
          .number = lease.number};
}

std::string entry_place::text() const { return fmt::format("{}{}-{}", is_front ? 'f' : 'r', ms, number); }

member::member(std::shared_ptr<server> at, std::shared_ptr<hints> from, consumer_options options, std::string name)
    : server_(std::move(at)),
      hints_(std::move(from)),
      options_(std::move(options)),
      name_(std::move(name)),
      turns_(options_.queues, options_.strict) {
  if (options_.queues.size() > most_queues) {
    throw error{errc::invalid_argument,
                fmt::format("a worker of {} queues; at most {} can be", options_.queues.size(), most_queues)};
  }
}

task<void> member::join() {
  for (const queue_share& share : options_.queues) {
    sources_.push_back({.name = share.name, .in = co_await server_->queue(share.name)});
  }
  about_ = describe_worker(options_, server_->now_ms());
  co_await beat_once();
  hints_->add(*this);
  reader_ = server_->runtime().spawn(read_jobs(shared_from_this()), "redis fetch");
  beater_ = server_->runtime().spawn(beat(shared_from_this()), "redis heartbeat");
}

void member::check_is_here() const {
  if (gone_) throw error{errc::closed, fmt::format("the worker {} has left the store", name_)};
}

void member::stop() noexcept {
  hints_->remove(*this);
  reader_.cancel();
  beater_.cancel();
  const std::scoped_lock lock{mutex_};
  if (link_ != nullptr) link_->close();
}

void member::abandon() noexcept {
  {
    const std::scoped_lock lock{mutex_};
    if (std::exchange(gone_, true)) return;
  }
  stop();
  ready_.set();
}

task<void> member::leave() {
  {
    const std::scoped_lock lock{mutex_};
    if (std::exchange(gone_, true)) co_return;
  }
  ready_.set();
  // First it must be sure that the server gives this worker nothing any more.
  std::string wrong;
  try {
    co_await interrupt();
  } catch (const error& e) {
    wrong = e.what();
  }
  stop();
  try {
    co_await std::move(reader_);
  } catch (const std::exception&) {
    // It was cancelled.
  }
  for (const source& from : sources_) {
    for (;;) {
      const server::borrowed with{*server_};
      server_->begin(with->asked, scripts::take_over, *from.in, 5);
      with->asked.arg(name_);
      with->asked.arg("0");
      with->asked.arg(hand_back_step);
      with->asked.arg(rules::buried_after);
      with->asked.arg(rules::dead_kept_for.count());
      co_await server_->perform(server_->control(), *with, may_repeat::yes);
      check(with->answers[0], "hand back what a worker holds");
      if (with->answers[0].root()[2].integer() == 1) break;
      co_await yield();
    }
  }
  const server::borrowed with{*server_};
  with->asked.add("HDEL", server_->key("workers"), name_);
  with->asked.add("HDEL", server_->key("beats"), name_);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  {
    const std::scoped_lock lock{mutex_};
    held_.clear();
    staged_.clear();
    left_ = true;
  }
  news_.set();
}

// Fetching

task<void> member::fetch(std::size_t max, delivery_batch& out) {
  if (max == 0) throw error{errc::invalid_argument, "a fetch of 0 jobs; at least 1 must be asked for"};
  for (;;) {
    {
      const std::scoped_lock lock{mutex_};
      check_is_here();
      if (!staged_.jobs.empty()) {
        wanted_ = 0;
        std::swap(out, staged_);
        staged_.clear();
        // Two streams gave something at once, or the one who asked for more has gone.
        if (out.jobs.size() <= max) co_return;
        for (std::size_t i = max; i < out.jobs.size(); ++i) unwanted_.push_back(out.jobs[i].lease);
        out.jobs.resize(max);
        demand_.set();
        co_return;
      }
      if (!failure_.empty()) {
        wanted_ = 0;
        throw error{failure_reason_, std::exchange(failure_, {})};
      }
      wanted_ = max;
      ready_.reset();
    }
    demand_.set();
    auto wait = ready_.wait();
    wait.report_stop();
    co_await wait;
    if (!wait.stopped()) continue;
    {
      const std::scoped_lock lock{mutex_};
      wanted_ = 0;
      // What is there already is given out, and the cancel stops the next wait.
      if (!staged_.jobs.empty()) continue;
    }
    (void)server_->runtime().spawn(interrupt_later(shared_from_this()), "redis fetch interrupt");
    co_await detail::stop_here{};
  }
}

task<void> member::read_jobs(std::shared_ptr<member> self) {
  redis::connection_options where = self->server_->where();
  where.client_name = fmt::format("ergon-worker-{}", self->name_);
  for (bool is_first = true;; is_first = false) {
    bool was_up = false;
    std::string wrong;
    errc reason = errc::unavailable;
    try {
      redis::link with = co_await redis::link::open(where);
      was_up = true;
      {
        const std::scoped_lock lock{self->mutex_};
        self->client_id_ = with.server().client_id;
        self->link_ = &with;
        // What the server sent before may not have arrived.
        self->must_adopt_ = self->must_adopt_ || !is_first;
      }
      struct goes {
        member& of;
        ~goes() {
          const std::scoped_lock lock{of.mutex_};
          of.link_ = nullptr;
          of.is_reading_ = false;
          of.looked_up_.set();
        }
      } const at_end{*self};
      co_await self->serve(with);
    } catch (const error& e) {
      wrong = e.what();
      const bool is_outage = e.reason() == errc::connection_lost || e.reason() == errc::timed_out ||
                             e.reason() == errc::bad_reply || e.reason() == errc::unknown_outcome;
      reason = is_outage ? errc::unavailable : e.reason();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    const std::uint32_t failures = ++self->read_failures_;
    // A connection that was lost is made anew without a word; who waits is told only if that does not help.
    if (was_up && failures == 1) continue;
    {
      const std::scoped_lock lock{self->mutex_};
      if (self->wanted_ != 0) {
        self->failure_ = wrong;
        self->failure_reason_ = reason;
        self->ready_.set();
      }
    }
    co_await sleep_for(detail::half_jittered(detail::backoff_bound(where.reconnect, failures)));
  }
}

task<void> member::serve(redis::link& with) {
  for (;;) {
    bool adopts = false;
    bool hands_back = false;
    std::size_t want = 0;
    {
      const std::scoped_lock lock{mutex_};
      hands_back = !unwanted_.empty();
      adopts = std::exchange(must_adopt_, false);
      must_look_up_ = false;
      want = staged_.jobs.empty() && !gone_ ? wanted_ : 0;
      if (!adopts && !hands_back && (want == 0 || std::ranges::all_of(sources_, &source::is_paused))) {
        demand_.reset();
        want = 0;
      }
    }
    if (adopts) {
      co_await adopt();
    } else if (hands_back) {
      // Before anything else: others wait for it.
    } else if (want == 0) {
      co_await demand_.wait();
      continue;
    } else {
      co_await look_round(with, std::min(want, most_at_once));
    }
    hand_out();
    co_await discard_late();
    std::vector<lease_token> unwanted;
    {
      const std::scoped_lock lock{mutex_};
      unwanted = std::exchange(unwanted_, {});
    }
    co_await hand_back(std::move(unwanted));
  }
}

task<void> member::look_round(redis::link& with, std::size_t max) {
  std::vector<std::size_t> open;
  bool any_front = false;
  {
    const std::scoped_lock lock{mutex_};
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].is_paused) continue;
      open.push_back(i);
      any_front = any_front || sources_[i].has_front || sources_[i].bytes_a_job == 0;
    }
  }
  if (open.size() == 1 && !any_front) {
    (void)co_await read_some(with, open, streams::both, max, blocks::yes);
    co_return;
  }
  const auto plan = turns_.plan(max);
  std::size_t left = max;
  for (const bool first_way : {true, false}) {
    for (const shares::turn& turn : plan) {
      const std::size_t most = first_way ? std::min(left, turn.count) : left;
      if (most == 0 || !std::ranges::binary_search(open, turn.queue)) continue;
      const std::size_t came = std::min(left, co_await read_queue(with, turn.queue, most));
      turns_.took(turn.queue, came);
      left -= came;
    }
    // One queue gave what it has.
    if (open.size() == 1) break;
  }
  if (left == max) (void)co_await read_some(with, open, streams::both, 1, blocks::yes);
}

task<std::size_t> member::read_queue(redis::link& with, std::size_t queue, std::size_t most) {
  const std::span<const std::size_t> one{&queue, 1};
  std::size_t came = 0;
  for (const streams from : {streams::front, streams::ready}) {
    bool is_new = false;
    {
      const std::scoped_lock lock{mutex_};
      // Until it is known to be empty; what comes in after this is heard of.
      if (from == streams::front && !std::exchange(sources_[queue].has_front, false)) continue;
      is_new = sources_[queue].bytes_a_job == 0;
    }
    std::size_t want = most - came;
    // How large the jobs of a queue are is not known before the first one.
    if (is_new && want > 1) {
      const std::size_t first = co_await read_some(with, one, from, 1, blocks::no);
      came += first;
      want = first == 0 ? 0 : want - first;
    }
    if (want > 0) came += co_await read_some(with, one, from, want, blocks::no);
    if (came >= most) {
      const std::scoped_lock lock{mutex_};
      if (from == streams::front) sources_[queue].has_front = true;
      break;
    }
  }
  co_return came;
}

task<std::size_t> member::read_some(redis::link& with, std::span<const std::size_t> queues, streams of, std::size_t count,
                                    blocks how) {
  {
    const std::scoped_lock lock{mutex_};
    if (gone_ || (how == blocks::yes && must_look_up_)) co_return 0;
    for (const std::size_t queue : queues) {
      if (const double each = sources_[queue].bytes_a_job; each > 0) {
        count = std::min(count, std::max<std::size_t>(1, static_cast<std::size_t>(fetch_bytes / each)));
      }
    }
    is_reading_ = true;
    ++reads_;
    looked_up_.reset();
  }
  const std::size_t streams_each = of == streams::both ? 2 : 1;
  redis::commands& asked = read_command_;
  asked.clear();
  asked.begin(7 + (how == blocks::yes ? 2 : 0) + 2 * streams_each * queues.size());
  asked.arg("XREADGROUP");
  asked.arg("GROUP");
  asked.arg("workers");
  asked.arg(name_);
  asked.arg("COUNT");
  asked.arg(count);
  io_options patience;
  if (!server_->clock().is_manual()) patience.timeout = server_->where().response_timeout;
  if (how == blocks::yes) {
    asked.arg("BLOCK");
    asked.arg(std::chrono::milliseconds{block_for}.count());
    if (!server_->clock().is_manual()) patience.timeout += block_for;
  }
  asked.arg("STREAMS");
  for (const std::size_t queue : queues) {
    if (of != streams::ready) asked.arg(sources_[queue].in->keys[partition::front]);
    if (of != streams::front) asked.arg(sources_[queue].in->keys[partition::ready]);
  }
  for (std::size_t i = 0; i < streams_each * queues.size(); ++i) asked.arg(">");

  redis::reply& answer = read_answer_;
  answer.clear();
  co_await with.send(asked);
  // While jobs come quickly, a thread that went to sleep would have to be woken for each of them.
  const steady_time sent = clock::system().steady();
  if (const auto span = server_->where().look_out; read_time_ < span) with.look_out(span);
  co_await with.receive(answer, patience);
  read_time_ += (clock::system().steady() - sent - read_time_) / 8;
  std::size_t came = 0;
  const auto root = answer.root();
  if (redis::error_word(root) == "NOGROUP") {
    // Somebody emptied the database, or part of it: a beat makes anew what is missing.
    co_await beat_once();
  } else if (redis::error_word(root) != "UNBLOCKED") {
    redis::raise(root, "XREADGROUP");
    const auto take = [&](redis::value stream, redis::value entries) {
      for (const std::size_t queue : queues) {
        const partition& in = *sources_[queue].in;
        for (const bool is_front : {false, true}) {
          if (stream.text() == in.keys[is_front ? partition::front : partition::ready]) came += take_in(queue, is_front, entries);
        }
      }
    };
    if (root.type() == redis::reply_type::map) {
      for (auto at = root.begin(); at != root.end(); ++at) {
        const auto stream = *at;
        take(stream, *++at);
      }
    } else if (!root.is_null()) {
      for (const auto& pair : root) take(pair[0], pair[1]);
    }
  }
  read_failures_ = 0;
  {
    const std::scoped_lock lock{mutex_};
    is_reading_ = false;
  }
  looked_up_.set();
  co_return came;
}

std::size_t member::take_in(std::size_t queue, bool is_front, redis::value entries) {
  std::size_t came = 0;
  const std::int64_t now = server_->now_ms();
  const std::scoped_lock lock{mutex_};
  source& from = sources_[queue];
  for (const auto& it : entries) {
    const auto fields = it[1];
    const auto id = parse_serial(it[0].text());
    // Without fields it was deleted under our hands.
    if (!id || id->is_own || !fields.is_aggregate()) continue;
    const lease_token lease = token_of(queue, is_front, *id);
    const entry job = read_entry(fields);
    const record r = record_of(job);
    const auto [at, is_new] = held_.try_emplace(lease);
    // It never starts what it is still running.
    if (!is_new) continue;
    held& of = at->second;
    of.failures = r.failures;
    of.max_retries = r.max_retries;
    of.beat = beats_;
    of.retention = r.retention;
    of.keep_result = r.keep_result;
    of.is_plain = job.is_plain && r.retention.count() == 0 && r.keep_result.count() == 0;
    if (!job.errors.empty()) of.errors = std::make_unique<std::string>(job.errors);
    const double bytes = static_cast<double>(job.record.size()) + 64;
    from.bytes_a_job = from.bytes_a_job == 0 ? bytes : from.bytes_a_job + (bytes - from.bytes_a_job) / 8;
    if (from.is_paused) {
      unwanted_.push_back(lease);
    } else if (r.deadline && std::chrono::floor<std::chrono::milliseconds>(r.deadline->time_since_epoch()).count() <= now) {
      late_.push_back(lease);
    } else {
      const serial which = job.serial.empty() ? *id : parse_serial(job.serial).value_or(*id);
      const auto [high, low] = widen(from.in->number, which);
      deliver(r, low, lease, from.name, staged_);
      delivery& last = staged_.jobs.back();
      last.serial_high = high;
      last.enqueued_at = which.born();
      if (last.fit == record_fit::garbage) last.payload = staged_.keep(job.record);
    }
    ++came;
  }
  return came;
}

void member::hand_out() {
  const std::scoped_lock lock{mutex_};
  if (wanted_ != 0 && !staged_.jobs.empty()) {
    ready_.set();
  } else if (wanted_ == 0) {
    for (const delivery& job : staged_.jobs) unwanted_.push_back(job.lease);
    staged_.clear();
  }
}

task<void> member::discard_late() {
  std::vector<lease_token> late;
  {
    const std::scoped_lock lock{mutex_};
    late = std::exchange(late_, {});
  }
  if (late.empty()) co_return;
  std::vector<settlement> what;
  for (const lease_token lease : late) {
    what.push_back({.lease = lease, .how = verdict::discard, .text = "its deadline passed before it was started"});
  }
  std::vector<settled> out(what.size());
  co_await settle(what, out);
}

task<void> member::hand_back(std::vector<lease_token> these) {
  if (these.empty()) co_return;
  std::vector<settlement> what;
  for (const lease_token lease : these) what.push_back({.lease = lease, .how = verdict::hand_back});
  std::vector<settled> out(what.size());
  co_await settle(what, out);
}

void member::ask_what_is_held(redis::commands& to) const {
  for (const source& from : sources_) {
    server_->begin(to, scripts::held, *from.in, 2);
    to.arg(name_);
    to.arg(most_pending);
  }
}

task<void> member::adopt() {
  struct unknown {
    std::size_t queue;
    bool is_front;
  };
  std::vector<unknown> found;
  const server::borrowed reads{*server_};
  {
    const server::borrowed with{*server_};
    ask_what_is_held(with->asked);
    co_await server_->perform(server_->control(), *with, may_repeat::yes);
    for (std::size_t queue = 0; queue < sources_.size(); ++queue) {
      check(with->answers[queue], "read what a worker holds");
      const auto answer = with->answers[queue].root();
      for (const bool is_front : {false, true}) {
        for (const auto& id : answer[is_front ? 3 : 2]) {
          const auto which = parse_serial(id.text());
          const std::scoped_lock lock{mutex_};
          if (!which || found.size() == most_at_once || held_.contains(token_of(queue, is_front, *which))) continue;
          found.push_back({.queue = queue, .is_front = is_front});
          const auto stream = is_front ? partition::front : partition::ready;
          reads->asked.add("XRANGE", sources_[queue].in->keys[stream], id.text(), id.text());
        }
      }
    }
  }
  if (found.empty()) co_return;
  co_await server_->perform(server_->control(), *reads, may_repeat::yes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    check(reads->answers[i], "XRANGE");
    (void)take_in(found[i].queue, found[i].is_front, reads->answers[i].root());
  }
  server_->log().warn("jobs that were sent and did not arrive are taken up",
                      {{"worker", name_}, {"jobs", log_number(found.size())}});
}

task<void> member::interrupt() {
  std::uint64_t read = 0;
  std::int64_t client = 0;
  {
    const std::scoped_lock lock{mutex_};
    must_look_up_ = true;
    read = reads_;
    client = client_id_;
  }
  for (;;) {
    {
      const std::scoped_lock lock{mutex_};
      if (!is_reading_ || reads_ != read) co_return;
    }
    const server::borrowed with{*server_};
    with->asked.add("CLIENT", "UNBLOCK", client);
    co_await server_->perform(server_->control(), *with, may_repeat::yes);
    const auto answer = with->answers[0].root();
    if (answer.is_error()) {
      // Not permitted, for one. What was sent to a connection that is closed is found again.
      const std::scoped_lock lock{mutex_};
      if (link_ != nullptr) link_->close();
    } else if (answer.integer() == 0) {
      // The read is on its way still, or has been answered.
      co_await yield();
      continue;
    }
    auto until = looked_up_.wait();
    until.ignore_cancel();
    co_await until;
  }
}

task<void> member::interrupt_later(std::shared_ptr<member> self) {
  try {
    co_await self->interrupt();
  } catch (const std::exception& e) {
    self->server_->log().debug("a read could not be interrupted", {{"worker", self->name_}, {"why", e.what()}});
  }
}

task<void> member::set_paused(std::string queue, bool paused) {
  bool is_mine = false;
  {
    const std::scoped_lock lock{mutex_};
    for (source& from : sources_) {
      if (from.name != queue) continue;
      is_mine = true;
      from.is_paused = paused;
    }
  }
  if (!is_mine) co_return;
  if (paused) {
    co_await interrupt();
  } else {
    // It may be blocked on the others.
    co_await interrupt_later(shared_from_this());
    demand_.set();
  }
}

void member::told(std::string_view hint) noexcept {
  const auto space = hint.find(' ');
  if (space == std::string_view::npos) return;
  const std::string_view what = hint.substr(0, space);
  const std::string_view whom = hint.substr(space + 1);
  if (what == "look") {
    if (whom == name_) stirred_.set();
  } else if (what == "front") {
    const std::scoped_lock lock{mutex_};
    for (source& from : sources_) from.has_front = from.has_front || from.in->keys[partition::front] == whom;
  } else if (what == "pause" || what == "resume") {
    // Whether it is so, the beat asks.
    if (std::ranges::any_of(options_.queues, [&](const queue_share& share) { return share.name == whom; })) stirred_.set();
  }
}

void member::missed() noexcept {
  {
    const std::scoped_lock lock{mutex_};
    for (source& from : sources_) from.has_front = true;
  }
  stirred_.set();
}

// The heartbeat

task<void> member::beat(std::shared_ptr<member> self) {
  for (;;) {
    std::chrono::nanoseconds pause = self->server_->how().lease / 3;
    self->stirred_.reset();
    try {
      co_await self->beat_once();
    } catch (const std::exception& e) {
      self->server_->log().warn("a heartbeat failed", {{"worker", self->name_}, {"why", e.what()}});
      pause = std::min<std::chrono::nanoseconds>(pause, std::chrono::seconds{1});
    }
    co_await rest(self->stirred_, pause);
  }
}

task<void> member::beat_once() {
  std::uint32_t number = 0;
  {
    const std::scoped_lock lock{mutex_};
    number = ++beats_;
  }
  const server::borrowed with{*server_};
  with->asked.add("EVALSHA", scripts::beat.sha1, 3, server_->key("beats"), server_->key("workers"), server_->key("none"), name_,
                  fmt::format("{} {}", number, server_->now_ms()), about_);
  ask_what_is_held(with->asked);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "heartbeat");
  for (std::size_t queue = 0; queue < sources_.size(); ++queue) check(with->answers[1 + queue], "heartbeat");

  bool looks_up = false;
  bool is_resumed = false;
  {
    const std::scoped_lock lock{mutex_};
    boost::unordered_flat_set<lease_token, token_hash> there;
    boost::unordered_flat_set<lease_token, token_hash> unknown;
    // Of a stream that has more than was asked for, nothing is known of what lies behind.
    std::vector<std::optional<serial>> ends(2 * sources_.size());
    for (std::size_t queue = 0; queue < sources_.size(); ++queue) {
      const auto answer = with->answers[1 + queue].root();
      server_->saw_time(answer[0].integer());
      const bool paused = answer[1].text() == "1";
      looks_up = looks_up || (paused && !sources_[queue].is_paused);
      is_resumed = is_resumed || (!paused && sources_[queue].is_paused);
      sources_[queue].is_paused = paused;
      for (const bool is_front : {false, true}) {
        const auto ids = answer[is_front ? 3 : 2];
        std::optional<serial> last;
        for (const auto& id : ids) {
          last = parse_serial(id.text());
          if (!last) continue;
          const lease_token lease = token_of(queue, is_front, *last);
          there.insert(lease);
          if (!held_.contains(lease)) unknown.insert(lease);
        }
        if (ids.size() == most_pending) ends[2 * queue + (is_front ? 1 : 0)] = last;
      }
    }
    boost::unordered::erase_if(held_, [&](const auto& entry) {
      const auto& [lease, job] = entry;
      const entry_place place = entry_place::of(lease);
      const auto& end = ends[2 * place.queue + (place.is_front ? 1 : 0)];
      const bool is_asked_for = !end || std::pair{place.ms, place.number} <= std::pair{end->ms, end->number};
      const bool is_lost = job.beat < number && !job.is_settling && !job.is_in_doubt && is_asked_for && !there.contains(lease);
      if (is_lost) lost_.push_back(lease);
      return is_lost;
    });
    // What is being read or settled just now looks unknown for once.
    must_adopt_ = must_adopt_ || std::ranges::any_of(unknown, [&](lease_token lease) { return unknown_.contains(lease); });
    unknown_ = std::move(unknown);
    looks_up = looks_up || must_adopt_;
    if (!lost_.empty()) news_.set();
  }
  if (looks_up || is_resumed) {
    (void)server_->runtime().spawn(interrupt_later(shared_from_this()), "redis fetch interrupt");
    demand_.set();
  }
}

task<consumer_news> member::news() {
  for (;;) {
    {
      const std::scoped_lock lock{mutex_};
      if (left_) check_is_here();
      news_.reset();
      if (!lost_.empty()) co_return consumer_news{.lost = std::exchange(lost_, {})};
    }
    co_await news_.wait();
  }
}

// What happens to jobs in hand

/// One call of `settle`: what goes to the server, and whose answer is whose.
class member::settling {
 public:
  struct command {
    const script* what;
    std::size_t queue;
    bool is_front;
    std::vector<std::uint32_t> whose;
  };

  std::vector<command> commands;
  std::size_t bytes = 0;

  /// The command that takes one more of this kind; `room` is of the last one.
  command& open(const script& what, std::size_t queue, bool is_front, std::size_t most, std::size_t size) {
    for (command& it : commands | std::views::reverse) {
      if (it.what != &what || it.queue != queue || it.is_front != is_front) continue;
      if (it.whose.size() >= most || (&what != &scripts::settle && bytes + size > most_rich_bytes)) break;
      bytes += size;
      return it;
    }
    bytes = size;
    return commands.emplace_back(&what, queue, is_front, std::vector<std::uint32_t>{});
  }
};

task<void> member::settle(std::span<const settlement> what, std::span<settled> out) {
  for (const settlement& s : what) {
    if (s.how == verdict::complete && s.text.size() > server_->how().max_payload) {
      throw error{errc::too_large, fmt::format("a result has {} bytes; this store takes at most {} (option max_payload)",
                                               s.text.size(), server_->how().max_payload)};
    }
  }
  settling work;
  struct end {
    job_state state{};
    std::uint32_t failures = 0;
    std::chrono::milliseconds kept{0};
    std::string errors;
  };
  std::vector<end> ends(what.size());
  const wall_time now{std::chrono::milliseconds{server_->now_ms()}};
  {
    const std::scoped_lock lock{mutex_};
    for (std::size_t i = 0; i < what.size(); ++i) {
      const settlement& s = what[i];
      const auto it = held_.find(s.lease);
      if (it == held_.end() || it->second.is_settling) {
        out[i] = settled::lost;
        continue;
      }
      held& of = it->second;
      of.is_settling = true;
      out[i] = settled::yes;
      const entry_place place = entry_place::of(s.lease);
      const auto index = static_cast<std::uint32_t>(i);
      if (s.how == verdict::complete && of.is_plain) {
        work.open(scripts::settle, place.queue, place.is_front, most_plain, 0).whose.push_back(index);
        continue;
      }
      const bool counts = s.how == verdict::retry || s.how == verdict::bury;
      if (counts) {
        ends[i].failures = of.failures + 1;
        add_failure(of.errors ? std::string_view{*of.errors} : std::string_view{}, now, name_, rules::cut_error(s.text),
                    ends[i].errors);
      }
      const bool is_over = s.how == verdict::retry && of.failures + 1 > of.max_retries;
      const std::size_t size = s.text.size() + ends[i].errors.size();
      if (s.how == verdict::hand_back || (s.how == verdict::retry && !is_over)) {
        work.open(scripts::retry, place.queue, false, most_rich, size).whose.push_back(index);
        continue;
      }
      if (is_over) out[i] = settled::buried;
      switch (s.how) {
        case verdict::complete:
          ends[i].state = job_state::completed;
          break;
        case verdict::discard:
          ends[i].state = job_state::discarded;
          break;
        case verdict::cancel:
          ends[i].state = job_state::cancelled;
          break;
        default:
          ends[i].state = job_state::dead;
          break;
      }
      record r;
      r.retention = of.retention;
      r.keep_result = of.keep_result;
      ends[i].kept = rules::kept_for(ends[i].state, r);
      work.open(scripts::finish, place.queue, false, most_rich, size).whose.push_back(index);
    }
  }
  if (work.commands.empty()) co_return;

  const server::borrowed with{*server_};
  const std::string clock = server_->clock_argument();
  for (const settling::command& it : work.commands) {
    const partition& in = *sources_[it.queue].in;
    if (it.what == &scripts::settle) {
      with->asked.begin(3 + 2 + 1 + it.whose.size());
      with->asked.arg("EVALSHA");
      with->asked.arg(it.what->sha1);
      with->asked.arg(2);
      with->asked.arg(in.keys[it.is_front ? partition::front : partition::ready]);
      with->asked.arg(in.keys[partition::stats]);
      with->asked.arg(clock);
      for (const auto i : it.whose) {
        const entry_place place = entry_place::of(what[i].lease);
        char text[48];
        with->asked.arg(std::string_view{text, fmt::format_to(text, "{}-{}", place.ms, place.number)});
      }
      continue;
    }
    const bool is_retry = it.what == &scripts::retry;
    server_->begin(with->asked, *it.what, in, it.whose.size() * (is_retry ? 5 : 6));
    for (const auto i : it.whose) {
      const settlement& s = what[i];
      const bool counts = ends[i].failures != 0;
      with->asked.arg(entry_place::of(s.lease).text());
      if (is_retry) {
        with->asked.arg(ms_of(s.delay));
        with->asked.arg(counts ? "1" : "0");
      } else {
        with->asked.arg(to_string(ends[i].state));
        with->asked.arg(ends[i].kept.count());
        with->asked.arg(s.how == verdict::complete ? s.text : rules::cut_error(s.text));
      }
      with->asked.arg(counts ? std::to_string(ends[i].failures) : std::string{});
      with->asked.arg(ends[i].errors);
    }
  }

  const auto release = [&](const settling::command& of, bool in_doubt) {
    const std::scoped_lock lock{mutex_};
    for (const auto i : of.whose) {
      const auto it = held_.find(what[i].lease);
      if (it == held_.end()) continue;
      it->second.is_settling = false;
      it->second.is_in_doubt = it->second.is_in_doubt || in_doubt;
    }
  };
  try {
    co_await server_->perform(server_->work(), *with, may_repeat::yes);
  } catch (...) {
    for (const settling::command& it : work.commands) release(it, true);
    throw;
  }
  const auto is_gone = [&](std::uint32_t i) {
    if (with->was_repeated) return;
    const std::scoped_lock lock{mutex_};
    const auto it = held_.find(what[i].lease);
    if (it == held_.end() || !it->second.is_in_doubt) out[i] = settled::lost;
  };
  std::exception_ptr wrong;
  for (std::size_t k = 0; k < work.commands.size(); ++k) {
    const settling::command& it = work.commands[k];
    const auto answer = with->answers[k].root();
    if (answer.is_error()) {
      release(it, false);
      try {
        redis::raise(answer, fmt::format("the script {}", it.what->name));
      } catch (...) {
        wrong = std::current_exception();
      }
      continue;
    }
    if (it.what == &scripts::settle) {
      for (const auto& position : answer) is_gone(it.whose.at(static_cast<std::size_t>(position.integer() - 1)));
    } else {
      std::size_t at = 0;
      for (const auto& is_done : answer) {
        if (is_done.integer() == 0) is_gone(it.whose.at(at));
        ++at;
      }
    }
    const std::scoped_lock lock{mutex_};
    for (const auto i : it.whose) held_.erase(what[i].lease);
  }
  if (wrong) std::rethrow_exception(wrong);
}

task<bool> member::mark(lease_token lease) {
  {
    const std::scoped_lock lock{mutex_};
    if (!held_.contains(lease)) co_return false;
  }
  const entry_place place = entry_place::of(lease);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::mark, *sources_[place.queue].in, 2);
  with->asked.arg(place.text());
  with->asked.arg(name_);
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
  check(with->answers[0], "mark a suspect");
  co_return with->answers[0].root().integer() == 1;
}

task<void> member::report(lease_token lease, double done, std::string_view note) {
  {
    const std::scoped_lock lock{mutex_};
    const auto it = held_.find(lease);
    if (it == held_.end() || it->second.is_settling) co_return;
    // The report goes with the job.
    it->second.is_plain = false;
  }
  const entry_place place = entry_place::of(lease);
  const server::borrowed with{*server_};
  server_->begin(with->asked, scripts::note, *sources_[place.queue].in, 3);
  with->asked.arg(place.text());
  with->asked.arg(name_);
  with->asked.arg(fmt::format("{} {}", std::clamp(done, 0.0, 1.0), rules::cut_error(note)));
  co_await server_->perform(server_->control(), *with, may_repeat::yes);
}

task<void> member::maintain() {
  upkeep keeps{server_, hints_};
  co_await keeps.run();
}

}  // namespace ergon::redis_store
