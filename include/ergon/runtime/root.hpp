// The state of one spawned task, shared by the task itself, its join handle and whoever cancels it. It lies in the promise of the
// task's outermost frame, so that a waiting task is one block of memory; the block stays, with its result, while somebody holds
// a reference, and the frame's variables are gone when the task ends. Every promise has one; that of a frame which another
// frame awaits uses the same words for its own ends and is nobody's root.
//
// What the words hold:            as a root                                           as an inner frame
//   first_                        who joins, and `called`; `ended` when it has, and   the parent frame, bit 0: a boundary
//                                 `kept`
//   second_                       what it waits in; before it starts the link of      when it has ended its exception
//                                 the run queue; when it has ended its exception
//   third_                        nothing, an index in a group, or `extras`           the root
//
// A branch of a `fork_join` is a root of its own, for it may wait while its siblings do, but a lean one: until it waits for the first time
// nobody else knows it, so it has no references. And while the branches of a fork follow each other on one thread the last of them `counts`
// for all before it, so that none of these costs an atomic operation either. As a branch, `first_` is its fork, and whether it `counts`,
// and `third_` the task that it is part of (its top), which is what is cancelled; extras may stand there and know the top then.
//
// A spawned task that its joiner finds unbegun is run as if it was called: nobody else can find it, so who joins is not marked as waiting,
// and neither side takes a step that others could see until it ends. If it waits before that, it and who called it are published first.
// A called task that ends keeps its reference for the owner of its result, who drops both at once.
//
// Locking. A bit of `state_` locks `second_` while it names an operation, and the step to cancelled; the other words are atomic. A
// thread takes a root's lock first, then the lock of what the task waits for (a timer store, an event); whoever ends a wait
// holds none of those when it takes the root's. So no cycle exists, even where tasks join each other. What ends a wait must take
// back `waiting` before it queues the task, unless `disarm` may be called to its last moment: then no canceller still looks at it.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <string_view>
#include <typeinfo>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/work.hpp>

namespace ergon {
class operation;
class task_group;
}  // namespace ergon

namespace ergon::detail {

class scheduler;
class task_root;
class promise_base;
class fork_base;
class join_wait;
class local_binding;

/// Prints the text and ends the process: for misuse that cannot be reported to anyone.
[[noreturn]] ERGON_EXPORT void fatal(const char* text) noexcept;

/// Told once, on the worker where the task ended, after its frames are gone.
struct join_waiter {
  void (*joined)(join_waiter&, task_root&) noexcept = nullptr;
};

class ERGON_EXPORT task_root {
 public:
  task_root() = default;
  task_root(const task_root&) = delete;
  task_root& operator=(const task_root&) = delete;

  // ── a root's

  void retain() noexcept { state_.fetch_add(reference, std::memory_order_relaxed); }
  /// The last one gives the memory back.
  void release() noexcept;

  /// Any thread; idempotent. The caller holds a reference.
  void cancel() noexcept;
  [[nodiscard]] bool cancelled() const noexcept {
    std::uint32_t const seen = state_.load(std::memory_order_acquire);
    return (seen & cancel_asked) != 0 ||
           ((seen & forked) != 0 && (top().state_.load(std::memory_order_acquire) & cancel_asked) != 0);
  }
  /// Of this root alone, without what a branch sees of its task: for who holds a reference to it and not to that.
  [[nodiscard]] bool was_asked_to_stop() const noexcept { return (state_.load(std::memory_order_acquire) & cancel_asked) != 0; }
  [[nodiscard]] bool done() const noexcept { return (first_.load(std::memory_order_acquire) & ended) != 0; }
  /// Valid once done: true if it took the stopped path. No inner frame does.
  [[nodiscard]] bool stopped() const noexcept { return (state_.load(std::memory_order_relaxed) & was_stopped) != 0; }
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] std::uint16_t name_number() const noexcept { return name_; }
  [[nodiscard]] static std::string_view name_of(std::uint16_t number) noexcept;
  [[nodiscard]] scheduler& home() const noexcept;

