#include "broker/redis/serial.hpp"

#include <charconv>

#include <fmt/format.h>

namespace ergon::redis_store {

namespace {

constexpr unsigned ms_bits = 48;
constexpr unsigned number_bits = 56;
constexpr std::uint64_t most_ms = (std::uint64_t{1} << ms_bits) - 1;
constexpr std::uint64_t most_number = (std::uint64_t{1} << number_bits) - 1;
constexpr std::uint64_t own_bit = std::uint64_t{1} << 63U;

}  // namespace

std::optional<serial> parse_serial(std::string_view text) noexcept {
  serial read;
  const char* const end = text.data() + text.size();
  const auto ms = std::from_chars(text.data(), end, read.ms);
  if (ms.ec != std::errc{} || ms.ptr == end || (*ms.ptr != '-' && *ms.ptr != '+')) return std::nullopt;
  read.is_own = *ms.ptr == '+';
  const auto number = std::from_chars(ms.ptr + 1, end, read.number);
  if (number.ec != std::errc{} || number.ptr != end || read.ms > most_ms || read.number > most_number) return std::nullopt;
  return read;
}

std::string to_text(const serial& of) { return fmt::format("{}{}{}", of.ms, of.is_own ? '+' : '-', of.number); }

wide_serial widen(std::uint32_t queue, const serial& of) noexcept {
  return {.high = std::uint64_t{queue} << ms_bits | of.ms, .low = (of.is_own ? own_bit : 0) | of.number};
}

std::string public_id_of(std::uint32_t queue, const serial& of, std::string_view own_id) {
  const auto [high, low] = widen(queue, of);
  return make_job_id(high, low, own_id);
}

std::optional<job_address> address_in(const wide_job_name& name) noexcept {
  if (!name.serial || (name.serial->low & ~own_bit) > most_number) return std::nullopt;
  return job_address{.queue = static_cast<std::uint32_t>(name.serial->high >> ms_bits),
                     .which = {.ms = name.serial->high & most_ms,
                               .number = name.serial->low & most_number,
                               .is_own = (name.serial->low & own_bit) != 0}};
}

}  // namespace ergon::redis_store
