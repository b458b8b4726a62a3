// A thread that reads the store for tasks, so that a listing of a million jobs never holds up the runtime. It starts with the
// first read.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/task.hpp>

#include "broker/sqlite/process_mark.hpp"

namespace ergon::sqlite {

class reader {
 public:
  reader() = default;
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  /// Finishes what is queued.
  ~reader();

  /// Calls `f` on the thread and gives what it returns or throws.
  template <class F>
  task<std::invoke_result_t<F&>> run(F f) {
    call<F> mine{std::move(f)};
    push(mine);
    co_await mine.done;
    if (mine.failure) {
      std::rethrow_exception(mine.failure);
    }
    co_return std::move(*mine.value);
  }

 private:
  struct item {
    virtual void run() noexcept = 0;

   protected:
    ~item() = default;
  };
  template <class F>
  struct call final : item {
    explicit call(F g) : f{std::move(g)} {}
    void run() noexcept override {
      try {
        value.emplace(f());
      } catch (...) {
        failure = std::current_exception();
      }
      done.complete();
    }
    F f;
    std::optional<std::invoke_result_t<F&>> value;
    std::exception_ptr failure;
    completion done;
  };

  void push(item& what);
  void read_forever();

  process_mark process_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<item*> queue_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace ergon::sqlite
