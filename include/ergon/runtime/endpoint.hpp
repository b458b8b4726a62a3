// Addresses of the internet: `ip_address` (version 4 or 6) and `endpoint` (an address and a port). Plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

class ERGON_EXPORT ip_address {
 public:
  /// 127.0.0.1.
  constexpr ip_address() noexcept = default;
  [[nodiscard]] static constexpr ip_address v4(std::array<std::uint8_t, 4> bytes) noexcept {
    ip_address made;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      made.bytes_[i] = bytes[i];
    }
    return made;
  }
  /// `scope` is the number of the network interface, for link-local addresses only.
  [[nodiscard]] static constexpr ip_address v6(std::array<std::uint8_t, 16> bytes, std::uint32_t scope = 0) noexcept {
    ip_address made;
    made.bytes_ = bytes;
    made.scope_ = scope;
    made.is_v6_ = true;
    return made;
  }
  [[nodiscard]] static constexpr ip_address loopback_v4() noexcept { return {}; }
  [[nodiscard]] static constexpr ip_address loopback_v6() noexcept {
    return v6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  }
  /// Every address of this machine, to listen at.
  [[nodiscard]] static constexpr ip_address any_v4() noexcept { return v4({0, 0, 0, 0}); }
  [[nodiscard]] static constexpr ip_address any_v6() noexcept { return v6({}); }

  /// `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0`. Nothing for other text; host names are `resolve`'s business.
  [[nodiscard]] static std::optional<ip_address> parse(std::string_view text);

  [[nodiscard]] constexpr bool is_v4() const noexcept { return !is_v6_; }
  [[nodiscard]] constexpr bool is_v6() const noexcept { return is_v6_; }
  [[nodiscard]] bool is_loopback() const noexcept;
  /// 4 or 16 bytes in network order.
  [[nodiscard]] constexpr std::span<const std::uint8_t> bytes() const noexcept { return {bytes_.data(), is_v6_ ? 16U : 4U}; }
  [[nodiscard]] constexpr std::uint32_t scope() const noexcept { return scope_; }
  [[nodiscard]] std::string text() const;

  friend constexpr auto operator<=>(const ip_address&, const ip_address&) noexcept = default;

 private:
  std::array<std::uint8_t, 16> bytes_{127, 0, 0, 1};
  std::uint32_t scope_ = 0;
  bool is_v6_ = false;
};

struct ERGON_EXPORT endpoint {
  ip_address address;
  std::uint16_t port = 0;

  /// `192.0.2.1:80`, `[2001:db8::1]:80`. Nothing for other text.
  [[nodiscard]] static std::optional<endpoint> parse(std::string_view text);
  /// As `parse` reads it.
  [[nodiscard]] std::string text() const;

  friend constexpr auto operator<=>(const endpoint&, const endpoint&) noexcept = default;
};

}  // namespace ergon
