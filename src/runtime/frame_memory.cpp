// See frame_memory.hpp. Lock order: a class's lock before that of the stock of slabs.
#include "runtime/frame_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
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

constinit thread_local frame_stacks this_stacks{};

namespace {

task_root& root_in(void* frame) noexcept {
  return *reinterpret_cast<task_root*>(static_cast<std::byte*>(frame) + promise_offset);
}
void* frame_of(task_root& root) noexcept { return reinterpret_cast<std::byte*>(&root) - promise_offset; }

constexpr std::size_t walk_batch = 64;

// ── large frames

// Before each large frame. The links are kept inverted: a leak checker must not take them for references. A serial of nought: it stands in
// no list.
struct large_header {
  std::uintptr_t next;
  std::uintptr_t previous;
  std::uint64_t serial;
  std::uint64_t alignment;
};
static_assert(sizeof(large_header) == 32);

struct large_shard {
  spin_lock lock;
  large_header* first = nullptr;
  std::uint64_t serial = 0;
};
constinit std::array<large_shard, 16> large_shards;

std::uintptr_t hidden(large_header* header) noexcept { return ~reinterpret_cast<std::uintptr_t>(header); }
large_header* shown(std::uintptr_t link) noexcept { return reinterpret_cast<large_header*>(~link); }
large_shard& shard_of(large_header* header) noexcept {
  return large_shards[(reinterpret_cast<std::uintptr_t>(header) >> 6U) % large_shards.size()];
}

void* allocate_large(std::size_t size, std::size_t alignment) {
  alignment = std::max<std::size_t>(alignment, 16);
  std::size_t const before = std::max(alignment, sizeof(large_header));
  auto* const start = static_cast<std::byte*>(::operator new(before + size, std::align_val_t{alignment}));
  std::byte* const frame = start + before;
  std::memset(frame, 0, std::min(size, promise_offset + sizeof(task_root)));
  *(reinterpret_cast<large_header*>(frame) - 1) = {0, 0, 0, alignment};
  return frame;
}

void list_large(void* frame) noexcept {
  auto* const header = static_cast<large_header*>(frame) - 1;
  large_shard& shard = shard_of(header);
  std::lock_guard const guard(shard.lock);
  header->next = hidden(shard.first);
  header->previous = hidden(nullptr);
  header->serial = ++shard.serial;
  if (shard.first != nullptr) {
    shard.first->previous = hidden(header);
  }
  shard.first = header;
}

void free_large(void* frame) noexcept {
  auto* const header = static_cast<large_header*>(frame) - 1;
  large_shard& shard = shard_of(header);
  std::size_t const alignment = header->alignment;
  if (header->serial != 0) {
    std::lock_guard const guard(shard.lock);
    large_header* const next = shown(header->next);
    large_header* const previous = shown(header->previous);
    if (previous != nullptr) {
      previous->next = hidden(next);
    } else {
      shard.first = next;
    }
    if (next != nullptr) {
      next->previous = hidden(previous);
    }
  }
  ::operator delete(static_cast<std::byte*>(frame) - std::max(alignment, sizeof(large_header)), std::align_val_t{alignment});
}

}  // namespace

/// Finds living roots for a walk, under the lock that keeps their memory.
class frame_walk {
 public:
  frame_walk(void (*visit)(task_root&, void*), void* context) noexcept : visit_(visit), context_(context) {}

  /// From the newest to the oldest of a list, by serial: what is freed between two batches does not break the thread.
  void walk_large() noexcept {
    for (large_shard& shard : large_shards) {
      for (std::uint64_t below = ~std::uint64_t{0}; below != 0;) {
        {
          std::lock_guard const guard(shard.lock);
          large_header* at = shard.first;
          while (at != nullptr && at->serial >= below) {
            at = shown(at->next);
          }
          for (; at != nullptr && !full(); at = shown(at->next)) {
            below = at->serial;
            keep(root_in(at + 1));
          }
          if (at == nullptr) {
            below = 0;
          }
        }
        visit_all();
      }
    }
  }

