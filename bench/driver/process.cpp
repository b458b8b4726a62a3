// The pipes are read with poll() so that a child that fills one of them never blocks, and so that a signal to the driver is seen.
#include "bench/driver/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace ergon::bench {
namespace {

volatile std::sig_atomic_t stop_flag = 0;

void on_stop_signal(int) { stop_flag = 1; }

struct pipe_ends {
  int read = -1;
  int write = -1;
};

pipe_ends make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "a pipe for a benchmark program");
  return {fds[0], fds[1]};
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

}  // namespace

void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = on_stop_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() noexcept { return stop_flag != 0; }

child_end run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  const pipe_ends out = make_pipe();
  const pipe_ends err = make_pipe();
  // The exec pipe closes at a successful exec; otherwise it brings the error number.
  const pipe_ends started = make_pipe();
  std::string name = program.string();
  std::vector<char*> argv{name.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& a : copies) argv.push_back(a.data());
  argv.push_back(nullptr);

  const auto begin = std::chrono::steady_clock::now();
  const pid_t driver = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork for " + name);
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != driver) ::_exit(127);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(out.write, 1);
    ::dup2(err.write, 2);
    ::execv(name.c_str(), argv.data());
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(started.write, &error, sizeof error);
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  ::close(out.write);
  ::close(err.write);
  ::close(started.write);
  int exec_error = 0;
  const bool exec_failed = ::read(started.read, &exec_error, sizeof exec_error) == sizeof exec_error;
  ::close(started.read);

  child_end end;
  std::array<pollfd, 2> watched{pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0}};
  std::array<char, 16384> buffer{};
  bool killed = false;
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    if (!killed) {
      end.timed_out = std::chrono::steady_clock::now() - begin > limit;
      end.interrupted = stop_requested();
      if (end.timed_out || end.interrupted) {
        ::kill(-pid, SIGKILL);
        killed = true;
      }
    }
    if (::poll(watched.data(), watched.size(), 200) < 0) continue;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      const ssize_t n = ::read(watched[i].fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        ::close(watched[i].fd);
        watched[i].fd = -1;
        continue;
      }
      std::string& text = i == 0 ? end.out : end.err;
      text.append(buffer.data(), static_cast<std::size_t>(n));
      if (i == 1 && text.size() > 4096) text.erase(0, text.size() - 4096);
    }
  }
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  end.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // What a program left behind in its group (a producer whose worker crashed) must not disturb the next row.
  ::kill(-pid, SIGKILL);
  if (exec_failed) throw std::system_error(exec_error, std::generic_category(), "cannot run " + name);
  end.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  end.peak_rss_kb = static_cast<std::uint64_t>(usage.ru_maxrss);
  end.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return end;
}

}  // namespace ergon::bench
