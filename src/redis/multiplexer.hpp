// One connection that many calls share; see client.hpp for what it promises. It lives while its client or its supervisor does.
//
// Calls stand in a line, in the order in which their bytes stand in `unsent_`: the first `sent_` of them have been given to the socket and wait
// for answers, the others wait to be sent. Who finds the line full waits for room before it. One lock guards all of that; it is held for a
// copy of a command or the swap of a reply, never while something waits or is woken.
//
// Three tasks serve a connection while it lasts: one writes what is unsent, one reads and gives the answers out, one watches the time. What ends one ends
// all. The supervisor then fails what was sent, and connects anew; what was not sent stays in the line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/error.hpp>
#include <ergon/redis/client.hpp>
#include <ergon/redis/link.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::redis {

class multiplexer : public std::enable_shared_from_this<multiplexer> {
 public:
  multiplexer(ergon::runtime& on, const connection_options& options, logger log);

  void start();
  void close() noexcept;

  // What a call does.
  void submit(call& c);
  bool arm(call& c) noexcept;
  bool disarm(call& c) noexcept;
  void forget(call& c) noexcept;

  task<server_info> connected();
  [[nodiscard]] client_stats stats() const;
  [[nodiscard]] ergon::runtime& runtime() const noexcept { return *runtime_; }

 private:
  struct entry {
    /// Null: nobody wants the answers any more.
    call* who = nullptr;
    std::uint32_t answers_left = 0;
    std::uint32_t bytes = 0;
    /// Since when it stands here.
    steady_time since{};
  };
  /// Entries in order; the first has the number `first_`.
  class queue_of_entries {
   public:
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    [[nodiscard]] entry& at(std::size_t i) noexcept { return ring_[(begin_ + i) & (ring_.size() - 1)]; }
    void push(const entry& e);
    void pop() noexcept {
      begin_ = (begin_ + 1) & (ring_.size() - 1);
      --count_;
    }

   private:
    std::vector<entry> ring_;
    std::size_t begin_ = 0;
    std::size_t count_ = 0;
  };
  /// Calls that have ended and are woken when the lock is let go.
  class woken {
   public:
    void push(call& c) noexcept;
    void wake_all() noexcept;

   private:
    call* first_ = nullptr;
    call* last_ = nullptr;
  };
  /// Why there is no connection.
  struct outage {
    errc reason = errc::unavailable;
    std::string why = "no attempt has ended yet";

    /// Coming back later does not help, somebody has to change something: nobody need wait.
    [[nodiscard]] bool lasts() const noexcept {
      return reason == errc::not_permitted || reason == errc::not_trusted || reason == errc::rejected;
    }
    [[nodiscard]] errc meaning() const noexcept { return lasts() ? reason : errc::unavailable; }
  };
  /// Why calls fail; without a text they do not.
  struct failure {
    errc reason{};
    std::shared_ptr<const std::string> text = nullptr;
  };
  [[nodiscard]] static failure because(errc reason, std::string text) noexcept;
  [[nodiscard]] static failure out_of_memory() noexcept;
  class serving;
  class last_words;

  static task<void> keep_connected(std::shared_ptr<multiplexer> self);
  task<void> serve(link& with);
  task<void> write(link& with);
  task<void> read(link& with);
  task<void> watch();
  task<void> wait_to_connect(std::chrono::nanoseconds span);
  void take_answers(link& with, reply& scratch);
  void look_out(link& with) noexcept;
  void note_round_trip() noexcept;

  [[nodiscard]] bool sent_is_due() const noexcept;
  [[nodiscard]] steady_time now() const noexcept;

  // All under the lock.
  /// `who` may be null: then nobody wants the answers.
  void append(call* who, const commands& asked);
  void append(call& c);
  void take_out(call& c) noexcept;
  [[nodiscard]] bool has_room_for(std::size_t commands) const noexcept;
  void let_in(woken& ended) noexcept;
  void end(call& c, const failure& why, woken& ended) noexcept;
  void drop_first(const failure& why, woken& ended) noexcept;
  [[nodiscard]] std::string outage_text() const;
  [[nodiscard]] bool writer_must_wake() noexcept;

  // Under no lock.
  /// Fails what was sent.
  void note_outage(outage met) noexcept;
  /// Fails what has waited long enough to be sent.
  void fail_impatient() noexcept;
  void fail_all() noexcept;

  ergon::runtime* runtime_;
  connection_options options_;
  logger log_;
  std::string name_;
  join_handle<> supervisor_;

  mutable detail::spin_lock lock_;
  std::string unsent_;
  queue_of_entries line_;
  std::uint64_t first_ = 0;
  std::size_t sent_ = 0;
  /// Answers that the whole line waits for.
  std::size_t owed_ = 0;
  call* room_first_ = nullptr;
  call* room_last_ = nullptr;
  bool writer_waits_ = false;
  bool connected_ = false;
  bool closed_ = false;
  /// When a whole reply, or a good part of one, came last.
  steady_time progress_{};
  server_info server_;
  outage outage_;
  client_stats stats_;

  /// When the last write ended, by the machine's clock, and how long answers took after one, on average.
  std::atomic<std::int64_t> written_{0};
  std::atomic<std::int64_t> round_trip_{0};

  event work_;
  event up_;
  /// What the socket is being given. The writer's own.
  std::string sending_;
};

}  // namespace ergon::redis
