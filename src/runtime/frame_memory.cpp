// Memory of coroutine frames and root blocks, by size class.
//
// Each thread keeps a stack of free blocks per class; no lock. A stack that grows past two batches gives one batch to the depot, an
// empty one takes a batch from there, so blocks that are freed on another thread than they came from find their way back. The
// depot holds a bounded number of batches per class and gives the rest back to the allocator: a burst does not stay. A spin
// lock per class guards the depot. A thread that ends gives all it has back. Sanitizer builds use plain `new` throughout, so that
// every misuse of a frame is seen.
#include <array>
#include <cstddef>
#include <mutex>
#include <new>

#include <ergon/runtime/promise.hpp>
#include <ergon/runtime/spin_lock.hpp>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ERGON_PLAIN_FRAMES 1
#endif
#endif
#if !defined(ERGON_PLAIN_FRAMES) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define ERGON_PLAIN_FRAMES 1
#endif
#ifndef ERGON_PLAIN_FRAMES
#define ERGON_PLAIN_FRAMES 0
#endif

namespace ergon::detail {

#if ERGON_PLAIN_FRAMES

void* allocate_frame(std::size_t size) { return ::operator new(size); }
void deallocate_frame(void* frame, std::size_t size) noexcept { ::operator delete(frame, size); }

#else

namespace {

constexpr std::size_t granule = 16;
constexpr std::size_t largest = 1024;
constexpr std::size_t classes = largest / granule;
constexpr std::size_t batch = 64;
constexpr std::size_t depot_bytes = std::size_t{256} * 1024;

struct block {
  block* next;
  // Only in the first block of a batch in the depot.
  block* next_batch;
};
static_assert(sizeof(block) <= granule);

struct depot_class {
  spin_lock lock;
  block* batches = nullptr;
  std::size_t count = 0;
};
constinit std::array<depot_class, classes> depot;

struct free_stack {
  block* top;
  std::size_t count;
};

struct thread_stacks {
  std::array<free_stack, classes> by_class;
  enum : unsigned char { fresh, registered, ended } state;
};
constinit thread_local thread_stacks stacks{};

constexpr std::size_t size_of(std::size_t index) { return (index + 1) * granule; }

void free_chain(block* chain, std::size_t size) noexcept {
  while (chain != nullptr) {
    block* const next = chain->next;
    ::operator delete(chain, size);
    chain = next;
  }
}

struct at_thread_end {
  ~at_thread_end() {
    for (std::size_t i = 0; i < classes; ++i) {
      free_chain(stacks.by_class[i].top, size_of(i));
      stacks.by_class[i] = {};
    }
    stacks.state = thread_stacks::ended;
  }
};

// False once the thread's stacks are gone: other thread-local destructors may still free frames.
bool use_stacks() noexcept {
  if (stacks.state == thread_stacks::fresh) {
    thread_local at_thread_end const flush;
    static_cast<void>(&flush);
    stacks.state = thread_stacks::registered;
  }
  return stacks.state == thread_stacks::registered;
}

[[gnu::noinline]] void* refill(std::size_t index) {
  if (use_stacks()) {
    depot_class& shelf = depot[index];
    block* taken = nullptr;
    {
      std::lock_guard const guard(shelf.lock);
      if (shelf.batches != nullptr) {
        taken = shelf.batches;
        shelf.batches = taken->next_batch;
        --shelf.count;
      }
    }
    if (taken != nullptr) {
      stacks.by_class[index] = {taken->next, batch - 1};
      return taken;
    }
  }
  return ::operator new(size_of(index));
}

[[gnu::noinline]] void spill(std::size_t index, block* freed) noexcept {
  std::size_t const size = size_of(index);
  if (!use_stacks()) {
    ::operator delete(freed, size);
    return;
  }
  free_stack& mine = stacks.by_class[index];
  if (mine.count < 2 * batch) {
    freed->next = mine.top;
    mine = {freed, mine.count + 1};
    return;
  }
  // `freed` and the next ones of the stack make the batch.
  freed->next = mine.top;
  block* last = freed;
  for (std::size_t i = 1; i < batch; ++i) {
    last = last->next;
  }
  mine = {last->next, mine.count + 1 - batch};
  last->next = nullptr;
  depot_class& shelf = depot[index];
  {
    std::lock_guard const guard(shelf.lock);
    if ((shelf.count + 1) * batch * size <= depot_bytes) {
      freed->next_batch = shelf.batches;
      shelf.batches = freed;
      ++shelf.count;
      return;
    }
  }
  free_chain(freed, size);
}

}  // namespace

void* allocate_frame(std::size_t size) {
  if (size > largest) [[unlikely]] {
    return ::operator new(size);
  }
  std::size_t const index = (size - 1) / granule;
  free_stack& mine = stacks.by_class[index];
  if (mine.top != nullptr) [[likely]] {
    block* const taken = mine.top;
    mine.top = taken->next;
    --mine.count;
    return taken;
  }
  return refill(index);
}

void deallocate_frame(void* frame, std::size_t size) noexcept {
  if (size > largest) [[unlikely]] {
    ::operator delete(frame, size);
    return;
  }
  std::size_t const index = (size - 1) / granule;
  free_stack& mine = stacks.by_class[index];
  block* const freed = static_cast<block*>(frame);
  if (mine.count < 2 * batch && stacks.state == thread_stacks::registered) [[likely]] {
    freed->next = mine.top;
    mine.top = freed;
    ++mine.count;
    return;
  }
  spill(index, freed);
}

#endif

}  // namespace ergon::detail
