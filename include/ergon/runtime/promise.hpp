// What every frame of a task carries: the frame that waits for it and the root it runs under. A chain of frames runs on one
// thread at a time; nothing in a promise is shared between threads.
//
// A frame's memory comes from per-thread size classes (from plain `new` in sanitizer builds). A promise is aligned to at most
// 16 bytes, so it lies 16 bytes behind the start of its frame whatever its type.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <new>

#include <ergon/base/export.hpp>

// Clang turns symmetric transfer into a jump in every mode. GCC does so only when it optimises, and never under its sanitizers:
// there a transfer goes through the runtime's loop instead.
#if !defined(__clang__) && (!defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define ERGON_TRANSFER_THROUGH_LOOP 1
#else
#define ERGON_TRANSFER_THROUGH_LOOP 0
#endif

namespace ergon::detail {

class task_root;
class promise_base;

ERGON_EXPORT void* allocate_frame(std::size_t size);
ERGON_EXPORT void deallocate_frame(void* frame, std::size_t size) noexcept;
/// Takes the result of a root's outermost frame, destroys the frame and tells whoever joins.
ERGON_EXPORT void finish_root(promise_base& outermost) noexcept;
/// Remembers `next` as what the runtime's loop resumes when the caller has returned to it.
ERGON_EXPORT std::coroutine_handle<> transfer_through_loop(std::coroutine_handle<> next) noexcept;
/// Resumes a chain and what it transferred to through the loop.
ERGON_EXPORT void resume_chain(std::coroutine_handle<> frame) noexcept;
/// Prints the text and ends the process: for misuse that cannot be reported to anyone.
[[noreturn]] ERGON_EXPORT void fatal(const char* text) noexcept;

inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
#if ERGON_TRANSFER_THROUGH_LOOP
  return transfer_through_loop(next);
#else
  return next;
#endif
}

class promise_base {
 public:
  struct final_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) const noexcept {
      promise_base& mine = frame.promise();
      if (promise_base* up = mine.parent()) {
        return transfer(up->handle());
      }
      finish_root(mine);
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  promise_base() = default;
  promise_base(const promise_base&) = delete;
  promise_base& operator=(const promise_base&) = delete;

  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }

  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { deallocate_frame(frame, size); }
  // With -fcoro-aligned-allocation the compiler asks these for every frame, whatever its alignment.
  static void* operator new(std::size_t size, std::align_val_t alignment) {
    return alignment <= block_alignment ? allocate_frame(size) : ::operator new(size, alignment);
  }
  static void operator delete(void* frame, std::size_t size, std::align_val_t alignment) noexcept {
    if (alignment <= block_alignment) {
      deallocate_frame(frame, size);
    } else {
      ::operator delete(frame, alignment);
    }
  }

  [[nodiscard]] std::coroutine_handle<> handle() noexcept { return std::coroutine_handle<promise_base>::from_promise(*this); }
  [[nodiscard]] task_root* root() const noexcept { return root_; }
  [[nodiscard]] promise_base* parent() const noexcept { return reinterpret_cast<promise_base*>(parent_ & ~std::uintptr_t{1}); }
  /// True: the stopped path ends here, and the parent goes on.
  [[nodiscard]] bool is_boundary() const noexcept { return (parent_ & 1) != 0; }

  void set_root(task_root* root) noexcept { root_ = root; }
  /// Makes `up` wait for this frame, under the same root.
  void set_parent(promise_base& up, bool boundary) noexcept {
    root_ = up.root_;
    parent_ = reinterpret_cast<std::uintptr_t>(&up) | static_cast<std::uintptr_t>(boundary);
  }

 private:
  static constexpr auto block_alignment = std::align_val_t{16};

  task_root* root_ = nullptr;
  std::uintptr_t parent_ = 0;
};

}  // namespace ergon::detail
