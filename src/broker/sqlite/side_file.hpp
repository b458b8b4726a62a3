// The file beside the database, `<path>-ergon`: what processes that share a store tell each other outside of it.
//
// It is mapped and holds a slot per process. A process owns its slot by an open-file-description lock on one byte, which the
// kernel drops when the process dies, however it dies: that is how others see it gone. A slot has a futex word (the bell), the bits of what
// its process wants to hear of, and whether it waits for the write lock. The write lock is an advisory `flock` around write
// transactions: SQLite's own lock starves (its busy handler sleeps and retries), the kernel's queue does not, and nothing is stale after a kill.
// A caller's own transaction does not take it; behind it stands SQLite's lock and a busy timeout.
//
// All members may be called from any thread, except that `lock`/`try_lock` and `unlock` come in pairs from one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ergon::sqlite {

/// What a process can ask to be told. Queues share the lower bits by their number.
inline constexpr std::uint64_t bell_ended = std::uint64_t{1} << 62;
inline constexpr std::uint64_t bell_due = std::uint64_t{1} << 61;
inline constexpr std::uint64_t bell_revoked = std::uint64_t{1} << 60;
[[nodiscard]] constexpr std::uint64_t bell_queue(std::int64_t queue) noexcept {
  return std::uint64_t{1} << (static_cast<std::uint64_t>(queue) % 60);
}

class side_file {
 public:
  /// Opens or makes it and takes a slot. Throws `errc::unavailable`.
  explicit side_file(const std::string& database);
  side_file(const side_file&) = delete;
  side_file& operator=(const side_file&) = delete;
  ~side_file();

  /// Names this incarnation of the file: a slot of another one says nothing.
  [[nodiscard]] std::int64_t id() const noexcept;
  [[nodiscard]] std::int64_t slot() const noexcept { return slot_; }
  /// Names this use of the slot.
  [[nodiscard]] std::int64_t token() const noexcept { return token_; }
  /// Whether the process that had this use of this slot is there still.
  [[nodiscard]] bool is_held(std::int64_t slot, std::int64_t token) const noexcept;

  /// Read before looking at the store; then `wait` returns at once if the bell has rung since.
  [[nodiscard]] std::uint32_t heard() const noexcept;
  void wait(std::uint32_t heard, std::chrono::nanoseconds at_most) const noexcept;
  /// Says what this process wants to hear of, in place of what it said before, and returns what stood there. A ring takes
  /// back the bits that it was for: those that are missing have rung.
  std::uint64_t want(std::uint64_t bits) noexcept;
  /// Wakes this process.
  void ring_self() noexcept;
  /// Wakes up to `most` other processes that want one of the bits.
  void ring(std::uint64_t bits, std::uint64_t most) noexcept;
  /// Wakes the process of a slot, whatever it wants.
  void ring_slot(std::int64_t slot) noexcept;

  [[nodiscard]] bool try_lock() noexcept;
  void lock() noexcept;
  /// Lets others that wait go first for a moment.
  void unlock() noexcept;

 private:
  struct header;
  struct place;

  void ring(place& whom) noexcept;
  [[nodiscard]] bool others_wait() const noexcept;

  std::string path_;
  int fd_ = -1;
  void* map_ = nullptr;
  header* header_ = nullptr;
  place* places_ = nullptr;
  std::int64_t slot_ = -1;
  std::int64_t token_ = 0;
  /// Where the last ring for a few began, so that the next begins after it.
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace ergon::sqlite
