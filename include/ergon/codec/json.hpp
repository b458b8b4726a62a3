// Typed JSON. A struct that is described once with Boost.Describe can be written and read:
//
//   struct resize { std::string path; int width = 800; };
//   BOOST_DESCRIBE_STRUCT(resize, (), (path, width))
//
//   std::string bytes = ergon::to_json(resize{"a.png"});          // {"path":"a.png","width":800}
//   auto job = ergon::from_json<resize>(R"({"path":"b.png"})");   // width is 800
//
// | C++ | JSON |
// |---|---|
// | described struct, bases first | object; members of any access that are described |
// | `bool`, integers, `float`, `double` | true/false, number; an integer never from 1.0 or 1e3, a real number always finite |
// | `std::string` | string, UTF-8 in both directions |
// | described enum; other enum | string with the enumerator's name; number |
// | `std::optional`, `std::unique_ptr`, `std::shared_ptr` | the value, or null |
// | `std::vector`, `std::deque`, `std::list`, sets; `std::array`, `std::pair`, `std::tuple` | array; of exactly that length |
// | `std::map`, `std::unordered_map` with `std::string` keys | object |
// | `std::chrono::duration` | number: the count in the type's own unit (a `milliseconds` of 1500 is 1500) |
// | `std::chrono::sys_time`, so `ergon::wall_time` | string, RFC 3339 |
// | `std::monostate` | null |
//
// Reading: a field that is missing keeps the default of its member, unless the type requires it (`required_fields`); a nested
// object begins with the defaults of its own type. A null is a value of its type or an error. Fields that the type does not have
// are ignored, or refused with `json_options::strict`; of a repeated field the last one counts. A type of one's own that is none
// of these specialises `ergon::json_value`.
#pragma once

#include <array>
#include <boost/describe/bases.hpp>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>
#include <ergon/codec/json_reader.hpp>
#include <ergon/codec/json_writer.hpp>
#include <ergon/codec/type_name.hpp>

namespace ergon {

/// How a type is written and read: `static void write(json_writer&, const T&)` writes one value, `static void read(json_reader&,
/// T&)` takes one value and assigns it; what `T` held before must not show.
template <class T>
struct json_value {
  static_assert(!std::same_as<T, T>,
                "ergon: this type has no JSON form: describe it with BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_ENUM, or specialise "
                "ergon::json_value");
};

namespace detail {

template <class T>
concept states_required_fields = requires { &T::required_fields; } && !std::is_member_pointer_v<decltype(&T::required_fields)>;

template <class T>
consteval auto stated_required_fields() {
  if constexpr (states_required_fields<T>) {
    return T::required_fields;
  } else {
    return std::array<std::string_view, 0>{};
  }
}

}  // namespace detail

/// The fields of T that must be present when it is read. Either the struct says so itself
/// (`static constexpr std::array<std::string_view, 1> required_fields = {"path"};`) or this is specialised for it.
template <class T>
inline constexpr auto required_fields = detail::stated_required_fields<T>();

namespace detail {

template <class T>
concept described_struct =
    std::is_class_v<T> && boost::describe::has_describe_bases<T>::value && boost::describe::has_describe_members<T>::value;

template <class T>
concept described_enum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;

template <class T>
concept json_integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8;

template <class T>
concept map_like = requires(T& map) {
  typename T::key_type;
  typename T::mapped_type;
  map.clear();
  map.insert_or_assign(std::declval<typename T::key_type>(), std::declval<typename T::mapped_type>());
};

template <class T>
concept sequence_like = std::ranges::input_range<T> && !map_like<T> && requires(T& sequence) {
  typename T::value_type;
  sequence.clear();
} && !std::same_as<T, std::string>;

template <class T>
concept pointer_like =
    requires { typename T::element_type; } &&
    (std::same_as<T, std::unique_ptr<typename T::element_type>> || std::same_as<T, std::shared_ptr<typename T::element_type>>) &&
    !std::is_const_v<typename T::element_type>;

template <std::size_t N>
struct fixed_text {
  char bytes[N];
  [[nodiscard]] constexpr std::string_view view() const { return {bytes, N}; }
};

// `,"name":` at compile time: one append per member.
template <class Descriptor>
inline constexpr auto field_text = [] {
  constexpr std::string_view name = Descriptor::name;
  fixed_text<name.size() + 4> out{};
  std::size_t i = 0;
  out.bytes[i++] = ',';
  out.bytes[i++] = '"';
  for (char c : name) out.bytes[i++] = c;
  out.bytes[i++] = '"';
  out.bytes[i++] = ':';
  return out;
}();

template <class List>
struct members;

template <template <class...> class List, class... Descriptors>
struct members<List<Descriptors...>> {
  static constexpr std::size_t count = sizeof...(Descriptors);
  static constexpr std::array<std::string_view, count> names = {Descriptors::name...};

