// Addresses as the system calls take and give them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include <ergon/runtime/endpoint.hpp>

namespace ergon::detail {

struct system_address {
  ::sockaddr_storage bytes{};
  ::socklen_t size = 0;

  system_address() = default;
  explicit system_address(const endpoint& of) noexcept {
    if (of.address.is_v4()) {
      ::sockaddr_in made{};
      made.sin_family = AF_INET;
      made.sin_port = htons(of.port);
      std::memcpy(&made.sin_addr, of.address.bytes().data(), 4);
      std::memcpy(&bytes, &made, size = sizeof made);
    } else {
      ::sockaddr_in6 made{};
      made.sin6_family = AF_INET6;
      made.sin6_port = htons(of.port);
      made.sin6_scope_id = of.address.scope();
      std::memcpy(&made.sin6_addr, of.address.bytes().data(), 16);
      std::memcpy(&bytes, &made, size = sizeof made);
    }
  }
  [[nodiscard]] const ::sockaddr* get() const noexcept { return reinterpret_cast<const ::sockaddr*>(&bytes); }
  [[nodiscard]] ::sockaddr* get() noexcept { return reinterpret_cast<::sockaddr*>(&bytes); }
};

/// Nothing for an address of another family.
inline std::optional<endpoint> to_endpoint(const ::sockaddr* address) noexcept {
  if (address->sa_family == AF_INET) {
    ::sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    return endpoint{ip_address::v4(bytes), ntohs(in.sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    ::sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return endpoint{ip_address::v6(bytes, in.sin6_scope_id), ntohs(in.sin6_port)};
  }
  return std::nullopt;
}

}  // namespace ergon::detail
