// A folder of its own for a test, which goes with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace ergon::sqlite {

class test_folder {
 public:
  test_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ergon-sqlite-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"cannot make a folder for the test"};
    }
    path_ = name;
  }
  test_folder(const test_folder&) = delete;
  test_folder& operator=(const test_folder&) = delete;
  ~test_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  friend std::string operator/(const test_folder& in, const char* name) { return in.path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ergon::sqlite
