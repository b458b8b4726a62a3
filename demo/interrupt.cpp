#include "interrupt.hpp"

#include <csignal>

#include <poll.h>

namespace demo {
namespace {

volatile std::sig_atomic_t flag = 0;

extern "C" void raise_flag(int /*signal*/) { flag = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = raise_flag;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

bool interrupted() noexcept { return flag != 0; }

void nap(std::chrono::milliseconds span) noexcept { ::poll(nullptr, 0, static_cast<int>(span.count())); }

}  // namespace demo
