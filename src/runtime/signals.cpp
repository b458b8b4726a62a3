// The signal handler, the thread behind it, and the sets that listen; see signals.hpp.
//
// Locking. `hub::mutex` guards the dispositions and the list of subscriptions; a subscription's spin lock guards its pending
// numbers and its waiters, and is taken under the hub's mutex. The handler touches only lock-free atomics and a descriptor.
#include <ergon/runtime/signals.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/runtime/spin_lock.hpp>

#include "runtime/spared_thread.hpp"

namespace ergon {

namespace detail {

struct signal_subscription {
  std::vector<int> signals;
  spin_lock lock;
  // At most one of each number, so the capacity is reserved at the start.
  std::vector<int> pending;
  wait_list waiters;
  /// Called instead, under the hub's mutex.
  std::function<void(int)> call;

  void deliver(int signal) noexcept {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) {
      return;
    }
    if (call) {
      call(signal);
      return;
    }
    signal_set::wait_operation* served = nullptr;
    {
      std::lock_guard const guard(lock);
      served = static_cast<signal_set::wait_operation*>(waiters.pop_front());
      if (served != nullptr) {
        served->signal_ = signal;
      } else if (std::find(pending.begin(), pending.end(), signal) == pending.end()) {
        pending.push_back(signal);
      }
    }
    if (served != nullptr) {
      served->wake();
    }
  }
};

}  // namespace detail

namespace {

constexpr std::size_t signal_numbers = NSIG;

constinit std::array<std::atomic<bool>, signal_numbers> arrived{};
constinit std::atomic<int> wake_descriptor{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int signal) {
  int const saved = errno;
  arrived[static_cast<std::size_t>(signal)].store(true, std::memory_order_release);
  std::uint64_t const one = 1;
  // Blocks only when 2^64 writes are unread.
  static_cast<void>(!::write(wake_descriptor.load(std::memory_order_relaxed), &one, sizeof one));
  errno = saved;
}

struct hub {
  std::mutex mutex;
  bool started = false;
  std::vector<detail::signal_subscription*> subscriptions;
  std::array<unsigned, signal_numbers> listeners{};
  std::array<struct sigaction, signal_numbers> before{};

  static hub& instance() {
    // Never destroyed: its thread runs until the process ends.
    static hub* const only = new hub;
    return *only;
  }

  // Under the mutex.
  void start() {
    if (started) {
      return;
    }
    int const descriptor = ::eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) {
      throw std::system_error(errno, std::generic_category(), "eventfd for signals");
    }
    wake_descriptor.store(descriptor, std::memory_order_relaxed);
    try {
      detail::start_spared_thread([this, descriptor] { listen(descriptor); });
    } catch (...) {
      ::close(descriptor);
      throw;
    }
    started = true;
  }

  [[noreturn]] void listen(int descriptor) noexcept {
    for (;;) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(descriptor, &count, sizeof count));
      std::lock_guard const guard(mutex);
      for (std::size_t i = 1; i < signal_numbers; ++i) {
        if (arrived[i].exchange(false, std::memory_order_acquire)) {
          for (detail::signal_subscription* s : subscriptions) {
            s->deliver(static_cast<int>(i));
          }
        }
      }
    }
  }

  // Under the mutex.
  void add_listener(int signal) {
    auto const at = static_cast<std::size_t>(signal);
    if (listeners[at] == 0) {
      // One that came for the last listener and met nobody is not ours.
      arrived[at].store(false, std::memory_order_relaxed);
      struct sigaction action{};
      action.sa_handler = &on_signal;
      action.sa_flags = SA_RESTART;
      ::sigfillset(&action.sa_mask);
      if (::sigaction(signal, &action, &before[at]) != 0) {
        throw error(errc::invalid_argument,
                    "signal " + std::to_string(signal) + " cannot be waited for: it is no signal that can be caught");
      }
    }
    ++listeners[at];
  }
  void remove_listener(int signal) noexcept {
    auto const at = static_cast<std::size_t>(signal);
    if (--listeners[at] == 0) {
      ::sigaction(signal, &before[at], nullptr);
    }
  }
};

std::unique_ptr<detail::signal_subscription> subscribe(std::initializer_list<int> signals, std::function<void(int)> call) {
  auto mine = std::make_unique<detail::signal_subscription>();
  mine->call = std::move(call);
  for (int const s : signals) {
    if (s <= 0 || s >= static_cast<int>(signal_numbers)) {
      throw error(errc::invalid_argument,
                  "signal " + std::to_string(s) + " is no signal: numbers go from 1 to " + std::to_string(signal_numbers - 1));
    }
    if (std::find(mine->signals.begin(), mine->signals.end(), s) == mine->signals.end()) {
      mine->signals.push_back(s);
    }
  }
  mine->pending.reserve(mine->signals.size());
  hub& all = hub::instance();
  std::lock_guard const guard(all.mutex);
  all.start();
  all.subscriptions.reserve(all.subscriptions.size() + 1);
  std::size_t added = 0;
  try {
    for (; added < mine->signals.size(); ++added) {
      all.add_listener(mine->signals[added]);
    }
  } catch (...) {
    while (added > 0) {
      all.remove_listener(mine->signals[--added]);
    }
    throw;
  }
  all.subscriptions.push_back(mine.get());
  return mine;
}

void unsubscribe(detail::signal_subscription& gone) noexcept {
  hub& all = hub::instance();
  std::lock_guard const guard(all.mutex);
  if (!gone.waiters.empty()) {
    detail::fatal("ergon: a signal_set was destroyed while tasks wait for it");
  }
  for (int const s : gone.signals) {
    all.remove_listener(s);
  }
  std::erase(all.subscriptions, &gone);
}

}  // namespace

signal_set::signal_set(std::initializer_list<int> signals) : subscription_(subscribe(signals, {})) {}
signal_set::~signal_set() { unsubscribe(*subscription_); }

signal_callback::signal_callback(std::initializer_list<int> signals, std::function<void(int)> call)
    : subscription_(subscribe(signals, std::move(call))) {}
signal_callback::~signal_callback() { unsubscribe(*subscription_); }

bool signal_set::wait_operation::arm() noexcept {
  std::lock_guard const guard(subscription_->lock);
  if (!subscription_->pending.empty()) {
    signal_ = subscription_->pending.front();
    subscription_->pending.erase(subscription_->pending.begin());
    return false;
  }
  subscription_->waiters.push_back(*this);
  return true;
}

bool signal_set::wait_operation::disarm() noexcept {
  std::lock_guard const guard(subscription_->lock);
  return subscription_->waiters.remove(*this);
}

task<int> wait_signal(std::initializer_list<int> signals) {
  // The list's array ends with the caller's expression: what is needed of it goes into the frame before the first suspension.
  return
      [](std::unique_ptr<signal_set> set) -> task<int> { co_return co_await set->wait(); }(std::make_unique<signal_set>(signals));
}

}  // namespace ergon
