// The server as the parts of this broker share it: two connections that many use (one for work, one for what must not wait behind a large
// payload), the queues that are known, scripts, the store's time.
//
// All members may be called from any thread, on a task of the runtime where they give a task.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/base/clock.hpp>
#include <ergon/base/log.hpp>
#include <ergon/redis/client.hpp>
#include <ergon/redis/command.hpp>
#include <ergon/redis/options.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

#include "broker/redis/partition.hpp"
#include "broker/redis/scripts.hpp"

namespace ergon::redis_store {

struct settings {
  std::string name_space = "ergon";
  std::size_t max_payload = std::size_t{16} << 20U;
  /// A worker that was not heard of for so long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds{15};
};

/// Whether commands may be sent again when nobody knows whether they were carried out.
enum class may_repeat : std::uint8_t { no, yes };

/// Commands and the answers to them, kept for the next call.
struct exchange {
  redis::commands asked;
  std::vector<redis::reply> answers;
  std::string scratch;
  std::string more_scratch;
  /// It was sent more than once: what an answer says was not there may have been taken by this very exchange.
  bool was_repeated = false;

  /// Room for the answers of all commands.
  std::span<redis::reply> room();
};

class server {
 public:
  server(redis::connection_options where, settings how, ergon::runtime& on, ergon::clock& by, logger log);

  [[nodiscard]] redis::client& work() noexcept { return work_; }
  [[nodiscard]] redis::client& control() noexcept { return control_; }
  [[nodiscard]] const settings& how() const noexcept { return how_; }
  [[nodiscard]] const redis::connection_options& where() const noexcept { return work_.options(); }
  [[nodiscard]] ergon::runtime& runtime() const noexcept { return *runtime_; }
  [[nodiscard]] ergon::clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] const logger& log() const noexcept { return log_; }

  /// Waits for the connection and looks whether this is a server that can be a store. Throws `errc::unavailable`, `errc::not_supported`, …
  task<void> greet();
  void close() noexcept;

  /// Sends and waits, to the end even if the awaiting task is cancelled. Loads scripts and makes groups that the server does not have (any more).
  /// Answers that are errors are answers.
  task<void> perform(redis::client& on, exchange& with, may_repeat again);

  /// Begins EVALSHA of a script that takes the keys of a partition, the time and the channel of hints, and then `arguments` more.
  void begin(redis::commands& to, const script& what, const partition& on, std::size_t arguments) const;
  /// The first argument of every script: empty, but where a test owns the time.
  [[nodiscard]] std::string clock_argument() const;

  /// An exchange that is given back at the end of the scope.
  class borrowed {
   public:
    explicit borrowed(server& from) : from_(&from), it_(from.take()) {}
    borrowed(const borrowed&) = delete;
    borrowed& operator=(const borrowed&) = delete;
    ~borrowed() { from_->give_back(std::move(it_)); }
    exchange& operator*() const noexcept { return *it_; }
    exchange* operator->() const noexcept { return it_.get(); }

   private:
    server* from_;
    std::unique_ptr<exchange> it_;
  };

  /// The queue, if this process knows it. Partitions stay for as long as the server.
  [[nodiscard]] const partition* known(std::string_view queue) const;
  /// The queue; made if there is none.
  task<const partition*> queue(std::string queue);
  /// The queue, or null if there is none.
  task<const partition*> find_queue(std::string queue);
  task<const partition*> find_queue(std::uint32_t number);
  /// All that the server knows.
  task<std::vector<const partition*>> queues();

  [[nodiscard]] std::string key(std::string_view name) const;
  [[nodiscard]] const std::string& hint_channel() const noexcept { return hint_channel_; }

  /// The store's time in ms since 1970, as well as this process knows it.
  [[nodiscard]] std::int64_t now_ms() const noexcept;
  /// The server said what time it is.
  void saw_time(std::int64_t ms) noexcept;

 private:
  std::unique_ptr<exchange> take();
  void give_back(std::unique_ptr<exchange> used) noexcept;
  static task<void> exchange_once(redis::client& on, exchange& with, may_repeat again);
  task<void> load_scripts(redis::client& on);
  task<void> make_groups(redis::client& on, std::vector<const partition*> of);
  const partition* remember(std::string_view queue, std::uint32_t number);

  settings how_;
  ergon::runtime* runtime_;
  ergon::clock* clock_;
  logger log_;
  redis::client work_;
  redis::client control_;
  std::string hint_channel_;
  /// What the calendar of this machine lacks to the server's; where a test owns the time, what its boot time lacks.
  std::atomic<std::int64_t> offset_ms_{0};

  mutable std::mutex mutex_;
  boost::unordered_flat_map<std::string_view, std::unique_ptr<const partition>> queues_;
  std::vector<std::unique_ptr<exchange>> free_;
};

/// Throws what the answer says, if it is an error; `asked` names the work for people.
void check(const redis::reply& answer, std::string_view asked);

}  // namespace ergon::redis_store
