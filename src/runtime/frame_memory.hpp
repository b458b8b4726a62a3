// Memory of coroutine frames, and a walk over the roots among them.
//
// A frame of up to 1 KB lies in a slab: 64 KB at a multiple of that, blocks of one size class, a bit per block that is free. Threads
// keep a stack of free blocks per class and trade them with the slabs a batch at a time, under the lock of the class; so blocks that
// are freed on another thread than they came from find their way back. Pages of a slab on which nothing lives go back to the
// system, also if the slab holds a survivor, and empty slabs do. Slabs are never unmapped: a walk may read the state of any block,
// and what is free has the state nought.
//
// Larger frames and those of over-aligned data come from `new` with a header that links them for the walk; in sanitizer builds
// all do, so that every misuse of a frame is seen.
#pragma once

#include <cstddef>

namespace ergon::detail {

class task_root;

/// A frame becomes a root: from here on a walk finds it.
void list_root(task_root& root) noexcept;

/// Gives back the memory of a root whose frame has been destroyed.
void free_root(task_root& root) noexcept;

/// Calls `visit` for every root that is alive when the walk comes to it, with a reference held meanwhile and no lock. Roots that
/// are made or end during the walk may be missed.
void walk_roots(void (*visit)(task_root&, void* context), void* context) noexcept;

/// What the slabs hold, in bytes: for tests and for those who wonder. Nought in sanitizer builds.
struct frame_usage {
  std::size_t slabs = 0;
  /// The part of them that the system has back and that takes no memory.
  std::size_t released = 0;
};
[[nodiscard]] frame_usage measure_frames() noexcept;

}  // namespace ergon::detail