  static constexpr std::size_t index_of(std::string_view name, std::size_t guess) noexcept {
    if (guess < count && names[guess] == name) return guess;
    for (std::size_t i = 0; i < count; ++i) {
      if (names[i] == name) return i;
    }
    return count;
  }

  // Calls `f.operator()<Descriptor, index>()` for each member.
  template <class F>
  static void each(F f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f.template operator()<Descriptors, I>(), ...);
    }(std::make_index_sequence<count>{});
  }
  // Calls it for the member with that index.
  template <class F>
  static void one(std::size_t index, F f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      static_cast<void>(((index == I && (f.template operator()<Descriptors, I>(), true)) || ...));
    }(std::make_index_sequence<count>{});
  }
};

template <class T>
using members_of =
    members<boost::describe::describe_members<T, boost::describe::mod_any_access | boost::describe::mod_inherited>>;

template <class T>
consteval bool requires_only_members() {
  for (std::string_view required : required_fields<T>) {
    if (members_of<T>::index_of(required, 0) == members_of<T>::count) return false;
  }
  return true;
}

template <class Sequence>
void write_array(json_writer& out, const Sequence& value) {
  json_writer::scope scope{out};
  out.literal('[');
  std::size_t i = 0;
  for (const auto& element : value) {
    scope.at(i);
    if (i++ != 0) out.literal(',');
    json_value<typename Sequence::value_type>::write(out, element);
  }
  out.literal(']');
}

template <class Tuple>
void write_tuple(json_writer& out, const Tuple& value) {
  json_writer::scope scope{out};
  out.literal('[');
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((scope.at(I), I == 0 ? void() : out.literal(','),
      json_value<std::tuple_element_t<I, Tuple>>::write(out, std::get<I>(value))),
     ...);
  }(std::make_index_sequence<std::tuple_size_v<Tuple>>{});
  out.literal(']');
}

template <class Tuple>
void read_tuple(json_reader& in, Tuple& value) {
  constexpr std::size_t size = std::tuple_size_v<Tuple>;
  in.begin_array();
  const auto fail = [&] {
    in.fail("expected an array of exactly " + std::to_string(size) + (size == 1 ? " element" : " elements"));
  };
  std::size_t i = 0;
  while (in.next_element()) {
    if (i == size) fail();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      static_cast<void>(((i == I && (json_value<std::tuple_element_t<I, Tuple>>::read(in, std::get<I>(value)), true)) || ...));
    }(std::make_index_sequence<size>{});
    ++i;
  }
  if (i != size) fail();
}

}  // namespace detail

template <>
struct json_value<bool> {
  static void write(json_writer& out, bool value) { out.boolean(value); }
  static void read(json_reader& in, bool& value) { value = in.boolean(); }
};