  void keep(task_root& root) noexcept {
    if (root.retain_if_alive()) {
      found_[count_++] = &root;
    }
  }
  [[nodiscard]] bool full() const noexcept { return count_ == walk_batch; }
  void visit_all() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      visit_(*found_[i], context_);
      found_[i]->release();
    }
    count_ = 0;
  }

 private:
  void (*visit_)(task_root&, void*);
  void* context_;
  std::array<task_root*, walk_batch> found_{};
  std::size_t count_ = 0;
};

#if ERGON_PLAIN_FRAMES

void* allocate_frame_slowly(std::size_t size, std::size_t alignment) { return allocate_large(size, alignment); }

void list_root(task_root& root) noexcept { list_large(frame_of(root)); }

void deallocate_frame_slowly(void* frame, std::size_t /*size*/, std::size_t /*alignment*/) noexcept {
  if (!root_in(frame).is_root()) {
    free_large(frame);
  }
}

void free_root(task_root& root) noexcept { free_large(frame_of(root)); }

void walk_roots(void (*visit)(task_root&, void*), void* context) noexcept { frame_walk{visit, context}.walk_large(); }

frame_usage measure_frames() noexcept { return {}; }

#else

namespace {

constexpr std::size_t granule = frame_classes::granule;
constexpr std::size_t classes = frame_classes::count;
constexpr std::size_t page = 4096;
constexpr std::size_t slab_size = std::size_t{64} * 1024;
constexpr std::size_t slab_pages = slab_size / page;
constexpr std::size_t segment_size = std::size_t{4} << 20U;
constexpr std::size_t batch = 32;
static_assert(free_stack::limit == 2 * batch);
constexpr std::size_t words = (slab_size / frame_classes::smallest + 63) / 64;

struct slab {
  slab* next;
  slab* previous;
  /// Atomic for the walk alone, which reads it before it has the lock of the class.
  std::atomic<std::uint32_t> block_size;
  std::uint32_t count;
  std::uint32_t used;
  /// Something was freed since pages were last looked for.
  bool freed;
  /// Words below have no free block.
  std::uint32_t first_word;
  /// Pages that were given back, a bit each.
  std::uint32_t given_back;
  bool listed;
  std::array<std::uint64_t, words> free;

  std::byte* blocks() noexcept;
  [[nodiscard]] std::byte* at(std::size_t index) noexcept {
    return blocks() + index * block_size.load(std::memory_order_relaxed);
  }
};
constexpr std::size_t slab_header = (sizeof(slab) + 15) / 16 * 16;
static_assert(slab_header < page);
std::byte* slab::blocks() noexcept { return reinterpret_cast<std::byte*>(this) + slab_header; }

slab& slab_of(void* frame) noexcept {
  return *reinterpret_cast<slab*>(reinterpret_cast<std::uintptr_t>(frame) & ~(slab_size - 1));
}

// Slabs of one class that have a free block.
struct size_class {
  spin_lock lock;
  slab* partial = nullptr;
  /// Wholly free ones among them.
  std::uint32_t idle = 0;
  /// Bytes freed and not taken again since pages were last given back.
  std::size_t freed = 0;
};
constinit std::array<size_class, classes> shelves;

// Every segment that was ever mapped, and which of its slabs are empty, a bit each: a list through them would touch their pages.
constexpr std::size_t slabs_per_segment = segment_size / slab_size;
static_assert(slabs_per_segment == 64);
struct segment {
  std::byte* start;
  std::uint64_t empty;
};
struct stock_of_slabs {
  spin_lock lock;
  /// Segments below have no empty slab.
  std::size_t first = 0;
  std::atomic<std::size_t> count{0};
  std::array<segment, 16384> segments{};
};
constinit stock_of_slabs stock;

// False: the memory keeps what was in it, as it does in a process that locks its pages.
bool give_back(std::byte* from, std::size_t size) noexcept { return ::madvise(from, size, MADV_DONTNEED) == 0; }

// False: the system has no memory.
bool map_segment() noexcept {
  std::size_t const at = stock.count.load(std::memory_order_relaxed);
  if (at == stock.segments.size()) {
    return false;
  }
  // A slab more, to cut out what is aligned.
  constexpr std::size_t size = segment_size + slab_size;
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return false;
  }
  // A page that is touched must not become two megabytes of them.
  ::madvise(mapped, size, MADV_NOHUGEPAGE);
  auto const start = (reinterpret_cast<std::uintptr_t>(mapped) + slab_size - 1) & ~(slab_size - 1);
  stock.segments[at] = {reinterpret_cast<std::byte*>(start), ~std::uint64_t{0}};
  stock.count.store(at + 1, std::memory_order_release);
  return true;
}

