// `client`: the commands of many tasks on one connection (or a few), which it makes anew when it is lost.
//
//   ergon::redis::client redis{runtime, ergon::redis::read_options("redis://127.0.0.1")};
//   ergon::redis::commands asked;
//   asked.add("INCR", "visits");
//   ergon::redis::reply answer;
//   co_await redis.run(asked, answer);
//
// What several tasks ask in one turn of the runtime goes out in one write, and the answers come back in order. The commands of one call go
// out together and in their order; between calls of different tasks there is none.
//
// While the server is away calls wait for `patience` and then fail with `errc::unavailable`: nothing of them was sent. A call whose commands had
// gone out when the connection was lost fails with `errc::unknown_outcome`: they may have been carried out. `repeat` sends such commands
// again, for those that do no harm when they run twice.
//
// A cancelled call ends at once; what it had sent may still be carried out, and its answers are dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/base/log.hpp>
#include <ergon/redis/command.hpp>
#include <ergon/redis/handshake.hpp>
#include <ergon/redis/options.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::redis {

class multiplexer;

/// What `client::repeat` does when the awaiting task is cancelled.
enum class on_cancel : std::uint8_t { stop, go_on };

/// A call under way; lies in the awaiting frame.
class ERGON_EXPORT call final : public operation {
 public:
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  ~call();

  /// Sends, or waits for room. Throws `errc::closed`.
  bool await_ready();
  void await_resume() const;

 private:
  friend class client;
  friend class multiplexer;

  /// What `client::repeat` does when the awaiting task is cancelled.
  enum class on_cancel : std::uint8_t { stop, go_on };
  enum class state : std::uint8_t { fresh, queued, wants_room, ended };

  call(multiplexer& on, const commands& asked, std::span<reply> answers) noexcept : on_(&on), asked_(&asked), answers_(answers) {}
  bool arm() noexcept override;
  bool disarm() noexcept override;

  // All under the multiplexer's lock.
  multiplexer* on_;
  const commands* asked_;
  std::span<reply> answers_;
  std::size_t answered_ = 0;
  /// Its place in the line of those that wait for answers.
  std::uint64_t place_ = 0;
  call* before_ = nullptr;
  call* after_ = nullptr;
  /// Why it failed; shared as text, for an exception belongs to one thread.
  std::shared_ptr<const std::string> failure_;
  errc reason_{};
  state state_ = state::fresh;
  bool armed_ = false;
};

/// What happens on the connections, for figures and health.
struct client_stats {
  std::uint64_t commands = 0;
  std::uint64_t writes = 0;
  std::uint64_t connections_made = 0;
  std::uint64_t connections_lost = 0;
  std::size_t in_flight = 0;
  bool connected = false;
};

/// Any thread. Its tasks run on the runtime, which must outlive it.
class ERGON_EXPORT client {
 public:
  /// Connects in the background.
  explicit client(ergon::runtime& on, connection_options options = {}, logger log = default_logger());
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  /// As `close`. No call is under way.
  ~client();

  /// Sends the commands and waits for their answers, as many: `answers` must have room for them. An answer that is an error is an answer (`raise` throws
  /// it). Commands and answers must stay until the call has ended. Throws `errc::unavailable`, `errc::unknown_outcome`, `errc::closed`,
  /// `errc::invalid_argument` where the sizes do not fit.
  [[nodiscard]] call run(const commands& asked, std::span<reply> answers);
  [[nodiscard]] call run(const commands& asked, reply& answer) { return run(asked, {&answer, 1}); }
  /// `run`, again and again where the outcome is unknown, or where the server asks to come back later (`LOADING`, `MASTERDOWN`, `TRYAGAIN`, `BUSY`):
  /// for commands that may run twice, for `patience` in all. True if nobody knows whether they ran twice.
  [[nodiscard]] task<bool> repeat(const commands& asked, std::span<reply> answers, on_cancel cancelled = on_cancel::stop);

  /// Waits until there is a connection. Throws `errc::unavailable` with what the last attempt met after `patience`; `errc::closed`.
  [[nodiscard]] task<server_info> connected();
  /// Calls under way and later ones fail with `errc::closed`. Idempotent.
  void close() noexcept;

  [[nodiscard]] client_stats stats() const;
  [[nodiscard]] const connection_options& options() const noexcept { return options_; }

 private:
  [[nodiscard]] multiplexer& next() noexcept;

  connection_options options_;
  std::vector<std::shared_ptr<multiplexer>> connections_;
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace ergon::redis
