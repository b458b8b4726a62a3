// The other opinion: the same digests from the program sha256sum.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "files.hpp"

namespace demo {

/// What sha256sum says of each file, in their order; empty where it says nothing (the file is gone). Several run at once. `told` is
/// called by the calling thread with the number of files done. Throws `std::runtime_error` where there is no sha256sum, `interruption`.
[[nodiscard]] std::vector<std::string> sums_of(const std::vector<input_file>& files, unsigned at_once,
                                               const std::function<void(std::uint64_t)>& told);

}  // namespace demo
