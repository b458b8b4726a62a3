// Promises 1, 2 and 3 under crashes. The kill points are not picked by hand: a first run lists every broker call in a job's life, and
// then a process dies by SIGKILL before and after each of them. A call of the list at which nobody died fails the test.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>
#include <ergon/broker/tracing.hpp>

#include "crash/life.hpp"
#include "servers/redis_server.hpp"

namespace {

using namespace ergon;

/// A folder of its own that goes with the test.
class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ergon-crash-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"cannot make a folder"};
    }
    path_ = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Where the store of a life is that has a folder for its notes.
using store_of = std::function<std::string(const folder& in)>;

/// Appends a line and does not return before the kernel has it: a killed process loses nothing of that.
void append(const std::filesystem::path& file, const std::string& line) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string text = line + "\n";
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::abort();
  }
  ::close(fd);
}

std::set<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.insert(line);
  }
  return lines;
}

/// Runs this program again as the process that dies, with what to do in its environment. Returns how it ended.
int run_victim(const std::string& url, const folder& in, const std::string& call, const std::string& point, int nth) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ERGON_CRASH_URL", url.c_str(), 1);
    ::setenv("ERGON_CRASH_FOLDER", (in / "").c_str(), 1);
    ::setenv("ERGON_CRASH_CALL", call.c_str(), 1);
    ::setenv("ERGON_CRASH_POINT", point.c_str(), 1);
    ::setenv("ERGON_CRASH_NTH", std::to_string(nth).c_str(), 1);
    ::execl("/proc/self/exe", "ergon_crash_victim", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// What every run starts from: a store in which a suspect waits.
void prepare(const std::string& url, const folder& in) {
  runtime rt{{.threads = 1}};
  crash::plant_suspect(open_broker(url, {.runtime = &rt}), [&](const std::string& id) { append(in / "acknowledged", id); });
}

void recover_and_check(const std::string& url, const folder& in) {
  runtime rt{{.threads = 2}};
  const auto store = open_broker(url, {.runtime = &rt});
  crash::clean_up(store);
  crash::expect_all_ended(store, lines_of(in / "acknowledged"));
}

struct kill_point {
  std::string call;
  std::string point;
  int nth = 1;
};

/// A process dies before and after every broker call of a job's life, and each time another cleans up. So many lives at once.
void kill_everywhere(const store_of& url_of, std::size_t at_once) {
  std::set<std::string> calls;
  {
    const folder in;
    const std::string url = url_of(in);
    prepare(url, in);
    const int status = run_victim(url, in, "", "", 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the life that nobody ended did not end well: " << status;
    calls = lines_of(in / "calls");
    recover_and_check(url, in);
  }
  // A life that skipped one of these would prove little.
  for (const char* call : {"broker.enqueue", "broker.join",     "broker.wait",    "broker.find",       "broker.list",
                           "broker.queues",  "broker.stats",    "broker.workers", "broker.cancel",     "broker.run",
                           "broker.remove",  "broker.pause",    "broker.resume",  "consumer.fetch",    "consumer.settle",
                           "consumer.mark",  "consumer.report", "consumer.leave", "consumer.maintain", "consumer.news"}) {
    EXPECT_TRUE(calls.contains(call)) << call << " does not occur in a job's life";
  }
  std::vector<kill_point> points;
  for (const auto& call : calls) {
    for (const std::string point : {"before", "after"}) {
      // Waits that only a cancel ends have no "after".
      if (point == "after" && (call == "consumer.maintain" || call == "consumer.news")) {
        continue;
      }
      const bool often = call == "consumer.settle" || call == "consumer.fetch" || call == "broker.enqueue";
      for (const int nth : often ? std::vector{1, 2, 4} : std::vector{1}) points.push_back({call, point, nth});
    }
  }
  std::atomic<std::size_t> next{0};
  const auto lives = [&] {
    for (std::size_t i = next++; i < points.size(); i = next++) {
      const auto& [call, point, nth] = points[i];
      SCOPED_TRACE(call + ", killed " + point + " call " + std::to_string(nth));
      const folder in;
      const std::string url = url_of(in);
      prepare(url, in);
      const int status = run_victim(url, in, call, point, nth);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "nobody died there: " << status;
      recover_and_check(url, in);
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < at_once; ++i) threads.emplace_back(lives);
  lives();
}

TEST(KillPointTest, AJobSurvivesSigkillBeforeAndAfterEveryBrokerCallOfItsLife) {
  kill_everywhere([](const folder& in) { return "sqlite:" + (in / "jobs.db").string(); }, 1);
}

// Here most of the time is that of leases that run out.
TEST(KillPointTest, AJobOnRedisSurvivesSigkillBeforeAndAfterEveryBrokerCallOfItsLife) {
  test::redis_server server;
  kill_everywhere(
      [&](const folder& in) { return server.url() + "?lease=1s&namespace=" + (in / "").parent_path().filename().string(); }, 12);
}

/// On `memory:` a worker cannot be killed: from its last call on every call of it fails, and it is abandoned.
TEST(KillPointTest, AJobSurvivesAWorkerThatIsAbandonedAtEveryBrokerCallInMemory) {
  std::set<std::string> calls;
  int store_number = 0;
  const auto live_until = [&](const std::string& last_call, trace_point point, bool& died) {
    // The abandoned worker may make its last calls until the runtime ends: what they touch is made before it.
    std::mutex mutex;
    std::set<std::string> ids;
    bool dead = false;
    std::stop_source end;
    runtime rt{{.threads = 2}};
    const auto store = open_broker("memory:crash" + std::to_string(++store_number), {.runtime = &rt});
    const auto tell = [&](const std::string& id) {
      const std::lock_guard held{mutex};
      ids.insert(id);
    };
    crash::plant_suspect(store, tell);
    const auto traced = traced_broker(store, [&](std::string_view call, trace_point at) {
      if (call == "consumer.abandon") {
        return;
      }
      {
        const std::lock_guard held{mutex};
        calls.emplace(call);
        dead = dead || (call == last_call && at == point);
        if (!dead) {
          return;
        }
      }
      // Nor does it wait for anything any more.
      end.request_stop();
      throw error{errc::unavailable, "this process is dead"};
    });
    try {
      crash::live(traced, tell, end.get_token());
    } catch (const error&) {
      // The dead tell no tales.
    }
    crash::clean_up(store);
    const std::lock_guard held{mutex};
    died = dead;
    crash::expect_all_ended(store, ids);
  };
  bool died = false;
  live_until("", trace_point::before, died);
  EXPECT_FALSE(died);
  for (const auto& call : std::set<std::string>{calls}) {
    for (const auto point : {trace_point::before, trace_point::after}) {
      if (point == trace_point::after && (call == "consumer.maintain" || call == "consumer.news")) {
        continue;
      }
      SCOPED_TRACE(call + (point == trace_point::before ? ", abandoned before it" : ", abandoned after it"));
      live_until(call, point, died);
      EXPECT_TRUE(died) << "nobody died there";
    }
  }
}

/// The process that dies.
int victim() {
  const std::filesystem::path in = std::getenv("ERGON_CRASH_FOLDER");
  const std::string last_call = std::getenv("ERGON_CRASH_CALL");
  const trace_point point =
      std::string_view{std::getenv("ERGON_CRASH_POINT")} == "before" ? trace_point::before : trace_point::after;
  const int nth = std::atoi(std::getenv("ERGON_CRASH_NTH"));
  std::mutex mutex;
  std::set<std::string> calls;
  int count = 0;
  runtime rt{{.threads = 2}};
  const auto store =
      traced_broker(open_broker(std::getenv("ERGON_CRASH_URL"), {.runtime = &rt}), [&](std::string_view call, trace_point at) {
        const std::lock_guard held{mutex};
        if (calls.emplace(call).second && call != "consumer.abandon") {
          append(in / "calls", std::string{call});
        }
        if (call == last_call && at == point && ++count == nth) {
          ::kill(::getpid(), SIGKILL);
        }
      });
  crash::live(store, [&](const std::string& id) { append(in / "acknowledged", id); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("ERGON_CRASH_CALL") != nullptr) {
    return victim();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
