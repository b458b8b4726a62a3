// One worker's membership: it reads from its queues on a connection of its own, knows what it holds, beats, and hears when something of that is
// not its own any more.
//
// A lease is as old as its worker is silent: nobody touches the single entries while it beats, so a heartbeat costs the same for ten jobs and ten
// thousand. Each beat asks what the store says that this worker holds; that is the truth, and what differs is lost or adopted.
//
// Tasks of a member hold it; `mutex_` guards what several of them and callers share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <ergon/broker/broker.hpp>
#include <ergon/redis/link.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/join_handle.hpp>

#include "broker/redis/entry.hpp"
#include "broker/redis/hints.hpp"
#include "broker/redis/server.hpp"
#include "broker/shares.hpp"

namespace ergon::redis_store {

struct token_hash {
  std::size_t operator()(const lease_token& of) const noexcept {
    return static_cast<std::size_t>((of.where ^ of.number * 0x9e37'79b9'7f4a'7c15U) * 0xff51'afd7'ed55'8ccdU >> 7U);
  }
};

/// An entry in a stream of one of a worker's queues.
struct entry_place {
  std::size_t queue = 0;
  bool is_front = false;
  std::uint64_t ms = 0;
  std::uint64_t number = 0;

  [[nodiscard]] static entry_place of(lease_token lease) noexcept;
  /// `r1893456000000-7`
  [[nodiscard]] std::string text() const;
};

class member final : public std::enable_shared_from_this<member>, private hint_listener {
 public:
  /// Throws `errc::invalid_argument` for queues that make no sense.
  member(std::shared_ptr<server> at, std::shared_ptr<hints> from, consumer_options options, std::string name);

  task<void> join();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  task<void> fetch(std::size_t max, delivery_batch& out);
  task<void> settle(std::span<const settlement> what, std::span<settled> out);
  task<bool> mark(lease_token lease);
  task<void> report(lease_token lease, double done, std::string_view note);
  task<consumer_news> news();
  task<void> maintain();
  task<void> leave();
  void abandon() noexcept;

  /// When it has ended nothing of a paused queue is taken any more.
  task<void> set_paused(std::string queue, bool paused);

 private:
  /// What is known of a job in hand, for its end.
  struct held {
    std::uint32_t failures = 0;
    std::uint32_t max_retries = 0;
    std::uint32_t beat = 0;
    /// Its end is a matter of `settle`.
    bool is_plain = true;
    bool is_settling = false;
    /// A settlement was sent and nobody knows whether it was stored: if it is gone, it was.
    bool is_in_doubt = false;
    std::chrono::milliseconds retention{0};
    std::chrono::milliseconds keep_result{0};
    std::unique_ptr<std::string> errors = nullptr;
  };
  struct source {
    std::string name;
    const partition* in = nullptr;
    bool is_paused = false;
    /// Of late, for the bound on a fetch.
    double bytes_a_job = 0;
    /// Its front may hold something. It is read first then, by itself: a count is a stream's own, and both at once would be twice as many.
    bool has_front = true;
  };
  enum class blocks : std::uint8_t { no, yes };
  class settling;

  // Hints.
  void told(std::string_view hint) noexcept override;
  void missed() noexcept override;

  // The reading task.
  static task<void> read_jobs(std::shared_ptr<member> self);
  task<void> serve(redis::link& with);
  /// One way round the queues, for at most so many.
  task<void> look_round(redis::link& with, std::size_t max);
  /// At most so many of one queue, without waiting. How many came.
  task<std::size_t> read_queue(redis::link& with, std::size_t queue, std::size_t most);
  /// What is read of each queue: one of its streams, or both.
  enum class streams : std::uint8_t { front, ready, both };
  task<std::size_t> read_some(redis::link& with, std::span<const std::size_t> queues, streams of, std::size_t count, blocks how);
  task<void> adopt();
  std::size_t take_in(std::size_t queue, bool is_front, redis::value entries);
  void hand_out();
  task<void> hand_back(std::vector<lease_token> these);
  task<void> discard_late();
  /// Makes the reading task look up from a read that blocks, and waits until it has.
  task<void> interrupt();
  static task<void> interrupt_later(std::shared_ptr<member> self);

  // The beating task.
  static task<void> beat(std::shared_ptr<member> self);
  task<void> beat_once();

  /// A question for each queue: what the store says that this worker holds.
  void ask_what_is_held(redis::commands& to) const;
  void check_is_here() const;
  void stop() noexcept;

  std::shared_ptr<server> server_;
  std::shared_ptr<hints> hints_;
  consumer_options options_;
  std::string name_;
  /// How it presents itself.
  std::string about_;

  mutable std::mutex mutex_;
  std::vector<source> sources_;
  boost::unordered_flat_map<lease_token, held, token_hash> held_;
  delivery_batch staged_;
  /// Came too late to be started.
  std::vector<lease_token> late_;
  /// Of a queue that is paused, or that nobody waits for any more.
  std::vector<lease_token> unwanted_;
  std::size_t wanted_ = 0;
  std::string failure_;
  errc failure_reason_{};
  bool gone_ = false;
  bool left_ = false;
  /// The reading task waits for the server, on this connection.
  bool is_reading_ = false;
  bool must_look_up_ = false;
  std::uint64_t reads_ = 0;
  std::int64_t client_id_ = 0;
  redis::link* link_ = nullptr;
  /// Something was delivered that this member may not know.
  bool must_adopt_ = false;
  std::uint32_t beats_ = 0;
  boost::unordered_flat_set<lease_token, token_hash> unknown_;
  std::vector<lease_token> lost_;

  // The reading task's own.
  shares turns_;
  /// Since the last read that was answered.
  std::uint32_t read_failures_ = 0;
  redis::commands read_command_;
  redis::reply read_answer_;
  /// How long reads took of late until something came.
  std::chrono::nanoseconds read_time_{0};

  event demand_;
  event ready_;
  event looked_up_;
  event stirred_;
  event news_;
  join_handle<> reader_;
  join_handle<> beater_;
};

/// A member as its worker has it.
class redis_consumer final : public consumer {
 public:
  redis_consumer(std::shared_ptr<broker> of, std::shared_ptr<member> it) : broker_(std::move(of)), member_(std::move(it)) {}
  ~redis_consumer() override { member_->abandon(); }

  [[nodiscard]] const std::string& id() const noexcept override { return member_->name(); }
  task<void> fetch(std::size_t max, delivery_batch& out) override { return member_->fetch(max, out); }
  task<void> settle(std::span<const settlement> what, std::span<settled> out) override { return member_->settle(what, out); }
  task<bool> mark(lease_token lease) override { return member_->mark(lease); }
  task<void> report(lease_token lease, double done, std::string_view note) override { return member_->report(lease, done, note); }
  task<consumer_news> news() override { return member_->news(); }
  task<void> maintain() override { return member_->maintain(); }
  task<void> leave() override { return member_->leave(); }
  void abandon() noexcept override { member_->abandon(); }

 private:
  std::shared_ptr<broker> broker_;
  std::shared_ptr<member> member_;
};

}  // namespace ergon::redis_store