  /// What it waits in and the resume function of the frame that does; nothing of both while it does not wait.
  struct wait_place {
    const std::type_info* operation = nullptr;
    const void* resumes = nullptr;
  };
  [[nodiscard]] wait_place where() noexcept;

  /// Valid once done: what it threw, or null. Nothing is left of its result then, as if it had been stopped. For who is told of the end.
  [[nodiscard]] std::exception_ptr take_failure() noexcept;
  /// Queues `item` on the runtime that this task runs on.
  void schedule(work& item) noexcept;
  /// Requested when the task is cancelled; made on first use.
  [[nodiscard]] std::stop_token stop_token();

  /// The values that are set for the task (task_local.hpp). Its own thread, or while it waits for who asks.
  [[nodiscard]] local_binding* locals() const noexcept;
  /// Without what a branch sees of its task's.
  [[nodiscard]] local_binding* own_locals() const noexcept;
  /// `to` belongs to who sets it. Throws `std::bad_alloc`.
  void set_locals(local_binding* to);
  /// Of a root that has not begun. Throws `std::bad_alloc`.
  void inherit_locals(const task_root& from);
  /// True for a branch that has values of its own.
  [[nodiscard]] bool has_own_locals() const noexcept {
    return is_branch() && (third_.load(std::memory_order_relaxed) & tag) == is_extras;
  }

  /// False: done already, nobody will be told.
  bool set_joiner(join_waiter& waiter) noexcept;
  /// False: the waiter is being told.
  bool clear_joiner(join_waiter& waiter) noexcept;

  /// Destroys the frames from `leaf` up to the next boundary, whose parent goes on, or to the root's end.
  static void unwind(promise_base& leaf) noexcept;
  /// Reads and clears the mark that `unwind` leaves for the parent of a boundary. The task's own thread.
  [[nodiscard]] bool take_unwound() noexcept;

