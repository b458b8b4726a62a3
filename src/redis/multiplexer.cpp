#include "redis/multiplexer.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/backoff.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

#include "redis/buffer.hpp"

namespace ergon::redis {

namespace {

/// So much of a long reply counts as progress.
constexpr std::size_t good_part = std::size_t{64} * 1024;
/// Buffers larger than this are not kept.
constexpr std::size_t kept_buffer = std::size_t{1} << 20U;
/// So often the time is looked at, within the response timeout.
constexpr int looks = 4;
/// A connection on which nothing has moved for so many response timeouts is asked whether it is there.
constexpr int idle_timeouts = 3;
constexpr std::chrono::seconds between_warnings{30};

std::int64_t nanoseconds_now() noexcept { return ergon::clock::system().steady().time_since_epoch().count(); }

}  // namespace

// ── calls

call::~call() { on_->forget(*this); }

bool call::await_ready() {
  on_->submit(*this);
  return false;
}

void call::await_resume() const {
  if (failure_ != nullptr) throw error{reason_, *failure_};
}

bool call::arm() noexcept { return on_->arm(*this); }
bool call::disarm() noexcept { return on_->disarm(*this); }

void multiplexer::queue_of_entries::push(const entry& e) {
  if (count_ == ring_.size()) {
    std::vector<entry> larger(std::max<std::size_t>(64, ring_.size() * 2));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = at(i);
    ring_ = std::move(larger);
    begin_ = 0;
  }
  ++count_;
  at(count_ - 1) = e;
}

void multiplexer::woken::push(call& c) noexcept {
  c.after_ = nullptr;
  (last_ != nullptr ? last_->after_ : first_) = &c;
  last_ = &c;
}

void multiplexer::woken::wake_all() noexcept {
  while (first_ != nullptr) {
    call* const next = first_->after_;
    first_->wake();
    first_ = next;
  }
  last_ = nullptr;
}

multiplexer::multiplexer(ergon::runtime& on, const connection_options& options, logger log)
    : runtime_(&on), options_(options), log_(std::move(log)), name_(options.shown()) {}

void multiplexer::start() { supervisor_ = runtime_->spawn(keep_connected(shared_from_this()), "redis connection"); }

void multiplexer::close() noexcept {
  {
    std::lock_guard const guard(lock_);
    closed_ = true;
  }
  supervisor_.cancel();
}

void multiplexer::submit(call& c) {
  bool wakes = false;
  {
    std::lock_guard const guard(lock_);
    if (closed_) throw error{errc::closed, fmt::format("the connection to {} was closed", name_)};
    if (room_first_ == nullptr && has_room_for(c.asked_->count())) {
      append(c);
      wakes = writer_must_wake();
    } else {
      c.before_ = room_last_;
      c.after_ = nullptr;
      (room_last_ != nullptr ? room_last_->after_ : room_first_) = &c;
      room_last_ = &c;
      c.state_ = call::state::wants_room;
    }
  }
  if (wakes) work_.set();
}

bool multiplexer::arm(call& c) noexcept {
  std::lock_guard const guard(lock_);
  c.armed_ = c.state_ != call::state::ended;
  return c.armed_;
}

bool multiplexer::disarm(call& c) noexcept {
  std::lock_guard const guard(lock_);
  if (!std::exchange(c.armed_, false)) return false;
  take_out(c);
  return true;
}

void multiplexer::forget(call& c) noexcept {
  std::lock_guard const guard(lock_);
  take_out(c);
}

void multiplexer::take_out(call& c) noexcept {
  if (c.state_ == call::state::queued) {
    line_.at(c.place_ - first_).who = nullptr;
  } else if (c.state_ == call::state::wants_room) {
    (c.before_ != nullptr ? c.before_->after_ : room_first_) = c.after_;
    (c.after_ != nullptr ? c.after_->before_ : room_last_) = c.before_;
  }
  c.state_ = call::state::ended;
}

bool multiplexer::has_room_for(std::size_t commands) const noexcept {
  return owed_ == 0 || (owed_ + commands <= options_.most_in_flight && unsent_.size() < options_.most_unsent);
}

bool multiplexer::writer_must_wake() noexcept { return std::exchange(writer_waits_, false); }

void multiplexer::append(call* who, const commands& asked) {
  const std::string_view bytes = asked.bytes();
  const std::size_t before = unsent_.size();
  unsent_.append(bytes);
  try {
    line_.push({who, static_cast<std::uint32_t>(asked.count()), static_cast<std::uint32_t>(bytes.size()), now()});
  } catch (...) {
    unsent_.resize(before);
    throw;
  }
  owed_ += asked.count();
}

void multiplexer::append(call& c) {
  append(&c, *c.asked_);
  c.place_ = first_ + line_.size() - 1;
  c.state_ = call::state::queued;
  stats_.commands += c.asked_->count();
}

void multiplexer::let_in(woken& ended) noexcept {
  while (room_first_ != nullptr && has_room_for(room_first_->asked_->count())) {
    call& c = *room_first_;
    room_first_ = c.after_;
    (room_first_ != nullptr ? room_first_->before_ : room_last_) = nullptr;
    try {
      append(c);
    } catch (const std::bad_alloc&) {
      end(c, out_of_memory(), ended);
    }
  }
}

// From here on who is not armed may be gone.
void multiplexer::end(call& c, const failure& why, woken& ended) noexcept {
  c.failure_ = why.text;
  c.reason_ = why.reason;
  c.state_ = call::state::ended;
  if (std::exchange(c.armed_, false)) ended.push(c);
}

void multiplexer::drop_first(const failure& why, woken& ended) noexcept {
  entry& e = line_.at(0);
  owed_ -= e.answers_left;
  if (e.who != nullptr) end(*e.who, why, ended);
  line_.pop();
  ++first_;
}

// ── the connection

// Fails what is left when the supervisor ends, however it does.
class multiplexer::last_words {
 public:
  explicit last_words(multiplexer& of) noexcept : of_(&of) {}
  last_words(const last_words&) = delete;
  last_words& operator=(const last_words&) = delete;
  ~last_words() { of_->fail_all(); }

