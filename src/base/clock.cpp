// The system's clock, and the clock that a test moves. The only place that asks the kernel for the time.
//
// A manual clock calls each listener under that listener's own mutex. A token takes the same mutex when it goes, so after its
// destructor no call is under way and none follows, and one slow listener holds up nobody who unlistens another.
#include <ergon/base/clock.hpp>

#include <time.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include <ergon/base/error.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

nanoseconds read_clock(clockid_t id) noexcept {
  timespec t{};
  ::clock_gettime(id, &t);
  return std::chrono::seconds{t.tv_sec} + nanoseconds{t.tv_nsec};
}

class system_clock final : public clock {
 public:
  [[nodiscard]] wall_time wall() const noexcept override { return wall_time{read_clock(CLOCK_REALTIME)}; }
  [[nodiscard]] steady_time steady() const noexcept override { return steady_time{read_clock(CLOCK_MONOTONIC)}; }
  [[nodiscard]] nanoseconds boot() const noexcept override { return read_clock(CLOCK_BOOTTIME); }
  [[nodiscard]] bool is_manual() const noexcept override { return false; }

  [[nodiscard]] std::string boot_id() const override {
    static const std::string id = [] {
      std::ifstream file{"/proc/sys/kernel/random/boot_id"};
      std::string line;
      std::getline(file, line);
      return line.empty() ? std::string{"unknown"} : line;
    }();
    return id;
  }

  [[nodiscard]] std::shared_ptr<void> listen(listener /*never called*/) override { return std::make_shared<char>(); }
};

}  // namespace

clock::~clock() = default;

steady_time clock::last_tick() noexcept { return steady_time{read_clock(CLOCK_MONOTONIC_COARSE)}; }

clock& clock::system() noexcept {
  static system_clock instance;
  return instance;
}

struct manual_clock::state {
  struct entry {
    std::mutex mutex;
    listener call;
  };

  mutable std::mutex mutex;
  nanoseconds wall = std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}.time_since_epoch();
  nanoseconds steady = 24h;
  nanoseconds boot = 24h;
  unsigned boots = 1;
  std::vector<std::shared_ptr<entry>> listeners;

  template <class Move>
  void move(Move how) {
    std::vector<std::shared_ptr<entry>> told;
    {
      std::lock_guard lock{mutex};
      how();
      told = listeners;
    }
    for (const auto& one : told) {
      std::lock_guard lock{one->mutex};
      if (one->call) one->call();
    }
  }
};

namespace {

void refuse_negative(const char* what, nanoseconds by) {
  if (by < 0ns) {
    throw error{errc::invalid_argument, std::string{"manual_clock::"} + what + " by " + std::to_string(by.count()) +
                                            " ns: time does not run backwards; set_wall moves the calendar back"};
  }
}

}  // namespace

manual_clock::manual_clock() : state_(std::make_shared<state>()) {}
manual_clock::~manual_clock() = default;

wall_time manual_clock::wall() const noexcept {
  std::lock_guard lock{state_->mutex};
  return wall_time{state_->wall};
}

steady_time manual_clock::steady() const noexcept {
  std::lock_guard lock{state_->mutex};
  return steady_time{state_->steady};
}

nanoseconds manual_clock::boot() const noexcept {
  std::lock_guard lock{state_->mutex};
  return state_->boot;
}

std::string manual_clock::boot_id() const {
  std::lock_guard lock{state_->mutex};
  return "manual-boot-" + std::to_string(state_->boots);
}

std::shared_ptr<void> manual_clock::listen(listener f) {
  auto mine = std::make_shared<state::entry>();
  mine->call = std::move(f);
  {
    std::lock_guard lock{state_->mutex};
    state_->listeners.push_back(mine);
  }
  auto forget = [all = state_, mine](void*) {
    {
      std::lock_guard lock{all->mutex};
      std::erase(all->listeners, mine);
    }
    std::lock_guard lock{mine->mutex};
    mine->call = nullptr;
  };
  return {mine.get(), std::move(forget)};
}

void manual_clock::advance(nanoseconds by) {
  refuse_negative("advance", by);
  state_->move([&] {
    state_->wall += by;
    state_->steady += by;
    state_->boot += by;
  });
}

void manual_clock::set_wall(wall_time to) {
  state_->move([&] { state_->wall = to.time_since_epoch(); });
}

void manual_clock::suspend(nanoseconds by) {
  refuse_negative("suspend", by);
  state_->move([&] {
    state_->wall += by;
    state_->boot += by;
  });
}

void manual_clock::reboot(nanoseconds off) {
  refuse_negative("reboot", off);
  state_->move([&] {
    state_->wall += off;
    state_->steady = 0ns;
    state_->boot = 0ns;
    ++state_->boots;
  });
}

}  // namespace ergon
