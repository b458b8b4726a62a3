#include "bench/driver/redis_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

namespace ergon::bench {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds patience{10};

// What the server runs with beside its port and folder.
const std::vector<std::string> server_arguments{"--save", "", "--appendonly", "no", "--protected-mode", "yes"};

// Debian's redis-tools ships the server as redis-check-rdb: the program goes by the name that it is called by.
std::optional<fs::path> find_program() {
  const char* const path = std::getenv("PATH");
  for (const char* const name : {"redis-server", "redis-check-rdb"}) {
    std::istringstream folders{path != nullptr ? path : ""};
    for (std::string folder; std::getline(folders, folder, ':');) {
      fs::path file = fs::path{folder} / name;
      if (::access(file.c_str(), X_OK) == 0) return file;
    }
  }
  return std::nullopt;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// Somebody may take it before the server does: then the server ends, and another is tried.
std::uint16_t free_port() {
  const descriptor s{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(s.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(s.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "a free port for a Redis server");
  return ntohs(address.sin_port);
}

std::string last_lines(const fs::path& file) {
  std::ifstream in{file};
  std::ostringstream all;
  all << in.rdbuf();
  std::string text = all.str();
  if (text.size() > 600) text.erase(0, text.size() - 600);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

redis_server::redis_server(const fs::path& folder) : folder_{folder} {
  const auto program = find_program();
  if (!program)
    throw std::runtime_error(
        "there is no Redis server: neither redis-server nor redis-check-rdb is in PATH (Debian: redis-tools)");
  fs::create_directories(folder_);
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = free_port();
    start(*program);
    const auto begin = std::chrono::steady_clock::now();
    while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (answers()) return;
      if (std::chrono::steady_clock::now() - begin > patience) {
        stop();
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    pid_ = 0;
  }
  throw std::runtime_error(
      fmt::format("the Redis server {} did not start; it wrote: {}", program->string(), last_lines(folder_ / "server.log")));
}

redis_server::~redis_server() { stop(); }

std::string redis_server::url() const { return fmt::format("redis://127.0.0.1:{}", port_); }

std::string redis_server::settings() { return R"(--save "" --appendonly no, TCP on loopback)"; }

void redis_server::start(const fs::path& program) {
  std::vector<std::string> words{
      "redis-server", "--bind", "127.0.0.1",   "--port", std::to_string(port_), "--dir", folder_.string(),
      "--logfile",    "",       "--daemonize", "no"};
  words.insert(words.end(), server_arguments.begin(), server_arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = (folder_ / "server.log").string();
  const pid_t driver = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork for a Redis server");
  if (pid_ != 0) return;
  // In a group of its own, so that a Ctrl-C reaches the driver alone, which then ends it.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != driver) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(nothing, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

void redis_server::stop() noexcept {
  if (pid_ <= 0) return;
  // It keeps nothing, so there is nothing that it should finish.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

bool redis_server::answers() {
  // Who answers may be another Redis that took the port first; ours is then about to end.
  const std::string info = ask("INFO server", 16384);
  if (info.find(fmt::format("process_id:{}\r", pid_)) == std::string::npos) return false;
  constexpr std::string_view name = "redis_version:";
  const auto at = info.find(name);
  if (at != std::string::npos) version_ = info.substr(at + name.size(), info.find('\r', at) - at - name.size());
  return true;
}

void redis_server::clear() {
  for (const char* const command : {"FLUSHALL SYNC", "MEMORY PURGE", "CONFIG RESETSTAT"}) {
    if (const std::string answer = ask(command, 5); answer != "+OK\r\n")
      throw std::runtime_error(fmt::format("the Redis server answered {} with '{}'", command, answer));
  }
}

std::string redis_server::ask(const std::string& command, std::size_t limit) const {
  const descriptor s{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const timeval limit_time{.tv_sec = patience.count(), .tv_usec = 0};
  ::setsockopt(s.get(), SOL_SOCKET, SO_RCVTIMEO, &limit_time, sizeof limit_time);
  const sockaddr_in address = loopback(port_);
  if (::connect(s.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  // The QUIT makes the server close, so the end of the answer need not be parsed.
  const std::string both = command + "\r\nQUIT\r\n";
  if (::send(s.get(), both.data(), both.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(both.size())) return {};
  std::string answer;
  std::array<char, 4096> buffer{};
  while (answer.size() < limit) {
    const ssize_t n = ::recv(s.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    answer.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return answer.substr(0, limit);
}

}  // namespace ergon::bench