 private:
  multiplexer* of_;
};

// Says that there is a connection, while there is.
class multiplexer::serving {
 public:
  serving(multiplexer& of, const link& with) : of_(&of) {
    {
      std::lock_guard const guard(of.lock_);
      of.server_ = with.server();
      of.connected_ = true;
      of.progress_ = of.now();
      of.writer_waits_ = false;
      ++of.stats_.connections_made;
    }
    of.work_.set();
    of.up_.set();
  }
  serving(const serving&) = delete;
  serving& operator=(const serving&) = delete;
  ~serving() {
    of_->up_.reset();
    std::lock_guard const guard(of_->lock_);
    of_->connected_ = false;
    of_->writer_waits_ = false;
    ++of_->stats_.connections_lost;
  }

 private:
  multiplexer* of_;
};

task<void> multiplexer::keep_connected(std::shared_ptr<multiplexer> self) {
  const last_words at_end{*self};
  std::uint32_t failures = 0;
  steady_time warned{};
  for (;;) {
    outage met;
    bool was_up = false;
    try {
      link with = co_await link::open(self->options_);
      was_up = true;
      if (failures > 1) self->log_.info("connected again", {{"server", self->name_}, {"attempts", log_number(failures)}});
      failures = 0;
      co_await self->serve(with);
    } catch (const error& e) {
      met = {e.reason(), e.what()};
    } catch (const std::exception& e) {
      met.why = e.what();
    }
    ++failures;
    const steady_time now = self->now();
    if (failures == 1 || now - warned > between_warnings) {
      warned = now;
      self->log_.warn(was_up ? "connection lost" : "cannot connect; trying again", {{"server", self->name_}, {"why", met.why}});
    }
    self->note_outage(std::move(met));
    if (!was_up || failures > 1) {
      co_await self->wait_to_connect(detail::half_jittered(detail::backoff_bound(self->options_.reconnect, failures)));
    }
  }
}

// No longer than the patience at a time: then those that came first have waited long enough.
task<void> multiplexer::wait_to_connect(std::chrono::nanoseconds span) {
  while (span > std::chrono::nanoseconds::zero()) {
    const auto step = std::min(span, std::max<std::chrono::nanoseconds>(options_.patience, std::chrono::milliseconds{10}));
    co_await sleep_for(step);
    span -= step;
    fail_impatient();
  }
}

task<void> multiplexer::serve(link& with) {
  const serving up{*this, with};
  co_await with_group([this, &with](task_group& tasks) -> task<void> {
    tasks.spawn(read(with), "redis reader");
    tasks.spawn(watch(), "redis watch");
    co_await write(with);
  });
}

task<void> multiplexer::write(link& with) {
  // What a connection before had been given is not sent again.
  sending_.clear();
  for (;;) {
    co_await work_.wait();
    {
      std::lock_guard const guard(lock_);
      if (unsent_.empty()) {
        writer_waits_ = true;
        work_.reset();
        continue;
      }
      unsent_.swap(sending_);
      sent_ = line_.size();
      ++stats_.writes;
    }
    co_await with.send(sending_);
    empty_for_reuse(sending_, kept_buffer);
    written_.store(nanoseconds_now(), std::memory_order_relaxed);
    look_out(with);
  }
}

task<void> multiplexer::read(link& with) {
  reply scratch;
  std::size_t part = 0;
  for (;;) {
    if (with.unread().empty()) {
      co_await with.read_more();
      note_round_trip();
    }
    part += with.unread().size();
    if (part >= good_part) {
      part = 0;
      std::lock_guard const guard(lock_);
      progress_ = now();
    }
    take_answers(with, scratch);
  }
}

void multiplexer::take_answers(link& with, reply& scratch) {
  woken ended;
  struct wake_at_end {
    woken& calls;
    ~wake_at_end() { calls.wake_all(); }
  } const at_end{ended};
  bool demoted = false;
  bool wakes = false;
  while (!with.unread().empty()) {
    with.begin_ += with.parser_.feed(with.unread(), scratch);
    if (!with.parser_.whole()) break;
    const value answer = scratch.root();
    if (answer.type() == reply_type::push) {
      // Nobody has subscribed to anything here: such as the server's notices about itself.
      scratch.clear();
      continue;
    }
    demoted = demoted || error_word(answer) == "READONLY";
    std::lock_guard const guard(lock_);
    if (sent_ == 0) {
      throw error{errc::bad_reply, fmt::format("{} answers where nothing was asked: {}", name_, answer.describe())};
    }
    progress_ = now();
    entry& e = line_.at(0);
    if (e.who != nullptr) {
      std::swap(e.who->answers_[e.who->answered_++], scratch);
    }
    scratch.clear();
    --owed_;
    if (--e.answers_left == 0) {
      drop_first({}, ended);
      --sent_;
      let_in(ended);
      wakes = (!unsent_.empty() && writer_must_wake()) || wakes;
    }
  }
  if (wakes) work_.set();
  if (sent_is_due()) look_out(with);
  if (demoted) throw error{errc::connection_lost, fmt::format("{} is a replica now", name_)};
}

bool multiplexer::sent_is_due() const noexcept {
  std::lock_guard const guard(lock_);
  return sent_ > 0;
}

void multiplexer::look_out(link& with) noexcept {
  if (round_trip_.load(std::memory_order_relaxed) < options_.look_out.count()) with.stream_.look_out(options_.look_out);
}

void multiplexer::note_round_trip() noexcept {
  const std::int64_t last = nanoseconds_now() - written_.load(std::memory_order_relaxed);
  const std::int64_t average = round_trip_.load(std::memory_order_relaxed);
  round_trip_.store(average + (last - average) / 8, std::memory_order_relaxed);
}

task<void> multiplexer::watch() {
  commands ping;
  ping.add("PING");
  for (;;) {
    co_await sleep_for(options_.response_timeout / looks);
    bool asks = false;
    {
      std::lock_guard const guard(lock_);
      const steady_time at = now();
      if (sent_ > 0 && at - std::max(line_.at(0).since, progress_) > options_.response_timeout) {
        throw error{errc::connection_lost,
                    fmt::format("{} has owed an answer for more than {} ms", name_,
                                std::chrono::duration_cast<std::chrono::milliseconds>(options_.response_timeout).count())};
      }
      if (line_.size() == 0 && at - progress_ > idle_timeouts * options_.response_timeout) {
        append(nullptr, ping);
        asks = writer_must_wake();
      }
    }
    if (asks) work_.set();
  }
}

// ── failing

multiplexer::failure multiplexer::because(errc reason, std::string text) noexcept {
  try {
    return {reason, std::make_shared<const std::string>(std::move(text))};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

multiplexer::failure multiplexer::out_of_memory() noexcept {
  static const auto text = std::make_shared<const std::string>("this process has no memory for the command");
  return {errc::unavailable, text};
}

void multiplexer::note_outage(outage met) noexcept {
  woken ended;
  {
    std::lock_guard const guard(lock_);
    std::swap(outage_, met);
    if (sent_ > 0) {
      const failure reason =
          because(errc::unknown_outcome,
                  fmt::format("{} was lost before it answered ({}); the command may have run", name_, outage_.why));
      for (; sent_ > 0; --sent_) drop_first(reason, ended);
      let_in(ended);
    }
  }
  ended.wake_all();
  fail_impatient();
}

void multiplexer::fail_impatient() noexcept {
  woken ended;
  {
    std::lock_guard const guard(lock_);
    const steady_time at = now();
    failure reason;
    std::size_t bytes = 0;
    while (line_.size() > 0 && (outage_.lasts() || at - line_.at(0).since >= options_.patience)) {
      if (reason.text == nullptr) reason = because(outage_.meaning(), outage_text());
      bytes += line_.at(0).bytes;
      drop_first(reason, ended);
    }
    unsent_.erase(0, bytes);
    let_in(ended);
  }
  ended.wake_all();
}

void multiplexer::fail_all() noexcept {
  woken ended;
  {
    std::lock_guard const guard(lock_);
    closed_ = true;
    const failure reason = because(errc::closed, fmt::format("the connection to {} was closed", name_));
    const failure unknown =
        because(errc::unknown_outcome, fmt::format("the connection to {} was closed before it answered", name_));
    while (line_.size() > 0) {
      drop_first(sent_ > 0 ? unknown : reason, ended);
      if (sent_ > 0) --sent_;
    }
    unsent_.clear();
    while (room_first_ != nullptr) {
      call& c = *room_first_;
      room_first_ = c.after_;
      end(c, reason, ended);
    }
    room_last_ = nullptr;
  }
  up_.set();
  ended.wake_all();
}

std::string multiplexer::outage_text() const { return fmt::format("{} cannot be used: {}", name_, outage_.why); }

// ── what others see

steady_time multiplexer::now() const noexcept {
  const ergon::clock& clock = runtime_->clock();
  return clock.is_manual() ? clock.steady() : ergon::clock::last_tick();
}

task<server_info> multiplexer::connected() {
  bool in_time = true;
  try {
    co_await timeout(options_.patience, [](event& up) -> task<void> { co_await up.wait(); }(up_));
  } catch (const error& e) {
    if (e.reason() != errc::timed_out) throw;
    in_time = false;
  }
  std::lock_guard const guard(lock_);
  if (closed_) throw error{errc::closed, fmt::format("the connection to {} was closed", name_)};
  if (!in_time || !connected_) throw error{outage_.meaning(), outage_text()};
  co_return server_;
}

client_stats multiplexer::stats() const {
  std::lock_guard const guard(lock_);
  client_stats now = stats_;
  now.in_flight = owed_;
  now.connected = connected_;
  return now;
}

}  // namespace ergon::redis
