#include "servers/redis_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include <ergon/base/error.hpp>

namespace ergon::test {
namespace {

bool is_program(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::optional<std::filesystem::path> in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::filesystem::path file = std::filesystem::path{folder} / name;
    if (is_program(file)) return file;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> from_environment(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  if (!is_program(value)) {
    throw error(errc::not_found, std::string{variable} + "=" + value + " is no program; it should be the path of a server");
  }
  return value;
}

/// The name by which the program knows that it is to be the server: redis-check-rdb becomes redis-server.
std::string called_name(const std::filesystem::path& program) {
  std::string name = program.filename();
  for (std::string_view const tool : {"check-rdb", "check-aof"}) {
    if (std::size_t const at = name.find(tool); at != std::string::npos) name.replace(at, tool.size(), "server");
  }
  return name;
}

/// Forks, on a thread that lives as long as this process: the parent of whom PR_SET_PDEATHSIG speaks is the thread that forked, and a test
/// may well start its server on a thread that ends before the test.
class launcher {
 public:
  static launcher& instance() {
    // Never destroyed: its thread is never told to end.
    static launcher* const one = new launcher;
    return *one;
  }
  pid_t fork(std::function<void()> child) {
    std::promise<pid_t> made;
    std::future<pid_t> forked = made.get_future();
    {
      std::lock_guard const guard(lock_);
      wanted_.push_back({std::move(child), std::move(made)});
    }
    changed_.notify_one();
    return forked.get();
  }

 private:
  struct request {
    std::function<void()> child;
    std::promise<pid_t> made;
  };

  launcher() {
    std::thread([this] { run(); }).detach();
  }
  [[noreturn]] void run() {
    for (;;) {
      std::unique_lock guard(lock_);
      changed_.wait(guard, [this] { return !wanted_.empty(); });
      request next = std::move(wanted_.front());
      wanted_.pop_front();
      guard.unlock();
      pid_t const child = ::fork();
      if (child == 0) {
        next.child();
        ::_exit(127);
      }
      next.made.set_value(child);
    }
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<request> wanted_;
};

/// In the child, where only what is safe in a signal handler may be called. Returns if the program cannot be run.
void become(const char* program, char* const* arguments, int log, int nothing, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int const each : {SIGTERM, SIGINT, SIGPIPE, SIGHUP}) ::signal(each, SIG_DFL);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // The test's listeners and connections must not live on in the server.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::execv(program, arguments);
  constexpr std::string_view failed = "this program cannot be run\n";
  static_cast<void>(::write(STDERR_FILENO, failed.data(), failed.size()));
}

std::filesystem::path make_folder() {
  std::string pattern = std::filesystem::temp_directory_path() / "ergon-redis-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw_errno("a folder " + pattern);
  return pattern;
}

void add(std::vector<std::string>& to, std::initializer_list<std::string> words) { to.insert(to.end(), words); }

}  // namespace

std::filesystem::path redis_program() {
  if (auto configured = from_environment("ERGON_TEST_REDIS")) return *std::move(configured);
  for (const char* const name : {"redis-server", "redis-check-rdb"}) {
    if (auto found = in_path(name)) return *std::move(found);
  }
  throw error(
      errc::not_found,
      "this test needs a Redis server, and neither redis-server nor redis-check-rdb is in PATH: apt-get install redis-tools, or "
      "set ERGON_TEST_REDIS to the path of a server");
}

std::optional<std::filesystem::path> valkey_program() { return from_environment("ERGON_TEST_VALKEY"); }

// By number: the header of glibc 2.36 declares it for C only.
descriptor watch_process(pid_t pid) { return descriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))}; }

redis_server::redis_server() : redis_server(options{}) {}

redis_server::redis_server(options wanted)
    : options_(std::move(wanted)),
      program_(options_.program.empty() ? redis_program() : options_.program),
      folder_(make_folder()) {
  try {
    if (options_.tls) {
      certificates_.emplace(folder_);
      tls_port_.emplace();
    }
    start();
  } catch (...) {
    kill();
    std::filesystem::remove_all(folder_);
    throw;
  }
}

redis_server::~redis_server() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string redis_server::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }
std::string redis_server::tls_url() const { return "rediss://127.0.0.1:" + std::to_string(tls_port()); }

std::vector<std::string> redis_server::arguments() const {
  std::vector<std::string> all{called_name(program_)};
  add(all, {"--bind", "127.0.0.1", "--port", std::to_string(port()), "--protected-mode", "yes", "--daemonize", "no"});
  add(all, {"--dir", folder_.string(), "--logfile", ""});
  if (!options_.save) add(all, {"--save", ""});
  // `everysec` may hold a write back for two seconds while a sync is under way, and answer all the same.
  if (options_.append_only) add(all, {"--appendonly", "yes", "--appendfsync", "no"});
  if (options_.unix_socket) add(all, {"--unixsocket", socket_path()});
  if (options_.tls) {
    add(all, {"--tls-port", std::to_string(tls_port()), "--tls-ca-cert-file", certificates_->ca.certificate.string()});
    add(all, {"--tls-cert-file", certificates_->server.certificate.string()});
    add(all, {"--tls-key-file", certificates_->server.key.string()});
    add(all, {"--tls-auth-clients", options_.tls_client_certificates ? "yes" : "optional"});
  }
  if (!options_.password.empty()) add(all, {"--requirepass", options_.password});
  all.insert(all.end(), options_.extra.begin(), options_.extra.end());
  return all;
}

