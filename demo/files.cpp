#include "files.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include <ergon/base/text.hpp>

namespace demo {
namespace fs = std::filesystem;

namespace {

std::vector<std::string> paths_below(const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    std::error_code failure;
    const fs::path root = fs::canonical(folder, failure);
    if (failure || !fs::is_directory(root))
      throw std::runtime_error(fmt::format("--dir: {} is no folder", ergon::quoted(folder, 4096)));
    // Things may vanish while they are listed: what cannot be entered is stepped over.
    fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, failure);
    for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
      std::error_code unknown;
      if (at->symlink_status(unknown).type() == fs::file_type::regular) paths.push_back(at->path().native());
    }
  }
  std::ranges::sort(paths);
  const auto twice = std::ranges::unique(paths);
  paths.erase(twice.begin(), twice.end());
  return paths;
}

}  // namespace

bool input_file::is_other_now() const {
  struct stat now{};
  return ::lstat(path.c_str(), &now) != 0 || static_cast<std::uint64_t>(now.st_size) != size ||
         now.st_mtim.tv_sec != changed.tv_sec || now.st_mtim.tv_nsec != changed.tv_nsec;
}

selection select_files(const std::vector<std::string>& folders, std::size_t most) {
  selection chosen;
  const std::vector<std::string> paths = paths_below(folders);
  chosen.found = paths.size();
  const std::size_t wanted = std::min(most, paths.size());
  chosen.left_out = paths.size() - wanted;
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::string& path = paths[i * paths.size() / wanted];
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || ::access(path.c_str(), R_OK) != 0) {
      ++chosen.unreadable;
      continue;
    }
    chosen.files.push_back({path, static_cast<std::uint64_t>(status.st_size), status.st_mtim});
    chosen.bytes += static_cast<std::uint64_t>(status.st_size);
  }
  return chosen;
}

}  // namespace demo
