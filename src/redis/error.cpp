#include <ergon/redis/error.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace ergon::redis {

namespace {

std::string_view first_word(std::string_view text) noexcept { return text.substr(0, text.find(' ')); }

constexpr std::array<std::pair<std::string_view, errc>, 13> meanings{{
    {"OOM", errc::store_full},
    {"READONLY", errc::store_read_only},
    {"MISCONF", errc::store_read_only},
    {"NOAUTH", errc::not_permitted},
    {"WRONGPASS", errc::not_permitted},
    {"NOPERM", errc::not_permitted},
    {"LOADING", errc::unavailable},
    {"MASTERDOWN", errc::unavailable},
    {"CLUSTERDOWN", errc::unavailable},
    {"TRYAGAIN", errc::unavailable},
    {"BUSY", errc::unavailable},
    {"NOREPLICAS", errc::unavailable},
    {"UNBLOCKED", errc::cancelled},
}};

}  // namespace

errc meaning_of(std::string_view server_text) noexcept {
  const auto* const found = std::ranges::find(meanings, first_word(server_text), [](const auto& m) { return m.first; });
  return found != meanings.end() ? found->second : errc::rejected;
}

server_error::server_error(std::string_view asked, std::string_view server_text)
    : error(meaning_of(server_text), fmt::format("{}: the server says: {}", asked, server_text)),
      word_(first_word(server_text)) {}
server_error::~server_error() = default;

std::string_view error_word(value of) noexcept { return of.is_error() ? first_word(of.text()) : std::string_view{}; }

void raise(value of, std::string_view asked) {
  if (of.is_error()) throw server_error{asked, of.text()};
}

}  // namespace ergon::redis
