// What the store says by itself, over a connection that only listens: hints for everybody on one channel, and the ends of jobs that somebody
// waits for, each on a channel of its own. All of it is only a hint: whoever listens reads the truth afterwards, and again after each outage.
//
// All members may be called from any thread. Listeners are called on the listening task, under no lock but the one that `remove` waits for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/redis/link.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/join_handle.hpp>

#include "broker/redis/server.hpp"

namespace ergon::redis_store {

/// Told of every hint.
class hint_listener {
 public:
  virtual void told(std::string_view hint) noexcept = 0;
  /// There may have been hints that did not arrive.
  virtual void missed() noexcept = 0;

 protected:
  ~hint_listener() = default;
};

class hints : public std::enable_shared_from_this<hints> {
 public:
  explicit hints(std::shared_ptr<server> at) : server_(std::move(at)) {}

  void add(hint_listener& who);
  /// After it `who` is not called any more.
  void remove(hint_listener& who) noexcept;
  void close() noexcept;

  /// Waits for one channel, for as long as it lives. `heard` is set by each message, after an outage, and once the server listens.
  class subscription {
   public:
    subscription(std::shared_ptr<hints> of, std::string channel);
    subscription(const subscription&) = delete;
    subscription& operator=(const subscription&) = delete;
    ~subscription();

    event heard;

   private:
    friend class hints;
    std::shared_ptr<hints> of_;
    std::string channel_;
  };

 private:
  struct channel {
    std::vector<subscription*> waiting;
    bool is_asked_for = false;
  };

  void start();
  static task<void> listen(std::shared_ptr<hints> self);
  task<void> serve(redis::link& with);
  task<void> read(redis::link& with);
  void hear(redis::value message);
  void lost() noexcept;
  /// What the server has to be told.
  void changes(redis::commands& out);

  std::shared_ptr<server> server_;
  mutable std::mutex mutex_;
  std::vector<hint_listener*> listeners_;
  boost::unordered_flat_map<std::string, channel> channels_;
  event changed_;
  join_handle<> running_;
  bool started_ = false;
  bool closed_ = false;
  bool hints_asked_for_ = false;
};

}  // namespace ergon::redis_store