// Null: the system has no memory.
slab* new_slab() noexcept {
  std::lock_guard const guard(stock.lock);
  for (;; ++stock.first) {
    if (stock.first == stock.count.load(std::memory_order_relaxed) && !map_segment()) {
      return nullptr;
    }
    segment& from = stock.segments[stock.first];
    if (from.empty != 0) {
      auto const index = static_cast<std::size_t>(std::countr_zero(from.empty));
      from.empty &= from.empty - 1;
      return reinterpret_cast<slab*>(from.start + index * slab_size);
    }
  }
}

void give_slab_back(slab& one) noexcept {
  one.block_size.store(0, std::memory_order_relaxed);
  if (!give_back(reinterpret_cast<std::byte*>(&one), slab_size)) {
    // Another class's blocks begin elsewhere: where their states will be there may stand anything.
    std::memset(static_cast<void*>(&one), 0, slab_size);
  }
  std::lock_guard const guard(stock.lock);
  auto* const at = reinterpret_cast<std::byte*>(&one);
  // There are few segments, and this is rare.
  for (std::size_t i = 0;; ++i) {
    segment& in = stock.segments[i];
    if (at >= in.start && at < in.start + segment_size) {
      in.empty |= std::uint64_t{1} << (static_cast<std::size_t>(at - in.start) / slab_size);
      stock.first = std::min(stock.first, i);
      return;
    }
  }
}

void link(size_class& shelf, slab& one) noexcept {
  one.previous = nullptr;
  one.next = shelf.partial;
  if (shelf.partial != nullptr) {
    shelf.partial->previous = &one;
  }
  shelf.partial = &one;
  one.listed = true;
}
void unlink(size_class& shelf, slab& one) noexcept {
  (one.previous != nullptr ? one.previous->next : shelf.partial) = one.next;
  if (one.next != nullptr) {
    one.next->previous = one.previous;
  }
  one.listed = false;
}

// All from here to the end of the namespace: under the lock of the class.

slab* slab_with_room(size_class& shelf, std::size_t index) noexcept {
  if (shelf.partial != nullptr) {
    return shelf.partial;
  }
  slab* const made = new_slab();
  if (made == nullptr) {
    return nullptr;
  }
  std::size_t const size = index * granule;
  made->count = static_cast<std::uint32_t>((slab_size - slab_header) / size);
  made->used = made->first_word = made->given_back = 0;
  made->freed = false;
  for (std::size_t w = 0; w < words; ++w) {
    std::size_t const before = w * 64;
    made->free[w] = before + 64 <= made->count ? ~std::uint64_t{0}
                    : before < made->count     ? (std::uint64_t{1} << (made->count - before)) - 1
                                               : 0;
  }
  made->block_size.store(static_cast<std::uint32_t>(size), std::memory_order_release);
  ++shelf.idle;
  link(shelf, *made);
  return made;
}

std::uint32_t pages_of(slab& one, std::size_t index) noexcept {
  std::size_t const size = one.block_size.load(std::memory_order_relaxed);
  std::size_t const begin = slab_header + index * size;
  std::size_t const first = begin / page;
  std::size_t const last = (begin + size - 1) / page;
  return static_cast<std::uint32_t>((1U << (last + 1)) - (1U << first));
}

void* take_block(slab& one) noexcept {
  while (one.free[one.first_word] == 0) {
    ++one.first_word;
  }
  std::uint64_t& word = one.free[one.first_word];
  std::size_t const index = one.first_word * 64U + static_cast<std::size_t>(std::countr_zero(word));
  word &= word - 1;
  ++one.used;
  one.given_back &= ~pages_of(one, index);
  return one.at(index);
}

bool all_free(const slab& one, std::size_t first, std::size_t last) noexcept {
  for (std::size_t i = first; i <= last;) {
    std::size_t const bit = i % 64;
    std::size_t const some = std::min<std::size_t>(64 - bit, last - i + 1);
    std::uint64_t const mask = (some == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << some) - 1) << bit;
    if ((one.free[i / 64] & mask) != mask) {
      return false;
    }
    i += some;
  }
  return true;
}

