// Sizes in bytes as people write them: 64k, 100MB, 16MiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>

namespace ergon {

/// A number, with or without a unit: B, and k, M, G, T with or without B for powers of 1000, KiB, MiB, GiB, TiB for powers of
/// 1024; case of the letters does not matter. The number may have a fraction. Throws `errc::invalid_argument`, also at 2^63 and above.
[[nodiscard]] ERGON_EXPORT std::uint64_t parse_size(std::string_view text);

/// Short and rounded, in powers of 1024: `512B`, `16MiB`, `1.5GiB`.
[[nodiscard]] ERGON_EXPORT std::string format_size(std::uint64_t bytes);

}  // namespace ergon
