// Which files the demo works on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace demo {

struct input_file {
  std::string path;
  std::uint64_t size = 0;
  timespec changed{};

  /// Somebody has written to it, or removed it, since it was chosen.
  [[nodiscard]] bool is_other_now() const;
};

struct selection {
  std::vector<input_file> files;
  /// Regular files that were found, and of those left out: because they cannot be read, because they are too many.
  std::uint64_t found = 0;
  std::uint64_t unreadable = 0;
  std::uint64_t left_out = 0;
  std::uint64_t bytes = 0;
};

/// Every regular file under the folders, each once; symbolic links are not followed. Of more than `most`, every so-manieth, so
/// that all parts of the tree have their share. Throws `std::runtime_error` for a folder that is none.
[[nodiscard]] selection select_files(const std::vector<std::string>& folders, std::size_t most);

}  // namespace demo
