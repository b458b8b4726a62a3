// `poll_thread`: a thread that sleeps in poll(2), and between two sleeps does what its owner and other threads want. What the owner
// keeps for it is touched on that thread alone, so it needs no lock.
#pragma once

#include <poll.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "servers/loopback.hpp"

namespace ergon::test {

class poll_thread {
 public:
  /// Before each sleep `watch` says what would end it; after it, `turn` does all that can be done without blocking. A descriptor
  /// that `watch` names must be one that `turn` reads or writes, or the thread never sleeps again. Neither may throw.
  poll_thread(std::function<void(std::vector<pollfd>&)> watch, std::function<void()> turn);
  poll_thread(const poll_thread&) = delete;
  poll_thread& operator=(const poll_thread&) = delete;
  ~poll_thread() { stop(); }

  /// Runs `f` on the thread between two turns, and returns once it has. After `stop`, runs it here.
  void run(const std::function<void()>& f);
  /// Idempotent. Afterwards nothing runs any more.
  void stop();

 private:
  void loop();
  void wake() const;

  std::function<void(std::vector<pollfd>&)> watch_;
  std::function<void()> turn_;
  descriptor bell_;
  std::mutex lock_;
  std::vector<std::function<void()>> wanted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ergon::test
