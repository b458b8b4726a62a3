// What the programs that the driver starts have in common: they are given `SCENARIO --name value …` and print one line of JSON.
// A program that cannot do its work says why on standard error and ends with 1, or 2 where the arguments are at fault.
#pragma once

#include <sys/types.h>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace ergon::bench {

struct bad_arguments : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class arguments {
 public:
  arguments(int argc, char** argv) {
    if (argc < 2) throw bad_arguments("the first argument must be a scenario");
    scenario_ = argv[1];
    for (int i = 2; i < argc; i += 2) {
      const std::string_view name = argv[i];
      if (!name.starts_with("--") || i + 1 == argc) throw bad_arguments(fmt::format("'{}' is no --name with a value", name));
      values_[std::string{name.substr(2)}] = argv[i + 1];
    }
  }

  [[nodiscard]] const std::string& scenario() const noexcept { return scenario_; }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw bad_arguments(fmt::format("--{} is missing", name));
    return found->second;
  }
  [[nodiscard]] std::string text(const std::string& name, std::string otherwise) const {
    return values_.contains(name) ? text(name) : otherwise;
  }
  [[nodiscard]] std::uint64_t number(const std::string& name) const {
    const std::string value = text(name);
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc{} || end != value.data() + value.size())
      throw bad_arguments(fmt::format("--{} {}: must be a whole number", name, value));
    return n;
  }
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    return values_.contains(name) ? number(name) : otherwise;
  }
  [[nodiscard]] const std::map<std::string, std::string>& all() const noexcept { return values_; }

 private:
  std::string scenario_;
  std::map<std::string, std::string> values_;
};

/// How this program was built, with the versions of what it measures.
[[nodiscard]] inline boost::json::object about(boost::json::object libraries) {
#if defined(__OPTIMIZE__) && defined(NDEBUG)
  constexpr bool optimised = true;
#else
  constexpr bool optimised = false;
#endif
  return {{"libraries", std::move(libraries)}, {"optimised", optimised}};
}

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// How much of a core another process, the server, uses while this lives: the kernel tells the CPU time of any process.
class server_load {
 public:
  explicit server_load(pid_t server) {
    if (::clock_getcpuclockid(server, &clock_) != 0)
      throw std::runtime_error(fmt::format("the CPU time of the server, process {}, is not to be had", server));
    before_ = used();
  }
  /// CPU seconds since it was made.
  [[nodiscard]] double seconds() const { return used() - before_; }

 private:
  [[nodiscard]] double used() const {
    timespec t{};
    ::clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
  }
  clockid_t clock_{};
  double before_ = 0;
};

/// A bijection that scatters: keys made of it arrive in random order, as ids from outside do, and pauses made of it are irregular.
inline std::uint64_t scattered(std::uint64_t n) {
  n ^= n >> 30;
  n *= 0xbf58476d1ce4e5b9ULL;
  n ^= n >> 27;
  n *= 0x94d049bb133111ebULL;
  return n ^ (n >> 31);
}

/// `main` of a program: `run` gets the arguments and returns the line to print.
template <class Run>
int run_program(int argc, char** argv, Run run) {
  try {
    const boost::json::object line = run(arguments{argc, argv});
    fmt::print("{}\n", boost::json::serialize(line));
    return 0;
  } catch (const bad_arguments& e) {
    fmt::print(stderr, "{}: {}\n", argv[0], e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", argv[0], e.what());
    return 1;
  }
}

/// Removes what an earlier run left in `folder` under the name `store`; makes the folder where it is missing.
inline void clear_store(const std::filesystem::path& folder, std::string_view store) {
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(store)) std::filesystem::remove_all(entry.path());
  }
}

}  // namespace ergon::bench
