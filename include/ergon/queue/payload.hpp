// Between a payload type and what is stored: its kind, its own default options, its bytes. The one place of the queue that knows
// the codec.
//
// A payload is a struct that the codec knows (see ergon/codec/codec.hpp). It may state its kind, old names, and options:
//
//   struct resize {
//     std::string path;
//     static constexpr std::string_view kind = "image:resize";
//     static ergon::job_options defaults() { return {.queue = "images", .max_retries = 3}; }
//   };
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/codec/codec.hpp>
#include <ergon/codec/kind.hpp>
#include <ergon/queue/job_options.hpp>

namespace ergon::detail {

/// Notes that a kind belongs to a type, in this process. Throws `errc::duplicate_kind` where it belongs to another.
ERGON_EXPORT void claim_kind(std::string_view kind, const std::type_info& type);

/// The kind of a payload, claimed on first use.
template <class Payload>
std::string_view claimed_kind() {
  static const bool claimed = (claim_kind(kind_of<Payload>(), typeid(Payload)), true);
  static_cast<void>(claimed);
  return kind_of<Payload>();
}

/// What a handler's kind is called.
struct kind_names {
  std::string kind;
  std::vector<std::string> aliases;
};
template <class Payload>
kind_names names_of() {
  kind_names names{.kind = std::string{kind_of<Payload>()}, .aliases = {}};
  for (std::string_view alias : kind_aliases_of<Payload>()) names.aliases.emplace_back(alias);
  return names;
}

template <class Payload>
const job_options* kind_defaults() {
  if constexpr (requires {
                  { Payload::defaults() } -> std::convertible_to<job_options>;
                }) {
    static const job_options defaults = Payload::defaults();
    return &defaults;
  } else {
    return nullptr;
  }
}

template <class Payload>
void encode_payload(const Payload& payload, std::string& out) {
  static_assert(
      encodable<Payload>,
      "ergon: the codec does not know this payload: describe it with BOOST_DESCRIBE_STRUCT, or specialise ergon::codec");
  codec<Payload>::encode(payload, out);
}
template <class Payload>
std::string encoded(const Payload& payload) {
  std::string out;
  encode_payload(payload, out);
  return out;
}

/// A conversion that calls `make`, so that what it makes is made in place.
template <class Make>
struct made_by {
  Make make;
  operator std::invoke_result_t<Make>() { return make(); }  // NOLINT(google-explicit-constructor)
};
template <class Make>
made_by(Make) -> made_by<Make>;

/// False: `bytes` are no such payload, and `why` says where.
template <class Payload>
bool decode_payload(std::string_view bytes, bool strict, std::optional<Payload>& out, std::string& why) {
  static_assert(
      encodable<Payload>,
      "ergon: the codec does not know this payload: describe it with BOOST_DESCRIBE_STRUCT, or specialise ergon::codec");
  try {
    out.emplace(made_by{[&]() -> Payload {
      if constexpr (described_struct<Payload>) {
        if (strict && codec<Payload>::content_type == "application/json") return from_json<Payload>(bytes, {.strict = true});
      }
      return codec<Payload>::decode(bytes);
    }});
    return true;
  } catch (const std::exception& e) {
    why = "the payload does not fit: ";
    why += e.what();
    return false;
  }
}

template <class Result>
void encode_result(const Result& result, std::string& out) {
  static_assert(encodable<Result>, "ergon: the codec does not know this result");
  codec<Result>::encode(result, out);
}
template <class Result>
Result decode_result(std::string_view bytes) {
  return codec<Result>::decode(bytes);
}

}  // namespace ergon::detail
