#include "broker/redis/entry.hpp"

#include <charconv>

namespace ergon::redis_store {

namespace {

template <class T>
T number_in(std::string_view text) noexcept {
  T read{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), read);
  return problem == std::errc{} && end == text.data() + text.size() ? read : T{};
}

}  // namespace

entry read_entry(redis::value fields) {
  entry out;
  if (!fields.is_aggregate()) return out;
  for (auto at = fields.begin(); at != fields.end(); ++at) {
    const auto name = *at;
    if (++at == fields.end()) break;
    if (!name.is_text() || !at->is_text()) continue;
    const std::string_view value = at->text();
    if (name.text() == "r") {
      out.record = value;
      continue;
    }
    out.is_plain = false;
    if (name.text().size() != 1) continue;
    switch (name.text().front()) {
      case 'i':
        out.serial = value;
        break;
      case 'c':
        out.own_id = value;
        break;
      case 'u':
        out.unique_key = value;
        break;
      case 'e':
        out.errors = value;
        break;
      case 's':
        out.state = value;
        break;
      case 'w':
        out.ending = value;
        break;
      case 'a':
        out.failures = number_in<std::uint32_t>(value);
        break;
      case 'x':
        out.losses = number_in<std::uint32_t>(value);
        break;
      case 'y':
        out.marked_losses = number_in<std::uint32_t>(value);
        break;
      case 'z':
        out.ended_ms = number_in<std::uint64_t>(value);
        break;
      default:
        break;
    }
  }
  return out;
}

record record_of(const entry& of) noexcept {
  record out = decode_record(of.record);
  out.custom_id = of.own_id;
  out.unique_key = of.unique_key;
  out.raw_errors = of.errors;
  out.failures = of.failures;
  out.losses = of.losses;
  out.marked_losses = of.marked_losses;
  if (!of.state.empty()) out.ending = of.ending;
  return out;
}

}  // namespace ergon::redis_store