template <detail::json_integer T>
struct json_value<T> {
  static void write(json_writer& out, T value) {
    if constexpr (std::is_signed_v<T>) {
      out.integer(value);
    } else {
      out.unsigned_integer(value);
    }
  }
  static void read(json_reader& in, T& value) {
    if constexpr (std::is_signed_v<T>) {
      value = static_cast<T>(in.integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    } else {
      value = static_cast<T>(in.unsigned_integer(std::numeric_limits<T>::max()));
    }
  }
};

template <>
struct json_value<double> {
  static void write(json_writer& out, double value) { out.real(value); }
  static void read(json_reader& in, double& value) { value = in.real(); }
};

template <>
struct json_value<float> {
  static void write(json_writer& out, float value) { out.real(value); }
  static void read(json_reader& in, float& value) { value = in.real_float(); }
};

template <>
struct json_value<std::string> {
  static void write(json_writer& out, const std::string& value) { out.text(value); }
  static void read(json_reader& in, std::string& value) { value = in.text(); }
};

/// Written like `std::string`. It cannot be read: nothing would own the bytes.
template <>
struct json_value<std::string_view> {
  static void write(json_writer& out, std::string_view value) { out.text(value); }
};

template <>
struct json_value<std::monostate> {
  static void write(json_writer& out, std::monostate /*value*/) { out.literal("null"); }
  static void read(json_reader& in, std::monostate& /*value*/) {
    if (!in.null()) in.fail_expected("null");
  }
};

template <detail::described_enum T>
struct json_value<T> {
  static void write(json_writer& out, T value) {
    [&]<template <class...> class List, class... Es>(List<Es...>) {
      const bool known = ((value == Es::value && (out.text(Es::name), true)) || ...);
      if (!known)
        out.fail("the enumeration has no name for " + std::to_string(static_cast<long long>(std::to_underlying(value))));
    }(boost::describe::describe_enumerators<T>{});
  }
  static void read(json_reader& in, T& value) {
    [&]<template <class...> class List, class... Es>(List<Es...>) {
      const auto expected = [] {
        std::string names;
        ((names += names.empty() ? "one of " : ", ", names += Es::name), ...);
        return names;
      };
      if (in.peek() != json_reader::type::text) in.fail_expected(expected());
      const std::string_view name = in.text();
      const bool known = ((name == Es::name && (value = Es::value, true)) || ...);
      if (!known) in.fail_expected(expected());
    }(boost::describe::describe_enumerators<T>{});
  }
};

template <class T>
  requires std::is_enum_v<T> && (!detail::described_enum<T>)
struct json_value<T> {
  using number = std::underlying_type_t<T>;
  static void write(json_writer& out, T value) { json_value<number>::write(out, std::to_underlying(value)); }
  static void read(json_reader& in, T& value) {
    number read{};
    json_value<number>::read(in, read);
    value = static_cast<T>(read);
  }
};

template <class T>
struct json_value<std::optional<T>> {
  static void write(json_writer& out, const std::optional<T>& value) {
    if (value) {
      json_value<T>::write(out, *value);
    } else {
      out.literal("null");
    }
  }
  static void read(json_reader& in, std::optional<T>& value) {
    if (in.null()) {
      value.reset();
    } else {
      if (!value) value.emplace();
      json_value<T>::read(in, *value);
    }
  }
};

template <detail::pointer_like T>
struct json_value<T> {
  using element = typename T::element_type;
  static void write(json_writer& out, const T& value) {
    if (value) {
      json_value<element>::write(out, *value);
    } else {
      out.literal("null");
    }
  }
  static void read(json_reader& in, T& value) {
    if (in.null()) {
      value.reset();
      return;
    }
    auto read = std::make_unique<element>();
    json_value<element>::read(in, *read);
    value = std::move(read);
  }
};

template <detail::sequence_like T>
struct json_value<T> {
  using element = typename T::value_type;
  static void write(json_writer& out, const T& value) { detail::write_array(out, value); }
  static void read(json_reader& in, T& value) {
    value.clear();
    in.begin_array();
    while (in.next_element()) {
      if constexpr (requires {
                      { value.emplace_back() } -> std::same_as<element&>;
                    }) {
        json_value<element>::read(in, value.emplace_back());
      } else {
        element read{};
        json_value<element>::read(in, read);
        value.insert(value.end(), std::move(read));
      }
    }
  }
};

template <detail::map_like T>
struct json_value<T> {
  static_assert(std::same_as<typename T::key_type, std::string>, "ergon: the keys of a JSON object are strings");
  using element = typename T::mapped_type;
  static void write(json_writer& out, const T& value) {
    json_writer::scope scope{out};
    out.literal('{');
    bool first = true;
    for (const auto& [key, element_value] : value) {
      scope.at(key);
      if (!first) out.literal(',');
      first = false;
      out.text(key);
      out.literal(':');
      json_value<element>::write(out, element_value);
    }
    out.literal('}');
  }
  static void read(json_reader& in, T& value) {
    value.clear();
    in.begin_object();
    std::string_view key;
    while (in.next_field(key)) {
      element read{};
      json_value<element>::read(in, read);
      value.insert_or_assign(std::string{key}, std::move(read));
    }
  }
};

template <class T, std::size_t N>
struct json_value<std::array<T, N>> {
  static void write(json_writer& out, const std::array<T, N>& value) { detail::write_array(out, value); }
  static void read(json_reader& in, std::array<T, N>& value) {
    const auto fail = [&] { in.fail("expected an array of exactly " + std::to_string(N) + (N == 1 ? " element" : " elements")); };
    in.begin_array();
    std::size_t i = 0;
    for (; in.next_element(); ++i) {
      if (i == N) fail();
      json_value<T>::read(in, value[i]);
    }
    if (i != N) fail();
  }
};

template <class First, class Second>
struct json_value<std::pair<First, Second>> {
  static void write(json_writer& out, const std::pair<First, Second>& value) { detail::write_tuple(out, value); }
  static void read(json_reader& in, std::pair<First, Second>& value) { detail::read_tuple(in, value); }
};

template <class... Ts>
struct json_value<std::tuple<Ts...>> {
  static void write(json_writer& out, const std::tuple<Ts...>& value) { detail::write_tuple(out, value); }
  static void read(json_reader& in, std::tuple<Ts...>& value) { detail::read_tuple(in, value); }
};

template <class Count, class Period>
struct json_value<std::chrono::duration<Count, Period>> {
  using span = std::chrono::duration<Count, Period>;
  static void write(json_writer& out, const span& value) { json_value<Count>::write(out, value.count()); }
  static void read(json_reader& in, span& value) {
    Count count{};
    json_value<Count>::read(in, count);
    value = span{count};
  }
};

namespace detail {
ERGON_EXPORT void write_time(json_writer& out, wall_time at);
[[nodiscard]] ERGON_EXPORT wall_time read_time(json_reader& in);
}  // namespace detail

/// Between 1678 and 2261, which is what `wall_time` holds. Read into a coarser unit it is rounded down.
template <class Duration>
struct json_value<std::chrono::sys_time<Duration>> {
  using point = std::chrono::sys_time<Duration>;
  static void write(json_writer& out, const point& value) {
    if constexpr (std::same_as<point, wall_time>) {
      detail::write_time(out, value);
    } else {
      // Compared in the coarser unit: as nanoseconds the value might overflow.
      if (value <= std::chrono::floor<Duration>(wall_time::min()) || value > std::chrono::floor<Duration>(wall_time::max())) {
        out.fail("the time is not between 1678 and 2261");
      }
      detail::write_time(out, value);
    }
  }
  static void read(json_reader& in, point& value) { value = std::chrono::floor<Duration>(detail::read_time(in)); }
};

template <detail::described_struct T>
struct json_value<T> {
  using members = detail::members_of<T>;
  static_assert(detail::requires_only_members<T>(), "ergon: required_fields names a field that is not described");

