// Threads behind one queue.
//
// Locking: one mutex guards the queue, the counts and the list of threads. A thread that finds the queue empty waits on the
// condition variable, and says so in `idle_` under the same mutex under which items come in, so none is overlooked; a new thread
// is started, still under the mutex, when more items wait than threads are idle. The room of a bounded queue is a semaphore with
// a lock of its own, taken with the mutex released, except by `submit`, which waits for it on a second condition variable.
#include <ergon/pool/pool.hpp>

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <ergon/base/cpus.hpp>
#include <ergon/base/error.hpp>

namespace ergon {

namespace detail {

class pool_threads {
 public:
  explicit pool_threads(pool_options options) : options_(std::move(options)) {
    if (options_.max_threads > 4096) {
      throw error(errc::invalid_argument, "pool_options.max_threads is " + std::to_string(options_.max_threads) +
                                              ", and must be at most 4096 (0: one per CPU)");
    }
    if (options_.max_threads == 0) {
      options_.max_threads = granted_cpus();
    }
    if (options_.max_queue != 0) {
      room_.emplace(options_.max_queue);
    }
    threads_.reserve(options_.max_threads);
  }

  semaphore* room() noexcept { return room_ ? &*room_ : nullptr; }

  bool enqueue(work& item) noexcept {
    {
      std::lock_guard const guard(mutex_);
      if (closed_) {
        return false;
      }
      if (waiting_ + 1 > idle_ && threads_.size() < options_.max_threads && !start_thread() && threads_.empty()) {
        return false;
      }
      item.next = nullptr;
      (last_ != nullptr ? last_->next : first_) = &item;
      last_ = &item;
      ++waiting_;
    }
    ready_.notify_one();
    return true;
  }

  void leave_queue() noexcept {
    if (!room_) {
      return;
    }
    room_->release();
    std::lock_guard const guard(mutex_);
    if (blocked_submitters_ != 0) {
      has_room_.notify_one();
    }
  }

  void wait_for_room() {
    if (!room_) {
      return;
    }
    std::unique_lock guard(mutex_);
    ++blocked_submitters_;
    has_room_.wait(guard, [&] {
      auto place = room_->try_acquire();
      bool const taken = static_cast<bool>(place);
      place.forget();
      return taken || closed_;
    });
    --blocked_submitters_;
  }

  void close() {
    std::lock_guard const one_closer(close_mutex_);
    {
      std::lock_guard const guard(mutex_);
      for (auto const& t : threads_) {
        if (t.get_id() == std::this_thread::get_id()) {
          fatal("ergon: a pool was closed or destroyed on one of its own threads");
        }
      }
      closed_ = true;
    }
    ready_.notify_all();
    has_room_.notify_all();
    // Closed: nobody adds a thread any more.
    for (auto& t : threads_) {
      if (t.joinable()) {
        t.join();
      }
    }
  }

  [[nodiscard]] unsigned max_threads() const noexcept { return options_.max_threads; }
  [[nodiscard]] unsigned threads() const noexcept {
    std::lock_guard const guard(mutex_);
    return static_cast<unsigned>(threads_.size());
  }
  [[nodiscard]] std::size_t waiting() const noexcept {
    std::lock_guard const guard(mutex_);
    return waiting_;
  }
  [[nodiscard]] std::size_t running() const noexcept {
    std::lock_guard const guard(mutex_);
    return running_;
  }

 private:
  // Under the mutex. False: the system has no more threads.
  bool start_thread() noexcept {
    try {
      threads_.emplace_back([this] { work_until_closed(); });
    } catch (...) {
      return false;
    }
    try {
      std::string const name = options_.name.substr(0, 10) + '-' + std::to_string(threads_.size() - 1);
      ::pthread_setname_np(threads_.back().native_handle(), name.c_str());
    } catch (...) {  // NOLINT(bugprone-empty-catch): a thread without a name works as well
    }
    return true;
  }

  void work_until_closed() noexcept {
    std::unique_lock guard(mutex_);
    for (;;) {
      if (work* const item = first_) {
        first_ = item->next;
        if (first_ == nullptr) {
          last_ = nullptr;
        }
        --waiting_;
        ++running_;
        guard.unlock();
        item->run();
        guard.lock();
        --running_;
      } else if (closed_) {
        return;
      } else {
        ++idle_;
        ready_.wait(guard);
        --idle_;
      }
    }
  }

  pool_options options_;
  std::optional<semaphore> room_;

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable has_room_;
  work* first_ = nullptr;
  work* last_ = nullptr;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  std::size_t idle_ = 0;
  std::size_t blocked_submitters_ = 0;
  bool closed_ = false;
  std::vector<std::thread> threads_;
  // Held while threads are joined.
  std::mutex close_mutex_;
};

semaphore* room_of(pool_threads& in) noexcept { return in.room(); }
bool enqueue(pool_threads& in, work& item) noexcept { return in.enqueue(item); }
void leave_queue(pool_threads& in) noexcept { in.leave_queue(); }
void throw_pool_closed() { throw error(errc::closed, "the pool was closed: it takes no more calls"); }

}  // namespace detail

pool::pool(pool_options options) : threads_(std::make_shared<detail::pool_threads>(std::move(options))) {}
pool::~pool() { close(); }

bool pool::execute(work& item) noexcept { return threads_->enqueue(item); }

void pool::submit_item(work& item) {
  threads_->wait_for_room();
  if (!threads_->enqueue(item)) {
    detail::throw_pool_closed();
  }
}

void pool::close() { threads_->close(); }
unsigned pool::max_threads() const noexcept { return threads_->max_threads(); }
unsigned pool::threads() const noexcept { return threads_->threads(); }
std::size_t pool::waiting() const noexcept { return threads_->waiting(); }
std::size_t pool::running() const noexcept { return threads_->running(); }

bool install_pool(runtime& on, pool_options options) {
  static constinit std::mutex one_installer;
  std::lock_guard const guard(one_installer);
  if (on.blocking() != nullptr) {
    return false;
  }
  on.set_blocking_executor(std::make_shared<pool>(std::move(options)));
  return true;
}

}  // namespace ergon
