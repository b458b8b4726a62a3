// `channel<T>`: a bounded queue between tasks, any number of senders and receivers on any threads. First come, first served on
// both sides; closing lets receivers drain what is in it.
//
// Locking: a spin lock guards the ring and both lists of waiters; nothing but moves of `T` happens under it, which must not
// throw. Whoever takes a waiter out moves the value to or from it under the lock and wakes it afterwards.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/wait_list.hpp>

namespace ergon {

template <class T>
  requires std::is_nothrow_move_constructible_v<T>
class channel {
 public:
  /// Holds up to `capacity` values; 0 makes every sender wait for its receiver.
  explicit channel(std::size_t capacity) : capacity_(capacity), slots_(std::allocator<slot>{}.allocate(ring())) {}
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  /// Nobody waits any more. What is in it is destroyed.
  ~channel() {
    if (!senders_.empty() || !receivers_.empty()) {
      detail::fatal("ergon: a channel was destroyed while tasks wait for it");
    }
    while (size_ != 0) {
      static_cast<void>(take_front());
    }
    std::allocator<slot>{}.deallocate(slots_, ring());
  }

  class send_operation final : public detail::listed_operation {
   public:
    send_operation(channel& to, T&& value) noexcept : channel_(&to), value_(std::move(value)) {}
    ~send_operation() = default;
    /// Throws `errc::closed` if the channel was closed before the value was in.
    void await_resume() {
      if (peer_ != nullptr) {
        peer_->wake();
      }
      if (refused_) {
        throw error(errc::closed, "the channel was closed: it takes no more values");
      }
    }
    [[nodiscard]] std::error_code early_error() const noexcept {
      return refused_ ? make_error_code(errc::closed) : std::error_code{};
    }

   private:
    friend class channel;
    bool arm() noexcept override { return channel_->send_or_wait(*this, true); }
    bool try_now() noexcept override { return !channel_->send_or_wait(*this, false); }
    bool disarm() noexcept override { return channel_->disarm(channel_->senders_, *this); }
    channel* channel_;
    T value_;
    // A receiver that this sender served without waiting; woken once our own root's lock is free.
    detail::listed_operation* peer_ = nullptr;
    bool refused_ = false;
  };

  class receive_operation final : public detail::listed_operation {
   public:
    explicit receive_operation(channel& from) noexcept : channel_(&from) {}
    ~receive_operation() = default;
    /// Nothing: the channel is closed and empty.
    std::optional<T> await_resume() noexcept {
      if (peer_ != nullptr) {
        peer_->wake();
      }
      return std::move(value_);
    }

   private:
    friend class channel;
    bool arm() noexcept override { return channel_->receive_or_wait(*this, true); }
    bool try_now() noexcept override { return !channel_->receive_or_wait(*this, false); }
    bool disarm() noexcept override { return channel_->disarm(channel_->receivers_, *this); }
    channel* channel_;
    std::optional<T> value_;
    // The sender whose value came in for the one that was taken.
    detail::listed_operation* peer_ = nullptr;
  };

  /// `co_await c.send(v);` waits for room. Cancellable: then the value was not sent.
  [[nodiscard]] send_operation send(T value) noexcept { return send_operation{*this, std::move(value)}; }
  /// `std::optional<T> v = co_await c.receive();` waits for a value, or for the end. Cancellable: then no value was taken.
  [[nodiscard]] receive_operation receive() noexcept { return receive_operation{*this}; }

  /// False, and `value` untouched, if there is no room or it is closed.
  [[nodiscard]] bool try_send(T& value) noexcept {
    receive_operation* served = nullptr;
    {
      std::lock_guard const guard(lock_);
      if (closed_) {
        return false;
      }
      served = static_cast<receive_operation*>(receivers_.pop_front());
      if (served != nullptr) {
        served->value_.emplace(std::move(value));
      } else if (size_ < capacity_) {
        put_back(std::move(value));
      } else {
        return false;
      }
    }
    if (served != nullptr) {
      served->wake();
    }
    return true;
  }
  /// Nothing if it is empty.
  [[nodiscard]] std::optional<T> try_receive() noexcept {
    std::optional<T> value;
    send_operation* relieved = nullptr;
    {
      std::lock_guard const guard(lock_);
      relieved = take(value);
    }
    if (relieved != nullptr) {
      relieved->wake();
    }
    return value;
  }

