// How a call that runs elsewhere ended: nothing yet, a value, or an exception. Lies in the frame that waits for it; the end of the call hands
// it over, so there is no locking here.
#pragma once

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include <ergon/base/export.hpp>

namespace ergon::detail {

template <class T>
struct stored {
  // Where frames are not aligned for it, an over-aligned value needs memory of its own.
  static constexpr bool boxed = alignof(T) > 16;
  using type = std::conditional_t<boxed, std::unique_ptr<T>, T>;
  template <class... A>
  static type make(A&&... a) {
    if constexpr (boxed) {
      return std::make_unique<T>(std::forward<A>(a)...);
    } else {
      return T(std::forward<A>(a)...);
    }
  }
  static T take(type& held) {
    if constexpr (boxed) {
      return std::move(*held);
    } else {
      return std::move(held);
    }
  }
};
template <class T>
struct stored<T&> {
  using type = T*;
  static type make(T& value) { return &value; }
  static T& take(type& held) { return *held; }
};
template <>
struct stored<void> {
  struct type {};
  static type make() { return {}; }
  static void take(type&) {}
};

template <class T>
class outcome {
 public:
  template <class... A>
  void set_value(A&&... a) {
    if constexpr (std::is_same_v<T, typename stored<T>::type>) {
      held_.template emplace<1>(std::forward<A>(a)...);
    } else {
      held_.template emplace<1>(stored<T>::make(std::forward<A>(a)...));
    }
  }
  void set_exception(std::exception_ptr e) noexcept { held_.template emplace<2>(std::move(e)); }

  /// The value, moved out, or the exception, thrown. Not for an empty one.
  T take() {
    if (held_.index() == 2) {
      std::rethrow_exception(std::move(std::get<2>(held_)));
    }
    return stored<T>::take(std::get<1>(held_));
  }

 private:
  std::variant<std::monostate, typename stored<T>::type, std::exception_ptr> held_;
};

}  // namespace ergon::detail
