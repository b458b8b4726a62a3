// `oneshot<T>`: one value from whoever has it to the task that waits for it: a reply, a promise kept elsewhere.
//
//   auto [sender, receiver] = ergon::make_oneshot<int>();
//   start(std::move(sender));            // some thread or task: sender.send(7)
//   int seven = co_await receiver.receive();
//
// Both ends are moved, not copied, and may belong to different threads. Locking: a spin lock over the value and who has gone.
#pragma once

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

namespace detail {

template <class T>
struct oneshot_state {
  spin_lock lock;
  std::optional<T> value;
  bool sender_gone = false;
  bool receiver_gone = false;
  event settled;
};

}  // namespace detail

template <class T>
class oneshot_receiver;
template <class T>
class oneshot_sender;
template <class T>
  requires std::is_nothrow_move_constructible_v<T>
std::pair<oneshot_sender<T>, oneshot_receiver<T>> make_oneshot();

template <class T>
class oneshot_sender {
 public:
  oneshot_sender(oneshot_sender&&) noexcept = default;
  oneshot_sender& operator=(oneshot_sender&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// A receiver that waits, or will, gets `errc::closed`.
  ~oneshot_sender() {
    if (state_ != nullptr) {
      {
        std::lock_guard const guard(state_->lock);
        state_->sender_gone = true;
      }
      state_->settled.set();
    }
  }

  /// From any thread. False, and `value` untouched, if the receiver has gone. Throws `errc::invalid_argument` on a second call.
  bool send(T&& value) {
    if (state_ == nullptr) {
      throw error(errc::invalid_argument, "a oneshot carries one value, and this sender has sent it or was moved from");
    }
    {
      std::lock_guard const guard(state_->lock);
      if (state_->receiver_gone) {
        return false;
      }
      state_->value.emplace(std::move(value));
    }
    std::exchange(state_, nullptr)->settled.set();
    return true;
  }
  bool send(const T& value)
    requires std::copy_constructible<T>
  {
    return send(T(value));
  }
  /// The receiver has gone: nobody wants the value.
  [[nodiscard]] bool closed() const noexcept {
    if (state_ == nullptr) {
      return true;
    }
    std::lock_guard const guard(state_->lock);
    return state_->receiver_gone;
  }

 private:
  friend std::pair<oneshot_sender<T>, oneshot_receiver<T>> make_oneshot<T>();
  explicit oneshot_sender(std::shared_ptr<detail::oneshot_state<T>> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<detail::oneshot_state<T>> state_;
};

template <class T>
class oneshot_receiver {
 public:
  oneshot_receiver(oneshot_receiver&&) noexcept = default;
  oneshot_receiver& operator=(oneshot_receiver&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~oneshot_receiver() {
    if (state_ != nullptr) {
      std::lock_guard const guard(state_->lock);
      state_->receiver_gone = true;
    }
  }

  /// Waits for the value. Cancellable: then it can be received later. Throws `errc::closed` if the sender has gone without one,
  /// `errc::invalid_argument` if it was received before.
  task<T> receive() {
    if (state_ == nullptr) {
      throw error(errc::invalid_argument, "a oneshot carries one value, and this receiver has it or was moved from");
    }
    co_await state_->settled.wait();
    auto const state = std::move(state_);
    std::lock_guard const guard(state->lock);
    if (!state->value) {
      throw error(errc::closed, "the sender of a oneshot has gone without sending");
    }
    co_return std::move(*state->value);
  }
  /// Nothing if it is not there yet.
  [[nodiscard]] std::optional<T> try_receive() {
    if (state_ == nullptr) {
      return std::nullopt;
    }
    std::lock_guard const guard(state_->lock);
    return std::exchange(state_->value, std::nullopt);
  }

 private:
  friend std::pair<oneshot_sender<T>, oneshot_receiver<T>> make_oneshot<T>();
  explicit oneshot_receiver(std::shared_ptr<detail::oneshot_state<T>> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<detail::oneshot_state<T>> state_;
};

template <class T>
  requires std::is_nothrow_move_constructible_v<T>
std::pair<oneshot_sender<T>, oneshot_receiver<T>> make_oneshot() {
  auto state = std::make_shared<detail::oneshot_state<T>>();
  return {oneshot_sender<T>{state}, oneshot_receiver<T>{std::move(state)}};
}

}  // namespace ergon
