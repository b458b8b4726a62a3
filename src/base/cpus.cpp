// Affinity mask and cgroup quota. cgroup v2: `cpu.max` holds "QUOTA PERIOD" or "max PERIOD"
// (https://docs.kernel.org/admin-guide/cgroup-v2.html); v1: `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`.
#include <ergon/base/cpus.hpp>

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <thread>

namespace ergon {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> positive(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::optional<unsigned> rounded_up(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period) return std::nullopt;
  const std::int64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<unsigned>(std::clamp<std::int64_t>(cpus, 1, 1 << 20));
}

std::optional<unsigned> quota_v2(const std::string& directory) {
  const auto line = first_line(directory + "/cpu.max");
  if (!line) return std::nullopt;
  const std::string_view text = *line;
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return rounded_up(positive(text.substr(0, space)), positive(text.substr(space + 1)));
}

std::optional<unsigned> quota_v1(const std::string& directory) {
  const auto quota = first_line(directory + "/cpu.cfs_quota_us");
  const auto period = first_line(directory + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return rounded_up(positive(*quota), positive(*period));
}

void keep_smaller(std::optional<unsigned>& least, std::optional<unsigned> other) {
  if (other && (!least || *other < *least)) least = other;
}

// A quota binds everything below it. In a container the path may be one of the host's that is not visible here; then only
// the top, which is the container's own group, is.
template <class Quota>
std::optional<unsigned> smallest_upwards(const std::string& top, std::string path, Quota quota) {
  std::optional<unsigned> least;
  while (!path.empty() && path != "/") {
    keep_smaller(least, quota(top + path));
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  keep_smaller(least, quota(top));
  return least;
}

bool names_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "cpu") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

unsigned affinity_count() {
  // Machines with more than 1024 processors need a larger mask than cpu_set_t.
  for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(bits);
    const int failed = ::sched_getaffinity(0, size, set);
    const int reason = errno;
    const int count = failed == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return static_cast<unsigned>(count);
    if (reason != EINVAL) break;
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

std::optional<unsigned> cgroup_cpu_quota(const std::string& root) {
  std::optional<unsigned> least;
  std::ifstream groups{root + "/proc/self/cgroup"};
  std::string line;
  const std::string mount = root + "/sys/fs/cgroup";
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      keep_smaller(least, smallest_upwards(mount, path, quota_v2));
    } else if (names_cpu(controllers)) {
      keep_smaller(least, smallest_upwards((mount + '/').append(controllers), path, quota_v1));
      keep_smaller(least, smallest_upwards(mount + "/cpu", path, quota_v1));
    }
  }
  return least;
}

unsigned granted_cpus() {
  const unsigned by_affinity = affinity_count();
  const auto by_quota = cgroup_cpu_quota();
  return std::max(1U, by_quota ? std::min(by_affinity, *by_quota) : by_affinity);
}

}  // namespace ergon
