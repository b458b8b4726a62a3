// Where the memory of frames comes from: the quick path of slabs in size classes. Each thread keeps a stack of free blocks per class;
// src/runtime/frame_memory.cpp fills and empties it, and has what is too large for a class.
//
// In sanitizer builds of the library the stacks are never used, and every frame is plain `new`'s.
#pragma once

#include <array>
#include <cstddef>

#include <ergon/base/export.hpp>
#include <ergon/runtime/root.hpp>

namespace ergon::detail {

/// The resume and destroy functions come first in every frame, then the promise.
constexpr std::size_t promise_offset = 16;

struct free_block {
  free_block* next;
};

/// Free blocks of one class. One that is not in use, before a thread's first frame and after its last, is empty and counts as full: so the
/// quick paths need look at nothing else.
struct free_stack {
  static constexpr std::size_t limit = 64;

  free_block* top = nullptr;
  std::size_t count = limit;
};

struct frame_classes {
  static constexpr std::size_t granule = 8;
  static constexpr std::size_t smallest = 48;
  static constexpr std::size_t largest = 1024;
  static constexpr std::size_t count = largest / granule + 1;

  [[nodiscard]] static constexpr bool has(std::size_t size, std::size_t alignment) noexcept {
    return size <= largest && alignment <= 16;
  }
  /// Small frames go by 8 bytes, for a million of them; larger ones by 16, whatever alignment they ask for (see value_slot).
  [[nodiscard]] static constexpr std::size_t of(std::size_t size, std::size_t alignment) noexcept {
    constexpr std::size_t by_eight = 112;
    std::size_t const granules = size <= smallest ? smallest / granule : (size + granule - 1) / granule;
    return alignment <= granule && granules * granule < by_eight ? granules : (granules + 1) / 2 * 2;
  }
};

struct frame_stacks {
  std::array<free_stack, frame_classes::count> by_class;
  enum : unsigned char { fresh, registered, ended } state = fresh;
};
ERGON_EXPORT extern constinit thread_local frame_stacks this_stacks;

ERGON_EXPORT void* allocate_frame_slowly(std::size_t size, std::size_t alignment);
ERGON_EXPORT void deallocate_frame_slowly(void* frame, std::size_t size, std::size_t alignment) noexcept;

/// Memory for a frame, zero where its root's state will be, so that whoever walks the frames takes it for none. Throws `std::bad_alloc`.
inline void* allocate_frame(std::size_t size, std::size_t alignment) {
  if (frame_classes::has(size, alignment)) [[likely]] {
    free_stack& mine = this_stacks.by_class[frame_classes::of(size, alignment)];
    if (free_block* const taken = mine.top) [[likely]] {
      mine.top = taken->next;
      --mine.count;
      return taken;
    }
  }
  return allocate_frame_slowly(size, alignment);
}

/// Puts a block, of a frame that is marked free, on the thread's stack. False: the stack is full, or not in use.
inline bool keep_block(void* frame, std::size_t frame_class) noexcept {
  free_stack& mine = this_stacks.by_class[frame_class];
  if (mine.count == free_stack::limit) [[unlikely]] {
    return false;
  }
  auto* const freed = static_cast<free_block*>(frame);
  freed->next = mine.top;
  mine.top = freed;
  ++mine.count;
  return true;
}

/// Called for every frame that is destroyed; the memory of a root stays until its last reference goes.
inline void deallocate_frame(void* frame, std::size_t size, std::size_t alignment) noexcept {
  if (frame_classes::has(size, alignment)) [[likely]] {
    auto& root = *reinterpret_cast<task_root*>(static_cast<std::byte*>(frame) + promise_offset);
    if (root.is_root()) {
      return;
    }
    root.mark_free();
    if (keep_block(frame, frame_classes::of(size, alignment))) [[likely]] {
      return;
    }
  }
  deallocate_frame_slowly(frame, size, alignment);
}

}  // namespace ergon::detail
