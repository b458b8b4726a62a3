// Host names to addresses, as the system resolves them (/etc/hosts, DNS).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/runtime/endpoint.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// The addresses of a host in the system's order of preference, each with `port`; at least one. An address as text costs no look-up.
/// Others are looked up on a thread of their own, at most eight at a time in the process, since the system's resolver blocks. Cancellable:
/// the wait ends at once, and the look-up goes on for nobody. Throws `errc::unavailable`, with the host's name and the reason, if there
/// is none, `errc::invalid_argument` for an empty name.
[[nodiscard]] ERGON_EXPORT task<std::vector<endpoint>> resolve(std::string host, std::uint16_t port = 0);

}  // namespace ergon
