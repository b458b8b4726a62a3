// The worker processes. The crew owns them: none outlives it, and the kernel kills those of a demo that is killed itself. Used by
// one thread, the process's first, because a child is told of the death of the thread that started it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace demo {

struct crew_options {
  std::string broker;
  std::string queue;
  /// Handlers at once in each process.
  unsigned concurrency = 2;
  /// Where each leaves what it says, as worker-N.log.
  std::filesystem::path logs;
};

class crew {
 public:
  explicit crew(crew_options options) : options_(std::move(options)) {}
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  /// SIGKILL for all that are left.
  ~crew();

  /// Starts this program once more, as a worker; gives its number, counted from 1.
  unsigned hire();
  [[nodiscard]] std::optional<unsigned> number_of(pid_t pid) const;

  /// Stops a worker where it stands, and returns when it does. False: it has ended, and `casualty` says how.
  [[nodiscard]] bool freeze(pid_t pid);
  void thaw(pid_t pid);
  /// SIGKILL, and waits for its end.
  void kill(pid_t pid);

  /// What the first worker that ended unbidden has to say, if one did.
  [[nodiscard]] std::optional<std::string> casualty();
  /// SIGTERM, and SIGKILL for those that are still there after ten seconds.
  void dismiss();

 private:
  struct member {
    pid_t pid = 0;
    unsigned number = 0;
  };

  [[nodiscard]] std::filesystem::path log_of(unsigned number) const;
  void forget(pid_t pid);

  crew_options options_;
  std::vector<member> members_;
  unsigned hired_ = 0;
};

/// The other side: what a worker process does until it is told to stop. Returns the exit code.
[[nodiscard]] int work_for(pid_t parent, const std::string& queue, unsigned concurrency);

}  // namespace demo
