#include "broker/sqlite/side_file.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <cstring>

#include <new>

#include <fmt/format.h>

#include <ergon/base/error.hpp>

namespace ergon::sqlite {

struct side_file::header {
  std::uint64_t magic;
  std::int64_t id;
};

struct alignas(64) side_file::place {
  /// The bell.
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> waits_for_lock;
  std::atomic<std::uint64_t> wants;
  std::atomic<std::int64_t> token;
};

namespace {

constexpr std::uint64_t magic = 0x31656469736e6772;  // "rgnside1"
constexpr std::int64_t slots = 256;
constexpr std::size_t places_at = 64;
constexpr std::size_t file_size = places_at + std::size_t{slots} * 64;
/// The locked byte of slot 0; beyond the content, where nothing else is locked.
constexpr off_t lock_at = 1 << 20;
/// The byte that is locked while the file is made or a slot is taken.
constexpr std::int64_t making_place = -1;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

std::int64_t random_number() noexcept {
  std::int64_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value & LLONG_MAX;
}

struct flock byte_lock(short kind, std::int64_t slot) noexcept {
  struct flock what{};
  what.l_type = kind;
  what.l_whence = SEEK_SET;
  what.l_start = lock_at + slot;
  what.l_len = 1;
  return what;
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) noexcept {
  // Shared between processes, so not the private variant.
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

side_file::side_file(const std::string& database) : path_{database + "-ergon"} {
  const auto refuse = [this](const char* what) {
    const int why = errno;
    if (map_ != nullptr) {
      ::munmap(map_, file_size);
    }
    if (fd_ >= 0) {
      ::close(fd_);
    }
    throw error{why == ENOSPC ? errc::store_full : errc::unavailable,
                fmt::format("cannot {} \"{}\", which the processes of the store share: {}", what, path_, std::strerror(why))};
  };
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    refuse("open");
  }
  // Not the write lock: a newcomer must not wait for whoever writes.
  auto making = byte_lock(F_WRLCK, making_place);
  while (::fcntl(fd_, F_OFD_SETLKW, &making) != 0) {
    if (errno != EINTR) {
      refuse("lock");
    }
  }
  struct stat info{};
  // Its blocks must be there before it is mapped: writing to a hole of a full disk would kill the process.
  if (::fstat(fd_, &info) != 0 ||
      (static_cast<std::size_t>(info.st_size) < file_size && (errno = ::posix_fallocate(fd_, 0, file_size)) != 0)) {
    refuse("make");
  }
  map_ = ::mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map_ == MAP_FAILED) {
    map_ = nullptr;
    refuse("map");
  }
  header_ = static_cast<header*>(map_);
  places_ = reinterpret_cast<place*>(static_cast<char*>(map_) + places_at);
  if (header_->magic != magic) {
    std::memset(map_, 0, file_size);
    header_->id = random_number();
    header_->magic = magic;
  }
  for (std::int64_t i = 0; i < slots && slot_ < 0; ++i) {
    auto lock = byte_lock(F_WRLCK, i);
    if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) {
      slot_ = i;
    }
  }
  if (slot_ < 0) {
    errno = EUSERS;
    refuse("find a place in");
  }
  token_ = random_number();
  place& mine = places_[slot_];
  mine.wants.store(0, std::memory_order_relaxed);
  mine.waits_for_lock.store(0, std::memory_order_relaxed);
  mine.token.store(token_, std::memory_order_release);
  making.l_type = F_UNLCK;
  ::fcntl(fd_, F_OFD_SETLK, &making);
}

side_file::~side_file() {
  places_[slot_].wants.store(0, std::memory_order_relaxed);
  places_[slot_].token.store(0, std::memory_order_release);
  ::munmap(map_, file_size);
  ::close(fd_);
}

std::int64_t side_file::id() const noexcept { return header_->id; }

bool side_file::is_held(std::int64_t slot, std::int64_t token) const noexcept {
  if (slot < 0 || slot >= slots || places_[slot].token.load(std::memory_order_acquire) != token) {
    return false;
  }
  if (slot == slot_) {
    return true;
  }
  auto lock = byte_lock(F_WRLCK, slot);
  return ::fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::uint32_t side_file::heard() const noexcept { return places_[slot_].word.load(std::memory_order_acquire); }

void side_file::wait(std::uint32_t heard, std::chrono::nanoseconds at_most) const noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  futex(places_[slot_].word, FUTEX_WAIT, heard, &timeout);
}

std::uint64_t side_file::want(std::uint64_t bits) noexcept {
  return places_[slot_].wants.exchange(bits, std::memory_order_seq_cst);
}

void side_file::ring(place& whom) noexcept {
  whom.word.fetch_add(1, std::memory_order_seq_cst);
  futex(whom.word, FUTEX_WAKE, INT_MAX, nullptr);
}

void side_file::ring_self() noexcept { ring(places_[slot_]); }

void side_file::ring(std::uint64_t bits, std::uint64_t most) noexcept {
  const std::uint32_t start = turn_.load(std::memory_order_relaxed);
  std::uint64_t rung = 0;
  for (std::uint32_t i = 0; i < slots && rung < most; ++i) {
    const auto at = (start + i) % slots;
    if (static_cast<std::int64_t>(at) == slot_) {
      continue;
    }
    place& other = places_[at];
    if ((other.wants.load(std::memory_order_seq_cst) & bits) != 0) {
      other.wants.fetch_and(~bits, std::memory_order_seq_cst);
      ring(other);
      ++rung;
      turn_.store(at + 1, std::memory_order_relaxed);
    }
  }
}

void side_file::ring_slot(std::int64_t slot) noexcept {
  if (slot >= 0 && slot < slots) {
    ring(places_[slot]);
  }
}

bool side_file::try_lock() noexcept { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

void side_file::lock() noexcept {
  if (try_lock()) {
    return;
  }
  place& mine = places_[slot_];
  mine.waits_for_lock.store(1, std::memory_order_release);
  // Should the kernel refuse, SQLite's own lock still stands behind it.
  while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
  mine.waits_for_lock.store(0, std::memory_order_release);
}

bool side_file::others_wait() const noexcept {
  for (std::int64_t i = 0; i < slots; ++i) {
    if (i != slot_ && places_[i].waits_for_lock.load(std::memory_order_acquire) != 0) {
      return true;
    }
  }
  return false;
}

void side_file::unlock() noexcept {
  ::flock(fd_, LOCK_UN);
  // The kernel wakes a waiter but does not hand the lock to it: whoever runs could take it again at once, for ever. A process that was killed
  // while it waited leaves its flag up until its slot is used again, hence the bound.
  for (int i = 0; i < 4 && others_wait(); ++i) {
    ::sched_yield();
  }
  for (int i = 0; i < 4 && others_wait(); ++i) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 50'000};
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace ergon::sqlite