// Gives back the pages on which nothing lives.
void trim(slab& one) noexcept {
  one.freed = false;
  std::size_t const size = one.block_size.load(std::memory_order_relaxed);
  std::size_t run = 0;
  const auto flush = [&](std::size_t end) {
    if (run != 0) {
      static_cast<void>(give_back(reinterpret_cast<std::byte*>(&one) + (end - run) * page, run * page));
      run = 0;
    }
  };
  // The first page has the header.
  for (std::size_t p = 1; p < slab_pages; ++p) {
    std::size_t const first = (p * page - slab_header) / size;
    std::size_t const last = std::min<std::size_t>((p * page + page - 1 - slab_header) / size, one.count - 1);
    bool const bare = (one.given_back & (1U << p)) == 0 && first < one.count && all_free(one, first, last);
    if (!bare) {
      flush(p);
      continue;
    }
    one.given_back |= 1U << p;
    ++run;
  }
  flush(slab_pages);
}

// What a class keeps for the next tasks, so that a steady coming and going makes no system calls.
constexpr std::uint32_t idle_slabs_kept = 8;
constexpr std::size_t freed_kept = idle_slabs_kept * slab_size;

void put_block(size_class& shelf, void* frame) noexcept {
  slab& one = slab_of(frame);
  std::size_t const size = one.block_size.load(std::memory_order_relaxed);
  std::size_t const index = static_cast<std::size_t>(static_cast<std::byte*>(frame) - one.blocks()) / size;
  one.free[index / 64] |= std::uint64_t{1} << (index % 64);
  one.first_word = std::min(one.first_word, static_cast<std::uint32_t>(index / 64));
  one.freed = true;
  shelf.freed += size;
  if (!one.listed) {
    link(shelf, one);
  }
  if (--one.used == 0 && ++shelf.idle > idle_slabs_kept) {
    --shelf.idle;
    unlink(shelf, one);
    give_slab_back(one);
  }
}

void trim_class(size_class& shelf) noexcept {
  shelf.freed = 0;
  for (slab* one = shelf.partial; one != nullptr; one = one->next) {
    if (one->freed) {
      trim(*one);
    }
  }
}

void spill(std::size_t index, free_block* chain) noexcept {
  size_class& shelf = shelves[index];
  std::lock_guard const guard(shelf.lock);
  while (chain != nullptr) {
    free_block* const next = chain->next;
    put_block(shelf, chain);
    chain = next;
  }
  if (shelf.freed > freed_kept) {
    trim_class(shelf);
  }
}

/// The calling thread keeps no free blocks back.
void flush_frames() noexcept {
  for (std::size_t i = 0; i < classes; ++i) {
    free_block* const chain = this_stacks.by_class[i].top;
    this_stacks.by_class[i] = {};
    if (chain != nullptr) {
      spill(i, chain);
    }
  }
}

struct at_thread_end {
  ~at_thread_end() {
    flush_frames();
    this_stacks.state = frame_stacks::ended;
  }
};

// False once the thread's stacks are gone: other thread-local destructors may still free frames.
bool use_stacks() noexcept {
  if (this_stacks.state == frame_stacks::fresh) {
    thread_local at_thread_end const flush;
    static_cast<void>(&flush);
    this_stacks.state = frame_stacks::registered;
  }
  return this_stacks.state == frame_stacks::registered;
}

void* refill(std::size_t index) {
  size_class& shelf = shelves[index];
  bool const keeps = use_stacks();
  std::size_t const wanted = keeps ? batch : 1;
  free_block* first = nullptr;
  free_block** end = &first;
  std::size_t got = 0;
  {
    std::lock_guard const guard(shelf.lock);
    while (got < wanted) {
      slab* const from = slab_with_room(shelf, index);
      if (from == nullptr) {
        break;
      }
      if (from->used == 0) {
        --shelf.idle;
      }
      for (; got < wanted && from->used < from->count; ++got) {
        auto* const taken = static_cast<free_block*>(take_block(*from));
        *end = taken;
        end = &taken->next;
      }
      if (from->used == from->count) {
        unlink(shelf, *from);
      }
    }
    *end = nullptr;
    shelf.freed -= std::min(shelf.freed, got * index * granule);
  }
  if (first == nullptr) {
    throw std::bad_alloc();
  }
  if (keeps) {
    this_stacks.by_class[index] = {first->next, got - 1};
  }
  return first;
}

