// What the tests of sockets share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/task.hpp>

#include "servers/thrown_by.hpp"

namespace ergon {

inline task<std::string> read_text(byte_stream& from, std::size_t size) {
  std::string text(size, '\0');
  co_await from.read_exact(std::as_writable_bytes(std::span{text}));
  co_return text;
}

using test::thrown_by;

/// With a folder of its own, which goes with it.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "ergon-sockets-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
};

}  // namespace ergon
