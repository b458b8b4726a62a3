// The driver on epoll. A descriptor is entered once, for both directions and for changes only, so a wait costs no system call of its own.
//
// A change that was fetched may name a descriptor that another thread closes at that moment. So what is closed elsewhere is put on a list, and
// the worker lets go of it when it looks next: then no fetched change is left.
#include "runtime/io_driver.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <system_error>
#include <utility>

#include <ergon/runtime/root.hpp>

#include "runtime/owned_descriptor.hpp"

namespace ergon::detail {

namespace {

// So many changes are taken in a row before the worker's tasks get their turn.
constexpr std::size_t most_at_once = 256;

constexpr std::uint32_t all_changes = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class epoll_descriptor;

class epoll_driver final : public io_driver {
 public:
  epoll_driver() {
    if (epoll_.get() < 0) {
      fail("epoll_create1");
    }
    if (bell_.get() < 0) {
      fail("eventfd");
    }
    // For changes only: it rings with each write and is never read.
    ::epoll_event wanted{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &wanted) != 0) {
      fail("epoll_ctl");
    }
  }
  ~epoll_driver() override {
    if (waits()) {
      fatal("ergon: a socket outlives its runtime; close or destroy streams and listeners before the runtime ends");
    }
    forget_closed();
  }

  void poll() noexcept override { look(steady_time::min()); }
  void wait(steady_time until) noexcept override { look(until); }

  void interrupt() noexcept override {
    if (!rung_.exchange(true, std::memory_order_acq_rel)) {
      std::uint64_t const one = 1;
      static_cast<void>(!::write(bell_.get(), &one, sizeof one));
    }
  }

  std::unique_ptr<io_descriptor> watch(int descriptor, io_listener& listener, bool& first) override;

 private:
  friend class epoll_descriptor;

  void look(steady_time until) noexcept;
  int fetch(steady_time until) noexcept;
  void forget_closed() noexcept;

  owned_descriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  owned_descriptor bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> rung_{false};
  std::atomic<epoll_descriptor*> closed_{nullptr};
  bool has_exact_wait_ = true;
  std::array<::epoll_event, most_at_once> fetched_{};
};

class epoll_descriptor final : public io_descriptor {
 public:
  epoll_descriptor(epoll_driver& driver, int number, io_listener& listener) noexcept
      : listener(listener), driver_(driver), number_(number) {}

  void renew() noexcept override {
    ::epoll_event wanted{.events = all_changes, .data = {.ptr = this}};
    ::epoll_ctl(driver_.epoll_.get(), EPOLL_CTL_MOD, number_, &wanted);
  }

  void close(bool here) noexcept override {
    // Not left to the end of the descriptor: a forked child may hold another of it.
    ::epoll_ctl(driver_.epoll_.get(), EPOLL_CTL_DEL, number_, nullptr);
    ::close(number_);
    epoll_driver& driver = driver_;
    if (here) {
      listener.forgotten();
    } else {
      next = driver.closed_.load(std::memory_order_relaxed);
      while (!driver.closed_.compare_exchange_weak(next, this, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      }
    }
    driver.watched_.fetch_sub(1, std::memory_order_release);
  }

  io_listener& listener;
  epoll_descriptor* next = nullptr;

 private:
  epoll_driver& driver_;
  int number_;
};

std::unique_ptr<io_descriptor> epoll_driver::watch(int descriptor, io_listener& listener, bool& first) {
  auto made = std::make_unique<epoll_descriptor>(*this, descriptor, listener);
  ::epoll_event wanted{.events = all_changes, .data = {.ptr = made.get()}};
  // Before the first change can come.
  first = watched_.fetch_add(1, std::memory_order_seq_cst) == 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &wanted) != 0) {
    watched_.fetch_sub(1, std::memory_order_relaxed);
    fail("epoll_ctl");
  }
  return made;
}

void epoll_driver::forget_closed() noexcept {
  epoll_descriptor* each = closed_.exchange(nullptr, std::memory_order_acquire);
  while (each != nullptr) {
    std::exchange(each, each->next)->listener.forgotten();
  }
}

int epoll_driver::fetch(steady_time until) noexcept {
  constexpr int room = static_cast<int>(most_at_once);
  if (until == steady_time::min()) {
    return ::epoll_wait(epoll_.get(), fetched_.data(), room, 0);
  }
  if (until == steady_time::max()) {
    return ::epoll_wait(epoll_.get(), fetched_.data(), room, -1);
  }
  std::int64_t const left = std::max<std::int64_t>((until - clock::system().steady()).count(), 0);
#ifdef SYS_epoll_pwait2
  if (has_exact_wait_) {
    ::timespec const span{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    auto const count = static_cast<int>(::syscall(SYS_epoll_pwait2, epoll_.get(), fetched_.data(), room, &span, nullptr, 0));
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
      return count;
    }
    // Linux before 5.11.
    has_exact_wait_ = false;
  }
#endif
  std::int64_t const milliseconds = left / 1'000'000 + (left % 1'000'000 != 0 ? 1 : 0);
  return ::epoll_wait(epoll_.get(), fetched_.data(), room, static_cast<int>(std::min<std::int64_t>(milliseconds, 1'000'000'000)));
}

void epoll_driver::look(steady_time until) noexcept {
  if (closed_.load(std::memory_order_relaxed) != nullptr) {
    forget_closed();
  }
  int const count = fetch(until);
  // What was made before it was watched is seen from here on.
  static_cast<void>(watched_.load(std::memory_order_acquire));
  for (int i = 0; i < count; ++i) {
    ::epoll_event const& change = fetched_[static_cast<std::size_t>(i)];
    if (change.data.ptr == nullptr) {
      rung_.store(false, std::memory_order_release);
      continue;
    }
    bool const failed = (change.events & (EPOLLERR | EPOLLHUP)) != 0;
    static_cast<epoll_descriptor*>(change.data.ptr)
        ->listener.ready({.readable = failed || (change.events & (EPOLLIN | EPOLLRDHUP)) != 0,
                          .writable = failed || (change.events & EPOLLOUT) != 0,
                          .ended = failed || (change.events & EPOLLRDHUP) != 0});
  }
}

}  // namespace

std::unique_ptr<io_driver> make_io_driver() { return std::make_unique<epoll_driver>(); }

}  // namespace ergon::detail