void redis_server::start() {
  if (is_running()) throw error(errc::wrong_state, "the test's server " + url() + " runs already");
  reap();
  deadline const until{options_.patience};
  for (int attempt = 1;; ++attempt) {
    launch();
    outcome const came = wait_until_it_answers(until);
    if (came == outcome::ready) {
      has_started_ = true;
      return;
    }
    std::string const end_of_log = log_tail();
    kill();
    if (came == outcome::port_taken && !has_started_ && attempt < 5) {
      port_ = reserved_port{};
      if (tls_port_) tls_port_.emplace();
      continue;
    }
    throw error(errc::unavailable, "the test's server " + url() + " (" + program_.string() +
                                       ") does not answer; the end of its log:\n" + end_of_log);
  }
}

void redis_server::launch() {
  std::string const log_file = folder_ / "server.log";
  descriptor const log{::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  descriptor const nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (!log || !nothing) throw_errno("the log of a server");
  log_start_ = std::filesystem::file_size(log_file);

  // All memory is got before the fork.
  std::vector<std::string> words = arguments();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t const parent = ::getpid();
  pid_t const child = launcher::instance().fork(
      [&, program = program_.c_str()] { become(program, pointers.data(), log.get(), nothing.get(), parent); });
  if (child < 0) throw_errno("fork");
  pid_ = child;
  process_ = watch_process(pid_);
  if (!process_) throw_errno("pidfd_open");
}

redis_server::outcome redis_server::wait_until_it_answers(const deadline& until) {
  while (!until.over()) {
    if (!is_running()) {
      return log_tail().find("Address already in use") != std::string::npos ? outcome::port_taken : outcome::failed;
    }
    if (answers(std::chrono::milliseconds{until.left_ms()})) return outcome::ready;
    // Nobody tells when it has begun to listen. Should it end first, this ends at once.
    pollfd one{.fd = process_.get(), .events = POLLIN, .revents = 0};
    static_cast<void>(::poll(&one, 1, std::min(2, until.left_ms())));
  }
  return outcome::failed;
}

bool redis_server::answers(std::chrono::milliseconds patience) {
  try {
    plain_client client{port(), patience};
    if (!options_.password.empty()) client.command({"AUTH", options_.password});
    // Errors are answers, too (NOAUTH, NOPERM, MASTERDOWN), but not this one: it still reads its data.
    reply const pong = client.command({"PING"});
    if (pong.is_error() && pong.text.starts_with("LOADING")) return false;
    // Whoever else took the port may be a Redis as well; ours is about to find out.
    reply const info = client.command({"INFO", "server"});
    std::string const id = "process_id:";
    return info.text.find(id) == std::string::npos || info.text.find(id + std::to_string(pid_) + "\r") != std::string::npos;
  } catch (const error&) {
    return false;
  }
}

std::string redis_server::log() const {
  std::ifstream file{folder_ / "server.log"};
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

std::string redis_server::log_tail() const {
  std::string const all = log();
  std::string const mine = all.substr(std::min<std::size_t>(log_start_, all.size()));
  return mine.size() > 2000 ? "…" + mine.substr(mine.size() - 2000) : mine;
}

bool redis_server::is_running() const {
  if (pid_ == 0) return false;
  pollfd one{.fd = process_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) == 0;
}

reply redis_server::command(const command_words& words) {
  // Something to read where no answer is due: the server, or a test's CLIENT KILL, has ended it.
  if (client_ && client_->is_readable()) client_.reset();
  try {
    if (!client_) client_.emplace(connect());
    return client_->command(words);
  } catch (...) {
    client_.reset();
    throw;
  }
}

plain_client redis_server::connect() const {
  plain_client made{port(), options_.patience};
  if (!options_.password.empty()) static_cast<void>(made.command({"AUTH", options_.password}));
  return made;
}

void redis_server::kill() {
  client_.reset();
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

void redis_server::stop() {
  client_.reset();
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  ::kill(pid_, SIGCONT);
  if (!wait_for(process_.get(), POLLIN, deadline{options_.patience})) {
    kill();
    throw error(errc::timed_out, "the test's server " + url() + " did not end by itself; the end of its log:\n" + log_tail());
  }
  reap();
}

// It has ended, or was sent SIGKILL.
void redis_server::reap() {
  client_.reset();
  if (pid_ == 0) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  process_.close();
}

void redis_server::freeze() {
  if (!is_running()) throw error(errc::wrong_state, "the test's server " + url() + " does not run");
  ::kill(pid_, SIGSTOP);
  // It stops some time after the signal was sent; it may also have ended.
  siginfo_t state{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &state, WSTOPPED | WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
}

void redis_server::thaw() {
  if (pid_ != 0) ::kill(pid_, SIGCONT);
}

}  // namespace ergon::test
