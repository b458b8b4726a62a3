// Keeps the store in order: promotes what is due, takes over from workers that are silent, lets go of what was kept long enough. Any number
// of processes do it at once; every step is a script that finds nothing left if another was first.
//
// Whether a worker is silent is judged by what this process sees change, by its own clock: a server that was away, restarted, or whose clock was
// set makes nobody look dead.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ergon/runtime/event.hpp>

#include "broker/redis/hints.hpp"
#include "broker/redis/server.hpp"

namespace ergon::redis_store {

class upkeep final : private hint_listener {
 public:
  upkeep(std::shared_ptr<server> at, std::shared_ptr<hints> from);
  upkeep(const upkeep&) = delete;
  upkeep& operator=(const upkeep&) = delete;
  ~upkeep();

  /// Until it is cancelled.
  task<void> run();

 private:
  struct watched {
    std::string beat;
    /// How long its beat was seen not to change.
    std::chrono::nanoseconds silent{0};
    bool is_seen = true;
  };

  void told(std::string_view hint) noexcept override;
  void missed() noexcept override { stirred_.set(); }

  task<void> look_at_workers(std::chrono::nanoseconds since_last);
  task<void> look_for_orphans();
  task<void> take_over(std::string worker);
  /// Until the next job is due; true: more were due than one step takes.
  task<bool> promote(std::optional<std::chrono::milliseconds>& next);
  task<bool> trim(std::optional<std::chrono::milliseconds>& next);
  /// A step of looking for damage in every queue. True: it has not come round yet.
  task<bool> sweep();

  std::shared_ptr<server> server_;
  std::shared_ptr<hints> hints_;
  std::vector<const partition*> queues_;
  std::map<std::string, watched, std::less<>> workers_;
  /// Where the sweep of each queue goes on.
  std::map<const partition*, std::array<std::string, 6>> swept_;
  event stirred_;
};

}  // namespace ergon::redis_store
