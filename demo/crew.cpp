#include "crew.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ergon/base/clock.hpp>
#include <ergon/base/log.hpp>
#include <ergon/queue/worker.hpp>

#include "digest.hpp"
#include "interrupt.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace demo {
namespace {

/// In the environment, and not in argv, where everybody on the machine could read a password.
constexpr const char* broker_variable = "ERGON_BROKER";

class spawn_settings {
 public:
  explicit spawn_settings(const std::filesystem::path& log) {
    ::posix_spawnattr_init(&attributes_);
    // A group of its own: Ctrl-C on the terminal is for the demo, which ends its workers itself.
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&files_, STDOUT_FILENO, STDERR_FILENO);
  }
  spawn_settings(const spawn_settings&) = delete;
  spawn_settings& operator=(const spawn_settings&) = delete;
  ~spawn_settings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  pid_t start(const char* program, std::vector<std::string> words, std::vector<std::string> variables) {
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    pid_t pid = 0;
    const int failure = ::posix_spawn(&pid, program, &files_, &attributes_, pointers(words).data(), pointers(variables).data());
    if (failure != 0) throw std::system_error(failure, std::generic_category(), "a worker process cannot be started");
    return pid;
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t files_{};
};

std::vector<std::string> environment_with(const std::string& name, const std::string& value) {
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with(name + "=")) variables.emplace_back(*at);
  }
  variables.push_back(name + "=" + value);
  return variables;
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

crew::~crew() {
  for (const member& m : members_) ::kill(m.pid, SIGKILL);
  for (const member& m : members_) ::waitpid(m.pid, nullptr, 0);
}

std::filesystem::path crew::log_of(unsigned number) const { return options_.logs / fmt::format("worker-{}.log", number); }

unsigned crew::hire() {
  const unsigned number = hired_ + 1;
  spawn_settings settings(log_of(number));
  const pid_t pid = settings.start("/proc/self/exe",
                                   {"ergon-demo", "worker", "--parent", std::to_string(::getpid()), "--queue", options_.queue,
                                    "--concurrency", std::to_string(options_.concurrency)},
                                   environment_with(broker_variable, options_.broker));
  members_.push_back({pid, number});
  return hired_ = number;
}

std::optional<unsigned> crew::number_of(pid_t pid) const {
  const auto found = std::ranges::find(members_, pid, &member::pid);
  return found == members_.end() ? std::nullopt : std::optional(found->number);
}

bool crew::freeze(pid_t pid) {
  ::kill(pid, SIGSTOP);
  siginfo_t info{};
  // Sending the signal is not yet standing still. The news is left where it is: if it is the worker's end, `casualty` tells it.
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return info.si_code == CLD_STOPPED;
}

void crew::thaw(pid_t pid) { ::kill(pid, SIGCONT); }

void crew::kill(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  forget(pid);
}

std::optional<std::string> crew::casualty() {
  for (const member& m : members_) {
    int status = 0;
    if (::waitpid(m.pid, &status, WNOHANG) != m.pid) continue;
    const unsigned number = m.number;
    forget(m.pid);
    std::ifstream log(log_of(number));
    const std::string said((std::istreambuf_iterator<char>(log)), {});
    constexpr std::size_t most = 4000;
    return fmt::format("worker {} {}{}{}", number, end_of(status), said.empty() ? "" : "; it said:\n",
                       said.substr(said.size() - std::min(said.size(), most)));
  }
  return std::nullopt;
}

void crew::dismiss() {
  for (const member& m : members_) ::kill(m.pid, SIGTERM);
  const ergon::clock& clock = ergon::clock::system();
  const auto deadline = clock.steady() + std::chrono::seconds{10};
  while (!members_.empty() && clock.steady() < deadline) {
    std::erase_if(members_, [](const member& m) { return ::waitpid(m.pid, nullptr, WNOHANG) == m.pid; });
    if (!members_.empty()) nap(std::chrono::milliseconds{2});
  }
  while (!members_.empty()) kill(members_.back().pid);
}

void crew::forget(pid_t pid) {
  std::erase_if(members_, [pid](const member& m) { return m.pid == pid; });
}

int work_for(pid_t parent, const std::string& queue, unsigned concurrency) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before the kernel was asked to tell.
  if (::getppid() != parent) return 1;
  const char* broker = std::getenv(broker_variable);
  if (broker == nullptr) return 2;
  ergon::worker worker(
      broker, {.queues = {{queue, 1}}, .concurrency = concurrency, .logger = ergon::logger::console(ergon::log_level::warn)});
  worker.handle(on_digest);
  worker.run();
  return 0;
}

}  // namespace demo
