// What every frame of a task carries: the frame that waits for it and the root it runs under. A chain of frames runs on one
// thread at a time; nothing of a promise but its root's part (root.hpp) is shared between threads.
//
// A promise is aligned to at most 16 bytes, so it lies 16 bytes behind the start of its frame (frame.hpp) whatever its type.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/frame.hpp>
#include <ergon/runtime/root.hpp>

// Clang turns symmetric transfer into a jump in every mode. GCC does so only when it optimises, and never under its sanitizers:
// there a transfer goes through the runtime's loop instead.
#if !defined(__clang__) && (!defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define ERGON_TRANSFER_THROUGH_LOOP 1
#else
#define ERGON_TRANSFER_THROUGH_LOOP 0
#endif

namespace ergon::detail {

/// Remembers `next` as what the runtime's loop resumes when the caller has returned to it.
ERGON_EXPORT std::coroutine_handle<> transfer_through_loop(std::coroutine_handle<> next) noexcept;
/// Resumes a chain, under its root, and what it transferred to through the loop.
ERGON_EXPORT void resume_chain(promise_base& leaf, task_root& root) noexcept;
ERGON_EXPORT void resume_chain(promise_base& leaf) noexcept;

inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
#if ERGON_TRANSFER_THROUGH_LOOP
  return transfer_through_loop(next);
#else
  return next;
#endif
}

/// What a task's thread does next when the task has ended.
[[nodiscard]] ERGON_EXPORT std::coroutine_handle<> go_on() noexcept;

class promise_base : public task_root {
 public:
  struct final_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) const noexcept {
      Promise& mine = frame.promise();
      switch (mine.what()) {
        case task_root::kind::frame:
          return transfer(mine.caller().handle());
        case task_root::kind::branch:
          return mine.end_branch();
        case task_root::kind::task:
          break;
      }
      if (mine.is_called()) {
        if (std::coroutine_handle<> const next = mine.end_called()) {
          return next;
        }
      }
      mine.finish();
      if (!mine.hand_over()) {
        mine.drop_result();
        mine.release();
      }
      return go_on();
    }
    void await_resume() const noexcept {}
  };

  promise_base() = default;

  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { set_failure(std::current_exception()); }

  static void* operator new(std::size_t size) { return allocate_frame(size, unknown_alignment); }
  static void operator delete(void* frame, std::size_t size) noexcept { deallocate_frame(frame, size, unknown_alignment); }
  // With -fcoro-aligned-allocation the compiler asks these for every frame, whatever its alignment.
  static void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate_frame(size, static_cast<std::size_t>(alignment));
  }
  static void operator delete(void* frame, std::size_t size, std::align_val_t alignment) noexcept {
    deallocate_frame(frame, size, static_cast<std::size_t>(alignment));
  }

  [[nodiscard]] std::coroutine_handle<> handle() noexcept { return std::coroutine_handle<promise_base>::from_promise(*this); }
  /// What resumes the frame, which says whose it is. The first word of every frame.
  [[nodiscard]] const void* resume_function() noexcept { return *static_cast<const void* const*>(handle().address()); }

 private:
  static constexpr std::size_t unknown_alignment = 16;
};

inline void task_root::set_parent(promise_base& up, bool boundary) noexcept {
  first_.store(reinterpret_cast<std::uintptr_t>(&up) | static_cast<std::uintptr_t>(boundary), std::memory_order_relaxed);
  third_.store(reinterpret_cast<std::uintptr_t>(up.root()), std::memory_order_relaxed);
}

inline void task_root::destroy_frame() noexcept { static_cast<promise_base*>(this)->handle().destroy(); }

/// Where a coroutine leaves its value. Not destroyed with the promise: a root's frame goes when the task ends, its value when the
/// join handle has gone. Whoever takes or drops the value destroys it.
template <class T>
class value_slot {
 public:
  template <class... A>
  void set(A&&... a) {
    ::new (static_cast<void*>(bytes_)) T(std::forward<A>(a)...);
  }
  T take() { return std::move(*get()); }
  void drop() noexcept { std::destroy_at(get()); }

 private:
  T* get() noexcept { return std::launder(reinterpret_cast<T*>(bytes_)); }
  alignas(T) std::byte bytes_[sizeof(T)];
};
// A promise must not be aligned beyond 16 bytes: from its address alone the runtime finds its frame. And its size is a multiple of that:
// clang 19 copies an over-aligned parameter into the frame behind it as plain bytes, and copies it out again as if it was aligned.
template <class T>
  requires(alignof(T) > 16)
class alignas(16) value_slot<T> {
 public:
  template <class... A>
  void set(A&&... a) {
    boxed_ = new T(std::forward<A>(a)...);
  }
  T take() { return std::move(*boxed_); }
  void drop() noexcept { delete boxed_; }

 private:
  T* boxed_;
};
template <class T>
class value_slot<T&> {
 public:
  void set(T& value) noexcept { value_ = &value; }
  T& take() noexcept { return *value_; }
  void drop() noexcept {}

 private:
  T* value_;
};

}  // namespace ergon::detail
