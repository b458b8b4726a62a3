// See endpoint.hpp.
#include <ergon/runtime/endpoint.hpp>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace ergon {

std::optional<ip_address> ip_address::parse(std::string_view text) {
  std::string whole{text};
  if (whole.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  std::array<std::uint8_t, 4> four{};
  if (::inet_pton(AF_INET, whole.c_str(), four.data()) == 1) {
    return v4(four);
  }
  std::uint32_t scope = 0;
  if (auto const at = whole.find('%'); at != std::string::npos) {
    std::string const zone = whole.substr(at + 1);
    auto const [end, bad] = std::from_chars(zone.data(), zone.data() + zone.size(), scope);
    if (bad != std::errc{} || end != zone.data() + zone.size()) {
      scope = ::if_nametoindex(zone.c_str());
    }
    if (scope == 0) {
      return std::nullopt;
    }
    whole.resize(at);
  }
  std::array<std::uint8_t, 16> sixteen{};
  if (::inet_pton(AF_INET6, whole.c_str(), sixteen.data()) == 1) {
    return v6(sixteen, scope);
  }
  return std::nullopt;
}

bool ip_address::is_loopback() const noexcept { return is_v6_ ? bytes_ == loopback_v6().bytes_ : bytes_[0] == 127; }

std::string ip_address::text() const {
  char buffer[INET6_ADDRSTRLEN];
  ::inet_ntop(is_v6_ ? AF_INET6 : AF_INET, bytes_.data(), buffer, sizeof buffer);
  std::string made = buffer;
  if (scope_ != 0) {
    made += '%' + std::to_string(scope_);
  }
  return made;
}

std::optional<endpoint> endpoint::parse(std::string_view text) {
  auto const colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  std::string_view const digits = text.substr(colon + 1);
  endpoint made;
  auto const [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), made.port);
  if (digits.empty() || bad != std::errc{} || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  bool const bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  auto const address = ip_address::parse(host);
  if (!address || address->is_v6() != bracketed) {
    return std::nullopt;
  }
  made.address = *address;
  return made;
}

std::string endpoint::text() const {
  std::string const number = std::to_string(port);
  return address.is_v6() ? '[' + address.text() + "]:" + number : address.text() + ':' + number;
}

}  // namespace ergon
