// The kind of a payload type: the name by which a job says what it is, and so which handler takes it.
//
//   struct resize { std::string path; };                           // kind "resize"
//   struct mail { static constexpr std::string_view kind = "mail:send"; … };
//   struct thumb {                                                 // was called "thumbnail" before the last deploy
//     static constexpr std::array<std::string_view, 1> kind_aliases = {"thumbnail"};
//   };
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <ergon/base/text.hpp>
#include <ergon/codec/type_name.hpp>

namespace ergon {
namespace detail {

// A data member that happens to be called `kind` is not a stated kind.
template <class T>
concept states_kind = requires { &T::kind; } && !std::is_member_pointer_v<decltype(&T::kind)>;

template <class T>
concept states_kind_aliases = requires { &T::kind_aliases; } && !std::is_member_pointer_v<decltype(&T::kind_aliases)>;

template <class T>
consteval std::string_view checked_kind() {
  if constexpr (states_kind<T>) {
    constexpr std::string_view kind = T::kind;
    static_assert(is_name(kind), "ergon: T::kind must be 1 to 128 letters, digits or -_.:/");
    return kind;
  } else {
    static_assert(std::is_class_v<T> || std::is_enum_v<T>,
                  "ergon: a payload needs a kind: use a struct of its own, which may hold this type as a member");
    static_assert(!std::is_class_v<T> || is_name(type_name<T>()),
                  "ergon: the name of this type cannot be a kind (a template, a lambda?): give it a static constexpr "
                  "std::string_view kind");
    return type_name<T>();
  }
}

template <class T>
consteval std::span<const std::string_view> checked_aliases() {
  if constexpr (states_kind_aliases<T>) {
    static_assert(
        [] {
          for (std::string_view alias : T::kind_aliases) {
            if (!is_name(alias)) return false;
          }
          return true;
        }(),
        "ergon: each of T::kind_aliases must be 1 to 128 letters, digits or -_.:/");
    static_assert(
        [] {
          for (std::string_view alias : T::kind_aliases) {
            if (alias == checked_kind<T>()) return false;
          }
          return true;
        }(),
        "ergon: T::kind_aliases must not repeat the kind itself");
    return T::kind_aliases;
  } else {
    return {};
  }
}

}  // namespace detail

/// `T::kind` if T states it, else the unqualified name of the type. Checked at compile time.
template <class T>
[[nodiscard]] constexpr std::string_view kind_of() noexcept {
  return detail::checked_kind<std::remove_cvref_t<T>>();
}

/// The other kinds that the type's handler takes as well: `T::kind_aliases`, usually none. Nothing is enqueued under them.
template <class T>
[[nodiscard]] constexpr std::span<const std::string_view> kind_aliases_of() noexcept {
  return detail::checked_aliases<std::remove_cvref_t<T>>();
}

}  // namespace ergon