  static void write(json_writer& out, const T& value) {
    json_writer::scope scope{out};
    out.literal('{');
    members::each([&]<class Member, std::size_t Index>() {
      using type = std::remove_cvref_t<decltype(value.*Member::pointer)>;
      scope.at(members::names[Index]);
      out.literal(detail::field_text<Member>.view().substr(Index == 0 ? 1 : 0));
      json_value<type>::write(out, value.*Member::pointer);
    });
    out.literal('}');
  }

  static void read(json_reader& in, T& value) {
    static_assert(std::is_default_constructible_v<T>,
                  "ergon: a struct that is read from JSON needs a default constructor: missing fields keep its values");
    value = T{};
    fill(in, value);
  }

  /// Like `read` into a value that is known to be fresh.
  static void fill(json_reader& in, T& value) {
    in.begin_object();
    std::array<bool, members::count == 0 ? 1 : members::count> seen{};
    std::string_view name;
    std::size_t guess = 0;
    while (in.next_field(name)) {
      const std::size_t index = members::index_of(name, guess);
      if (index == members::count) {
        if (in.options().strict) in.fail_unknown_field(members::names);
        in.skip();
        continue;
      }
      seen[index] = true;
      guess = index + 1;
      members::one(index, [&]<class Member, std::size_t Index>() {
        using type = std::remove_cvref_t<decltype(value.*Member::pointer)>;
        json_value<type>::read(in, value.*Member::pointer);
      });
    }
    for (std::string_view required : required_fields<T>) {
      if (!seen[members::index_of(required, 0)]) in.fail_missing_field(required);
    }
  }
};

namespace detail {

template <class T>
consteval std::string_view root_name() {
  if constexpr (described_struct<T>) {
    constexpr std::string_view name = type_name<T>();
    return name.substr(0, name.find('<'));
  } else {
    return "value";
  }
}

}  // namespace detail

/// Appends `value` to `out`. Throws `errc::bad_payload` naming the path of what JSON cannot hold: a NaN or an infinity, text that
/// is not UTF-8, an enumerator without a name, more than 64 levels; `out` is then what it was.
template <class T>
void to_json(const T& value, std::string& out) {
  const std::size_t before = out.size();
  try {
    json_writer writer{out, detail::root_name<T>()};
    json_value<T>::write(writer, value);
  } catch (...) {
    out.resize(before);
    throw;
  }
}

template <class T>
[[nodiscard]] std::string to_json(const T& value) {
  std::string out;
  to_json(value, out);
  return out;
}

/// Reads the one value that `bytes` must hold. Throws `errc::bad_payload` with the path of what does not fit:
/// `resize.width: expected an integer from 0 to 65535, got a string "x"`.
template <class T>
[[nodiscard]] T from_json(std::string_view bytes, const json_options& options = {}) {
  T value{};
  json_reader reader{bytes, detail::root_name<T>(), options};
  if constexpr (detail::described_struct<T>) {
    json_value<T>::fill(reader, value);
  } else {
    json_value<T>::read(reader, value);
  }
  reader.finish();
  return value;
}

}  // namespace ergon
