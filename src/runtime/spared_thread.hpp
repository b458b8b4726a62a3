// A thread for the runtime's own errands that no signal interrupts: signals are for the threads of the program.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace ergon::detail {

/// Starts it, detached. Throws `std::system_error` if the system has none.
template <class F>
void start_spared_thread(F run) {
  struct blocked_signals {
    sigset_t before;
    blocked_signals() noexcept {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } const meanwhile;
  std::thread(std::move(run)).detach();
}

}  // namespace ergon::detail
