#include "check.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interrupt.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace demo {
namespace {

/// One run of sha256sum, its output at the end of a pipe.
class summer {
 public:
  explicit summer(std::span<const input_file> files) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    output_ = ends[0];
    // Zero-terminated, or it would escape what is odd in names.
    std::vector<std::string> words{"sha256sum", "-z", "--"};
    for (const input_file& file : files) words.push_back(file.path);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int failure = ::posix_spawnp(&pid_, "sha256sum", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failure != 0) {
      ::close(output_);
      throw std::system_error(failure, std::generic_category(), "the digests cannot be checked: sha256sum cannot be started");
    }
  }
  summer(const summer&) = delete;
  summer& operator=(const summer&) = delete;
  ~summer() {
    ::close(output_);
    if (!ended_) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string read_all() {
    std::string text;
    char piece[65536];
    while (!interrupted()) {
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 100) <= 0) continue;
      const ssize_t got = ::read(output_, piece, sizeof piece);
      if (got < 0 && errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "the output of sha256sum cannot be read");
      if (got == 0) {
        ended_ = true;
        return text;
      }
      if (got > 0) text.append(piece, static_cast<std::size_t>(got));
    }
    throw interruption{};
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
  bool ended_ = false;
};

/// The files in pieces that fit a command line.
std::vector<std::span<const input_file>> pieces_of(const std::vector<input_file>& files) {
  constexpr std::size_t most_files = 250;
  constexpr std::size_t most_bytes = 64UL * 1024;
  std::vector<std::span<const input_file>> pieces;
  std::size_t from = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i > from && (i - from == most_files || bytes + files[i].path.size() > most_bytes)) {
      pieces.emplace_back(files.data() + from, i - from);
      from = i;
      bytes = 0;
    }
    bytes += files[i].path.size() + 1;
  }
  if (from < files.size()) pieces.emplace_back(files.data() + from, files.size() - from);
  return pieces;
}

/// `<64 digits>  <path>` with a zero byte behind each.
std::unordered_map<std::string_view, std::string_view> parse(std::string_view output) {
  constexpr std::size_t digits = 64;
  std::unordered_map<std::string_view, std::string_view> sums;
  while (!output.empty()) {
    const std::string_view entry = output.substr(0, output.find('\0'));
    output.remove_prefix(std::min(entry.size() + 1, output.size()));
    if (entry.size() > digits + 2) sums.emplace(entry.substr(digits + 2), entry.substr(0, digits));
  }
  return sums;
}

}  // namespace

std::vector<std::string> sums_of(const std::vector<input_file>& files, unsigned at_once,
                                 const std::function<void(std::uint64_t)>& told) {
  std::vector<std::string> sums(files.size());
  const auto pieces = pieces_of(files);
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> done = 0;
  std::atomic<unsigned> left = at_once;
  std::vector<std::exception_ptr> failures(at_once);

  const auto check = [&](unsigned me) noexcept {
    try {
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        summer run(pieces[i]);
        const std::string output = run.read_all();
        const auto said = parse(output);
        for (const input_file& file : pieces[i]) {
          if (const auto found = said.find(file.path); found != said.end())
            sums[static_cast<std::size_t>(&file - files.data())] = found->second;
        }
        done += pieces[i].size();
      }
    } catch (...) {
      failures[me] = std::current_exception();
      next = pieces.size();
    }
    --left;
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < at_once; ++i) threads.emplace_back(check, i);
    while (left > 0) {
      told(done);
      nap(std::chrono::milliseconds{5});
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  told(done);
  return sums;
}

}  // namespace demo
