// The smallest thing a runtime runs: an intrusive FIFO item. Whoever posts one owns it and keeps it alive until `run` is called;
// after that the runtime never touches it again, so `run` may destroy it.
#pragma once

#include <ergon/base/export.hpp>

namespace ergon {

class ERGON_EXPORT work {
 public:
  work() = default;
  work(const work&) = delete;
  work& operator=(const work&) = delete;

  /// Called once on a worker thread. Long work here delays every task of that worker.
  virtual void run() noexcept = 0;

  /// The runtime's while the item is queued.
  work* next = nullptr;

 protected:
  ~work() = default;
};

}  // namespace ergon
