#include "servers/poll_thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <utility>

namespace ergon::test {

poll_thread::poll_thread(std::function<void(std::vector<pollfd>&)> watch, std::function<void()> turn)
    : watch_(std::move(watch)), turn_(std::move(turn)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw_errno("eventfd");
  thread_ = std::thread([this] { loop(); });
}

void poll_thread::run(const std::function<void()>& f) {
  if (!thread_.joinable()) {
    f();
    return;
  }
  auto done = std::make_shared<std::promise<void>>();
  {
    std::lock_guard const guard(lock_);
    wanted_.emplace_back([&f, done] {
      f();
      done->set_value();
    });
  }
  wake();
  done->get_future().wait();
}

void poll_thread::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard const guard(lock_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void poll_thread::loop() {
  std::vector<pollfd> watched;
  for (;;) {
    watched.assign(1, {.fd = bell_.get(), .events = POLLIN, .revents = 0});
    watch_(watched);
    // An interrupted sleep is a turn with nothing to do.
    static_cast<void>(::poll(watched.data(), watched.size(), -1));
    std::uint64_t rung = 0;
    static_cast<void>(::read(bell_.get(), &rung, sizeof rung));
    std::vector<std::function<void()>> wanted;
    bool stopping = false;
    {
      std::lock_guard const guard(lock_);
      wanted.swap(wanted_);
      stopping = stopping_;
    }
    for (const auto& each : wanted) each();
    if (stopping) return;
    turn_();
  }
}

void poll_thread::wake() const {
  std::uint64_t const one = 1;
  static_cast<void>(::write(bell_.get(), &one, sizeof one));
}

}  // namespace ergon::test
