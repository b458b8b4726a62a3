// The state of one spawned task, shared by the task itself, its join handle and whoever cancels it. Counted by references; it
// outlives the frames and may outlive the runtime.
//
// Locking. `lock_` guards `operation_`, the cancel flag and the stop source; `join_lock_` guards `joiner_` and the step to done.
// A thread takes a root's `lock_` first, then the lock of what the task waits for (a timer store, an event, another root's
// `join_lock_`); whoever ends a wait holds none of those when it takes `lock_`. So no cycle exists, even where tasks join each
// other. What ends a wait must clear `operation_` before it queues the task: then no canceller still looks at the operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string_view>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/outcome.hpp>
#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {
class operation;
}

namespace ergon::detail {

class scheduler;
class root_list;
class task_root;

/// Told once, on the worker where the task ended, after its frames are gone.
struct join_waiter {
  void (*joined)(join_waiter&, task_root&) noexcept = nullptr;
};

class ERGON_EXPORT task_root : public work {
 public:
  task_root(const task_root&) = delete;
  task_root& operator=(const task_root&) = delete;

  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* block, std::size_t size) noexcept { deallocate_frame(block, size); }

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  /// Any thread; idempotent. The caller holds a reference.
  void cancel() noexcept;
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Valid once done: true if it took the stopped path.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] scheduler& home() const noexcept { return *scheduler_; }

  /// Valid once done: what it threw, or null.
  [[nodiscard]] virtual std::exception_ptr failure() const noexcept = 0;
  /// Queues `item` on the runtime that this task runs on.
  void schedule(work& item) noexcept;
  /// Requested when the task is cancelled; made on first use.
  [[nodiscard]] std::stop_token stop_token();

  /// False: done already, nobody will be told.
  bool set_joiner(join_waiter& waiter) noexcept;
  /// False: the waiter is being told.
  bool clear_joiner(join_waiter& waiter) noexcept;

  /// Destroys the frames from `leaf` up to the next boundary, whose parent goes on, or to the root's end.
  static void unwind(promise_base& leaf) noexcept;
  /// Reads and clears the mark that `unwind` leaves for the parent of a boundary. The task's own thread.
  [[nodiscard]] bool take_unwound() noexcept { return std::exchange(unwound_, false); }

 protected:
  task_root(scheduler& home, promise_base& outermost, std::string_view name) noexcept;
  virtual ~task_root();
  virtual void take_result(promise_base& outermost) noexcept = 0;

 private:
  friend class ::ergon::operation;
  friend class root_list;
  friend class scheduler;
  friend void finish_root(promise_base& outermost) noexcept;

  void finish() noexcept;
  static void start(work& self) noexcept;

  std::atomic<std::uint32_t> references_{1};
  spin_lock lock_;
  spin_lock join_lock_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};
  bool stopped_ = false;
  bool unwound_ = false;
  scheduler* scheduler_;
  promise_base* outermost_;
  operation* operation_ = nullptr;
  join_waiter* joiner_ = nullptr;
  std::stop_source* stop_source_ = nullptr;
  root_list* list_ = nullptr;
  task_root* previous_ = nullptr;
  task_root* following_ = nullptr;
  std::string_view name_;
};

/// A counted pointer to a root.
template <class Root>
class root_ref {
 public:
  root_ref() = default;
  /// Takes over one reference.
  explicit root_ref(Root* adopted) noexcept : root_(adopted) {}
  root_ref(root_ref&& other) noexcept : root_(std::exchange(other.root_, nullptr)) {}
  root_ref& operator=(root_ref&& other) noexcept {
    std::swap(root_, other.root_);
    return *this;
  }
  ~root_ref() {
    if (root_ != nullptr) {
      root_->release();
    }
  }
  [[nodiscard]] Root* get() const noexcept { return root_; }
  Root* operator->() const noexcept { return root_; }
  Root& operator*() const noexcept { return *root_; }
  explicit operator bool() const noexcept { return root_ != nullptr; }

 private:
  Root* root_ = nullptr;
};

}  // namespace ergon::detail
