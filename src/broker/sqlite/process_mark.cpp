#include "broker/sqlite/process_mark.hpp"

#include <pthread.h>

#include <atomic>

#include <fmt/format.h>

#include <ergon/base/error.hpp>

namespace ergon::sqlite {

namespace {

std::atomic<unsigned> forks{0};

void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

unsigned watched_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, &count_fork);
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

process_mark::process_mark() : forks_{watched_forks()} {}

bool process_mark::is_mine() const noexcept { return forks.load(std::memory_order_relaxed) == forks_; }

void process_mark::check(const std::string& what) const {
  if (!is_mine()) {
    throw error{
        errc::closed,
        fmt::format("the store \"{}\" was opened before fork(): a child must open it anew, after exec or in a runtime of its own",
                    what)};
  }
}

}  // namespace ergon::sqlite