[[gnu::noinline]] void free_slowly(std::size_t index, free_block* freed) noexcept {
  free_stack& mine = this_stacks.by_class[index];
  if (!use_stacks()) {
    freed->next = nullptr;
    spill(index, freed);
    return;
  }
  if (mine.top == nullptr) {
    freed->next = nullptr;
    mine = {freed, 1};
    return;
  }
  // The newest stay, their memory is warm.
  free_block* last = mine.top;
  for (std::size_t i = 1; i < batch; ++i) {
    last = last->next;
  }
  free_block* const rest = last->next;
  last->next = nullptr;
  freed->next = mine.top;
  mine = {freed, batch + 1};
  spill(index, rest);
}

/// Of every segment that there is, the empty ones too, without a lock.
template <class F>
void for_each_slab(F visit) {
  std::size_t const segments = stock.count.load(std::memory_order_acquire);
  for (std::size_t s = 0; s < segments; ++s) {
    for (std::size_t i = 0; i < slabs_per_segment; ++i) {
      visit(*reinterpret_cast<slab*>(stock.segments[s].start + i * slab_size));
    }
  }
}

}  // namespace

// A slab's blocks are found as they are.
void list_root(task_root&) noexcept {}

namespace {

void* allocate_large_and_list(std::size_t size, std::size_t alignment) {
  void* const frame = allocate_large(size, alignment);
  list_large(frame);
  return frame;
}
void let_go_large(void* frame) noexcept {
  task_root& root = root_in(frame);
  if (root.is_root()) {
    root.mark_large();
  } else {
    free_large(frame);
  }
}

}  // namespace

void* allocate_frame_slowly(std::size_t size, std::size_t alignment) {
  return frame_classes::has(size, alignment) ? refill(frame_classes::of(size, alignment))
                                             : allocate_large_and_list(size, alignment);
}

void deallocate_frame_slowly(void* frame, std::size_t size, std::size_t alignment) noexcept {
  if (frame_classes::has(size, alignment)) {
    free_slowly(frame_classes::of(size, alignment), static_cast<free_block*>(frame));
  } else {
    let_go_large(frame);
  }
}

void free_root(task_root& root) noexcept {
  void* const frame = frame_of(root);
  if (root.is_large()) [[unlikely]] {
    free_large(frame);
    return;
  }
  root.mark_free();
  std::size_t const index = slab_of(frame).block_size.load(std::memory_order_relaxed) / granule;
  if (!keep_block(frame, index)) {
    free_slowly(index, static_cast<free_block*>(frame));
  }
}

void walk_roots(void (*visit)(task_root&, void*), void* context) noexcept {
  frame_walk walk{visit, context};
  for_each_slab([&](slab& one) {
    for (std::size_t next = 0;;) {
      std::size_t const size = one.block_size.load(std::memory_order_acquire);
      if (size == 0) {
        return;
      }
      {
        // The slab may have become another class's meanwhile; then its blocks are looked at with that class's lock.
        std::lock_guard const guard(shelves[size / granule].lock);
        if (one.block_size.load(std::memory_order_relaxed) != size) {
          continue;
        }
        for (; next < one.count && !walk.full(); ++next) {
          if ((one.free[next / 64] & (std::uint64_t{1} << (next % 64))) == 0) {
            walk.keep(root_in(one.at(next)));
          }
        }
      }
      bool const all = !walk.full();
      walk.visit_all();
      if (all) {
        return;
      }
    }
  });
  walk.walk_large();
}

frame_usage measure_frames() noexcept {
  frame_usage sum;
  for_each_slab([&](slab& one) {
    sum.slabs += slab_size;
    std::size_t const size = one.block_size.load(std::memory_order_acquire);
    if (size == 0) {
      sum.released += slab_size;
      return;
    }
    std::lock_guard const guard(shelves[size / granule].lock);
    sum.released += static_cast<std::size_t>(std::popcount(one.given_back)) * page;
  });
  return sum;
}

#endif

}  // namespace ergon::detail
