// What is recorded with every result, because a figure without it says nothing.
#pragma once

#include <filesystem>
#include <string>

#include <boost/json/object.hpp>

namespace ergon::bench {

/// Machine, system, compiler, libraries, commit, and the file system that the stores of this run lie on. Takes some 50 ms: it times
/// `fdatasync` in `dir`. `beside` is a folder of the build, to find the commit by.
[[nodiscard]] boost::json::object describe_environment(const std::filesystem::path& dir, const std::filesystem::path& beside);

/// The type of the file system that holds `path`, as the kernel names it (`ext4`, `tmpfs`).
[[nodiscard]] std::string file_system_of(const std::filesystem::path& path);

/// Now, as `2026-01-31T12:00:00Z`.
[[nodiscard]] std::string now_text();

}  // namespace ergon::bench
