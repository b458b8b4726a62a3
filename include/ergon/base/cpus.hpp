// How many processors this process may really use: in a container that is rarely what the machine has.
#pragma once

#include <optional>
#include <string>

#include <ergon/base/export.hpp>

namespace ergon {

/// The smaller of the affinity mask and the cgroup's CPU quota, rounded up; at least 1. Reads a few small files.
[[nodiscard]] ERGON_EXPORT unsigned granted_cpus();

/// The smallest CPU quota of this process's cgroup (version 2 or 1) and those above it, rounded up, or nothing where there is
/// none. `root` is put before `/proc/self/cgroup` and `/sys/fs/cgroup`, for tests.
[[nodiscard]] ERGON_EXPORT std::optional<unsigned> cgroup_cpu_quota(const std::string& root = {});

}  // namespace ergon