  /// Senders that wait and later ones fail with `errc::closed`; receivers get what is in it, then nothing. Idempotent.
  void close() noexcept {
    detail::listed_operation* senders = nullptr;
    detail::listed_operation* receivers = nullptr;
    {
      std::lock_guard const guard(lock_);
      closed_ = true;
      senders = senders_.take_all();
      for (auto* s = senders; s != nullptr; s = detail::wait_list::next_of(*s)) {
        static_cast<send_operation*>(s)->refused_ = true;
      }
      receivers = receivers_.take_all();
    }
    // Whoever runs first may destroy the channel: so none is queued before all are released.
    detail::wait_list::release_all(senders);
    detail::wait_list::release_all(receivers);
    detail::wait_list::queue_all(senders);
    detail::wait_list::queue_all(receivers);
  }
  [[nodiscard]] bool closed() const noexcept {
    std::lock_guard const guard(lock_);
    return closed_;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    std::lock_guard const guard(lock_);
    return size_;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  struct slot {
    alignas(T) std::byte bytes[sizeof(T)];
    T* value() noexcept { return std::launder(reinterpret_cast<T*>(bytes)); }
  };

  [[nodiscard]] std::size_t ring() const noexcept { return capacity_ != 0 ? capacity_ : 1; }

  // All under the lock.
  void put_back(T&& value) noexcept {
    std::size_t const at = first_ + size_;
    ::new (static_cast<void*>(slots_[at < ring() ? at : at - ring()].bytes)) T(std::move(value));
    ++size_;
  }
  T take_front() noexcept {
    T* const front = slots_[first_].value();
    T value = std::move(*front);
    std::destroy_at(front);
    first_ = first_ + 1 == ring() ? 0 : first_ + 1;
    --size_;
    return value;
  }
  // The oldest value, and the sender whose value came in for it or was it.
  send_operation* take(std::optional<T>& value) noexcept {
    auto* const sender = static_cast<send_operation*>(senders_.front());
    if (size_ == 0) {
      if (sender == nullptr) {
        return nullptr;
      }
      value.emplace(std::move(sender->value_));
    } else {
      value.emplace(take_front());
      if (sender == nullptr) {
        return nullptr;
      }
      put_back(std::move(sender->value_));
    }
    senders_.remove(*sender);
    return sender;
  }

  // True: it has to wait, and stands in the list if it `may`.
  bool send_or_wait(send_operation& op, bool may) noexcept {
    std::lock_guard const guard(lock_);
    if (closed_) {
      op.refused_ = true;
      return false;
    }
    if (auto* const served = static_cast<receive_operation*>(receivers_.pop_front())) {
      served->value_.emplace(std::move(op.value_));
      op.peer_ = served;
      return false;
    }
    if (size_ < capacity_) {
      put_back(std::move(op.value_));
      return false;
    }
    if (may) {
      senders_.push_back(op);
    }
    return true;
  }
  bool receive_or_wait(receive_operation& op, bool may) noexcept {
    std::lock_guard const guard(lock_);
    op.peer_ = take(op.value_);
    if (op.value_.has_value() || closed_) {
      return false;
    }
    if (may) {
      receivers_.push_back(op);
    }
    return true;
  }
  bool disarm(detail::wait_list& list, detail::listed_operation& op) noexcept {
    std::lock_guard const guard(lock_);
    return list.remove(op);
  }

  mutable detail::patient_lock lock_;
  std::size_t capacity_;
  slot* slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  bool closed_ = false;
  detail::wait_list senders_;
  detail::wait_list receivers_;
};

}  // namespace ergon
