#include "bench/driver/environment.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/core.h>
#include <boost/json/string.hpp>
#include <boost/version.hpp>

#include "bench/driver/process.hpp"
#include "bench/driver/statistics.hpp"

namespace ergon::bench {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

// The value of the first line of `file` that begins with `name`, after `separator` and blanks.
std::string field(const std::filesystem::path& file, std::string_view name, char separator) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    value.erase(0, value.find_first_not_of(" \t\""));
    value.erase(value.find_last_not_of(" \t\"") + 1);
    return value;
  }
  return "unknown";
}

std::string machine() {
  const std::string vendor = first_line("/sys/class/dmi/id/sys_vendor");
  const std::string product = first_line("/sys/class/dmi/id/product_name");
  std::string text = vendor.empty() && product.empty() ? "unknown" : vendor + (vendor.empty() ? "" : " ") + product;
  const bool virtual_machine = (" " + field("/proc/cpuinfo", "flags", ':') + " ").find(" hypervisor ") != std::string::npos;
  return text + (virtual_machine ? ", a virtual machine" : "");
}

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : ::get_nprocs();
}

double fdatasync_microseconds(const std::filesystem::path& dir) {
  const auto file = dir / "fdatasync-probe";
  const int fd = ::open(file.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return 0;
  const std::vector<char> page(4096, 'x');
  std::vector<double> times;
  for (int i = 0; i < 60; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    // The same page again and again: what a commit into a write-ahead log that was restarted costs, no growth of the file.
    if (::pwrite(fd, page.data(), page.size(), 0) < 0 || ::fdatasync(fd) != 0) break;
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  ::close(fd);
  std::filesystem::remove(file);
  return times.empty() ? 0 : median(times);
}

// The output of a git command in the first of the folders that lies in a working copy; empty where there is none, or no git.
std::string git(const std::vector<std::filesystem::path>& folders, const std::vector<std::string>& command) {
  for (const auto& folder : folders) {
    std::vector<std::string> arguments{"git", "-C", folder.string()};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const child_end end = run_child("/usr/bin/env", arguments, std::chrono::seconds{10});
    if (end.code == 0) return end.out;
  }
  return {};
}

}  // namespace

std::string file_system_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::string wanted = std::filesystem::canonical(path, ignored).string();
  std::ifstream in{"/proc/self/mountinfo"};
  std::string best_type = "unknown";
  std::size_t best_length = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words{line};
    std::string skipped;
    std::string point;
    words >> skipped >> skipped >> skipped >> skipped >> point;
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const bool below = point == "/" || wanted == point || wanted.starts_with(point + "/");
    // Of two mounts on one point the later one covers the earlier.
    if (!below || point.size() < best_length) continue;
    best_length = point.size();
    best_type = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
  }
  return best_type;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

boost::json::object describe_environment(const std::filesystem::path& dir, const std::filesystem::path& beside) {
  boost::json::object e;
  utsname system{};
  ::uname(&system);
  struct sysinfo memory{};
  ::sysinfo(&memory);
  double load = 0;
  ::getloadavg(&load, 1);
  rusage own{};
  ::getrusage(RUSAGE_SELF, &own);

  e["machine"] = machine();
  e["cpu"] = field("/proc/cpuinfo", "model name", ':');
  e["cores"] = usable_cores();
  e["memory_mb"] = static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit / (1024 * 1024);
  e["os"] = field("/etc/os-release", "PRETTY_NAME", '=');
  e["kernel"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  e["governor"] = std::filesystem::exists("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                      ? first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                      : "unknown";
  e["load_at_start"] = load;
  e["compiler"] = ERGON_BENCH_COMPILER;
  e["flags"] = ERGON_BENCH_FLAGS;
  boost::json::object libraries;
  libraries["ergon"] = ERGON_VERSION;
  libraries["boost"] = fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
  libraries["fmt"] = fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  e["libraries"] = libraries;
  e["store_file_system"] = file_system_of(dir);
  e["fdatasync_us"] = fdatasync_microseconds(dir);
  // A program's peak is never below what its parent had when it started it, so this is the floor of every rss_kb.
  e["rss_floor_kb"] = own.ru_maxrss;

  const std::vector<std::filesystem::path> folders{beside, std::filesystem::current_path()};
  std::string commit = git(folders, {"rev-parse", "HEAD"});
  commit.erase(commit.find_last_not_of(" \n") + 1);
  e["git_commit"] = commit.empty() ? "unknown" : commit;
  e["git_modified"] = !git(folders, {"status", "--porcelain", "--untracked-files=no"}).empty();
  return e;
}

}  // namespace ergon::bench
