// `semaphore`: a count of permits that tasks wait for, first come, first served. Any thread releases.
//
// Locking: a spin lock over count and waiters. A released permit is handed to the oldest waiter under it; waking happens after.
#pragma once

#include <cstddef>
#include <utility>

#include <ergon/base/export.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/wait_list.hpp>

namespace ergon {

class ERGON_EXPORT semaphore {
 public:
  explicit semaphore(std::size_t permits) noexcept : permits_(permits) {}
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;
  /// Nobody waits any more.
  ~semaphore();

  /// Holds permits and gives them back when it goes, on the stopped path too.
  class [[nodiscard]] permit {
   public:
    permit() noexcept = default;
    permit(permit&& other) noexcept : from_(std::exchange(other.from_, nullptr)), count_(std::exchange(other.count_, 0)) {}
    permit& operator=(permit&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(count_, other.count_);
      return *this;
    }
    ~permit() { give_back(); }
    explicit operator bool() const noexcept { return from_ != nullptr; }
    void give_back() noexcept {
      if (from_ != nullptr) {
        std::exchange(from_, nullptr)->release(std::exchange(count_, 0));
      }
    }
    /// Keeps the permits taken: somebody calls `semaphore::release` for them.
    void forget() noexcept { from_ = nullptr; }

   private:
    friend class semaphore;
    permit(semaphore& from, std::size_t count) noexcept : from_(&from), count_(count) {}
    semaphore* from_ = nullptr;
    std::size_t count_ = 0;
  };

  class ERGON_EXPORT acquire_operation final : public detail::listed_operation {
   public:
    acquire_operation(semaphore& on, std::size_t count) noexcept : semaphore_(&on), count_(count) {}
    permit await_resume() const noexcept { return permit{*semaphore_, count_}; }

   private:
    friend class semaphore;
    bool arm() noexcept override;
    bool disarm() noexcept override;
    semaphore* semaphore_;
    std::size_t count_;
  };

  /// `auto held = co_await s.acquire();` Waits until `count` permits are free and everybody who came before has theirs.
  /// Cancellable.
  [[nodiscard]] acquire_operation acquire(std::size_t count = 1) noexcept { return {*this, count}; }
  /// An empty permit if too few are free or somebody waits.
  [[nodiscard]] permit try_acquire(std::size_t count = 1) noexcept;
  /// Adds permits.
  void release(std::size_t count = 1) noexcept;
  [[nodiscard]] std::size_t available() const noexcept;

 private:
  bool take(std::size_t count) noexcept;
  void hand_out() noexcept;

  mutable detail::spin_lock lock_;
  std::size_t permits_;
  detail::wait_list waiters_;
};

}  // namespace ergon
