#include "broker/sqlite/reader.hpp"

namespace ergon::sqlite {

reader::~reader() {
  {
    const std::lock_guard held{mutex_};
    closed_ = true;
    arrived_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void reader::push(item& what) {
  process_.check("sqlite");
  const std::lock_guard held{mutex_};
  queue_.push_back(&what);
  if (!thread_.joinable()) {
    thread_ = std::thread{[this] { read_forever(); }};
  }
  arrived_.notify_one();
}

void reader::read_forever() {
  std::unique_lock held{mutex_};
  for (;;) {
    arrived_.wait(held, [this] { return !queue_.empty() || closed_; });
    if (queue_.empty()) {
      return;
    }
    for (item* next : std::exchange(queue_, {})) {
      held.unlock();
      next->run();
      held.lock();
    }
  }
}

}  // namespace ergon::sqlite
