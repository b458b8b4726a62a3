// How a payload or result becomes bytes: JSON, unless a type says otherwise.
//
//   template <> struct ergon::codec<picture> {
//     static constexpr std::string_view content_type = "image/png";
//     static void encode(const picture&, std::string& out);         // appends
//     static picture decode(std::string_view bytes);                // throws ergon::error (bad_payload)
//   };
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <ergon/codec/json.hpp>

namespace ergon {

/// Bytes that travel as they are. A `std::string` is text and travels as a JSON string.
struct raw_bytes {
  std::string bytes;

  friend bool operator==(const raw_bytes&, const raw_bytes&) = default;
};

/// The customisation point. `encode` appends and leaves `out` as it was where it throws; `decode` throws `errc::bad_payload`.
/// Both are called from any thread.
template <class T>
struct codec {
  static constexpr std::string_view content_type = "application/json";
  static void encode(const T& value, std::string& out) { to_json(value, out); }
  [[nodiscard]] static T decode(std::string_view bytes) { return from_json<T>(bytes); }
};

template <>
struct codec<raw_bytes> {
  static constexpr std::string_view content_type = "application/octet-stream";
  static void encode(const raw_bytes& value, std::string& out) { out += value.bytes; }
  [[nodiscard]] static raw_bytes decode(std::string_view bytes) { return {std::string{bytes}}; }
};

/// The result of a handler that returns nothing: written as `null`; whatever is there is not looked at.
template <>
struct codec<void> {
  static constexpr std::string_view content_type = "application/json";
  static void encode(std::string& out) { out += "null"; }
  static void decode(std::string_view /*bytes*/) {}
};

template <class T>
concept encodable = requires(const T& value, std::string& out, std::string_view bytes) {
  codec<T>::encode(value, out);
  { codec<T>::decode(bytes) } -> std::same_as<T>;
};

}  // namespace ergon