  /// Makes it a root with two references: the task's own, and that of the owner of its result.
  /// Throws `std::bad_alloc`, and then it is none.
  void become_root(scheduler& home, std::string_view name);
  /// Makes it a branch of `fork`, which stands in some frame of the task `top`. Of a frame that has not begun.
  void become_branch(fork_base& fork, task_root& top) noexcept {
    name_ = top.name_;
    home_ = top.home_;
    first_.store(reinterpret_cast<std::uintptr_t>(&fork), std::memory_order_relaxed);
    third_.store(reinterpret_cast<std::uintptr_t>(&top) | is_top, std::memory_order_relaxed);
    state_.store(rooted | forked, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_branch() const noexcept { return (state_.load(std::memory_order_relaxed) & forked) != 0; }
  [[nodiscard]] bool is_called() const noexcept { return (first_.load(std::memory_order_relaxed) & called) != 0; }
  [[nodiscard]] bool is_published() const noexcept { return state_.load(std::memory_order_relaxed) >= reference; }
  /// Nobody but its own thread knows that it runs: a branch or a called task that has not waited yet.
  [[nodiscard]] bool is_private() const noexcept { return is_branch() ? !is_published() : is_called(); }
  /// It is about to wait: from here on others may find it, and those who called it.
  void publish_if_private() noexcept {
    if (is_private()) [[unlikely]] {
      publish();
    }
  }
  /// The same for what is no branch: branches look at their task, and its fork has published that.
  void publish_if_called() noexcept {
    if (!is_branch() && is_called()) [[unlikely]] {
      publish();
    }
  }
  /// A called task has ended; what goes on: who called it. Nothing, and it is called no more, on a thread that is no worker.
  [[nodiscard]] std::coroutine_handle<> end_called() noexcept;
  /// A branch has ended; what goes on: nothing, or the frame that waits for the fork.
  std::coroutine_handle<> end_branch() noexcept;
  [[nodiscard]] bool counts_for_others() const noexcept { return (first_.load(std::memory_order_relaxed) & counts) != 0; }
  [[nodiscard]] fork_base& fork() const noexcept {
    return *reinterpret_cast<fork_base*>(first_.load(std::memory_order_relaxed) & ~counts);
  }
  /// Destroys the frame of a branch that has ended or never began.
  void destroy_branch() noexcept {
    if (state_.load(std::memory_order_relaxed) == (rooted | forked) && (third_.load(std::memory_order_relaxed) & tag) == is_top)
        [[likely]] {
      state_.store(0, std::memory_order_relaxed);
      destroy_frame();
    } else {
      destroy_known_branch();
    }
  }
  /// The root that a cancel of this one goes to: itself, unless it is a branch.
  [[nodiscard]] task_root& top() const noexcept {
    if (!is_branch()) {
      return const_cast<task_root&>(*this);
    }
    std::uintptr_t const word = third_.load(std::memory_order_acquire);
    return (word & tag) == is_top ? *reinterpret_cast<task_root*>(word & ~tag) : top_in_extras(word);
  }
  /// Destroys what was become a root and never launched; the owner's reference stays.
  void give_up() noexcept;
  /// The task has ended: destroys its frame and tells who joins.
  void finish() noexcept;
  /// The task has told who joins, and lets its reference and its result go to the result's owner. False: there is none any more; then it
  /// keeps both, and drops them.
  [[nodiscard]] bool hand_over() noexcept;
  /// The owner of a result that was not taken goes. True: it was handed over, and the owner drops it.
  [[nodiscard]] bool disown() noexcept { return (state_.fetch_and(~owned, std::memory_order_acq_rel) & handed_over) != 0; }
  /// It was called, and left its own reference to the owner of its result.
  [[nodiscard]] bool has_kept() const noexcept { return first_.load(std::memory_order_acquire) == (ended | kept); }
  /// `release` of the owner's reference and the task's own.
  void release_both() noexcept;

  // ── any frame's

  enum class kind : std::uint8_t { frame, task, branch };
  [[nodiscard]] kind what() const noexcept {
    std::uint32_t const seen = state_.load(std::memory_order_relaxed);
    return (seen & rooted) == 0 ? kind::frame : (seen & forked) == 0 ? kind::task : kind::branch;
  }
  [[nodiscard]] bool is_root() const noexcept { return (state_.load(std::memory_order_relaxed) & rooted) != 0; }
  void set_failure(std::exception_ptr e) noexcept;
  /// Throws what ended the frame, if something did. Of a frame that has ended, as the next.
  void rethrow_failure() const {
    if (has_failure()) {
      throw_failure();
    }
  }
  /// False: there is none.
  bool drop_failure() noexcept {
    bool const had = has_failure();
    if (had) {
      forget_failure();
    }
    return had;
  }

  // Marks of the memory that it lies in.
  void mark_free() noexcept { state_.store(0, std::memory_order_relaxed); }
  void mark_large() noexcept { state_.fetch_or(large, std::memory_order_relaxed); }
  [[nodiscard]] bool is_large() const noexcept { return (state_.load(std::memory_order_relaxed) & large) != 0; }

  // ── an inner frame's, `root` a root's too

  [[nodiscard]] task_root* root() noexcept {
    return is_root() ? this : reinterpret_cast<task_root*>(third_.load(std::memory_order_relaxed));
  }
  /// Null for a root.
  [[nodiscard]] promise_base* parent() const noexcept { return is_root() ? nullptr : &caller(); }
  /// The parent, of what is no root.
  [[nodiscard]] promise_base& caller() const noexcept {
    return *reinterpret_cast<promise_base*>(first_.load(std::memory_order_relaxed) & ~std::uintptr_t{1});
  }
  /// True: the stopped path ends here, and the parent goes on.
  [[nodiscard]] bool is_boundary() const noexcept { return !is_root() && (first_.load(std::memory_order_relaxed) & 1) != 0; }
  /// Makes `up` wait for this frame, under the same root.
  void set_parent(promise_base& up, bool boundary) noexcept;

 private:
  friend class ::ergon::operation;
  friend class ::ergon::task_group;
  friend class join_wait;
  friend class scheduler;
  friend class ready_item;
  friend class fork_base;
  friend class frame_walk;

  // The bits of `state_`; references are counted above them.
  static constexpr std::uint32_t locked = 1U << 0U;
  /// `second_` names the operation that the task waits in.
  static constexpr std::uint32_t waiting = 1U << 1U;
  static constexpr std::uint32_t cancel_asked = 1U << 2U;
  static constexpr std::uint32_t was_stopped = 1U << 3U;
  static constexpr std::uint32_t was_unwound = 1U << 4U;
  static constexpr std::uint32_t rooted = 1U << 5U;
  /// Somebody may take the result.
  static constexpr std::uint32_t owned = 1U << 6U;
  /// The task has ended and left the result to its owner.
  static constexpr std::uint32_t handed_over = 1U << 7U;
  /// The memory is not a slab's.
  static constexpr std::uint32_t large = 1U << 8U;
  /// A branch of a fork.
  static constexpr std::uint32_t forked = 1U << 9U;
  /// Some branch of this task waits or has waited.
  static constexpr std::uint32_t has_branches = 1U << 10U;
  static constexpr std::uint32_t reference = 1U << 11U;

  // What `first_` of a root may have beside or instead of an address.
  static constexpr std::uintptr_t ended = 1;
  static constexpr std::uintptr_t called = 2;
  static constexpr std::uintptr_t kept = 4;
  /// Of a branch.
  static constexpr std::uintptr_t counts = called;

  // What `third_` is, by its lowest bits.
  static constexpr std::uintptr_t tag = 3;
  static constexpr std::uintptr_t is_extras = 0;
  static constexpr std::uintptr_t is_index = 1;
  static constexpr std::uintptr_t is_top = 2;

  struct extras;

  void lock() noexcept;
  void unlock(std::uint32_t and_add = 0) noexcept { state_.fetch_add(and_add - locked, std::memory_order_release); }
  /// The wait is over: nobody looks at the operation any more.
  void stop_waiting() noexcept;
  void start() noexcept;
  /// The frame of a root that has not begun and is begun by resuming it, on this thread.
  [[nodiscard]] std::coroutine_handle<> begin_here() noexcept;
  [[nodiscard]] extras* extra() const noexcept;
  extras& make_extra();
  void drop_extra() noexcept;
  void free_memory() noexcept;
  static task_root& top_in_extras(std::uintptr_t word) noexcept;
  void destroy_frame() noexcept;
  void destroy_known_branch() noexcept;
  void publish() noexcept;
  /// Of a called task: the wait of who called it.
  [[nodiscard]] join_wait& joiner() const noexcept;
  /// Of an ended frame; `second_` has the bits of a `std::exception_ptr`, nought if it has none.
  [[nodiscard]] bool has_failure() const noexcept { return second_.load(std::memory_order_relaxed) != 0; }
  [[noreturn]] void throw_failure() const;
  void forget_failure() noexcept;
  /// For a walk: false where it is no root, or one that is going.
  bool retain_if_alive() noexcept;

  // A group's, under its lock.
  void set_group_index(std::size_t index) noexcept;
  [[nodiscard]] std::size_t group_index() const noexcept;

  std::atomic<std::uintptr_t> first_{0};
  std::atomic<std::uintptr_t> second_{0};
  std::atomic<std::uintptr_t> third_{0};
  std::atomic<std::uint32_t> state_{0};
  std::uint16_t name_ = 0;
  std::uint16_t home_ = 0;
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
