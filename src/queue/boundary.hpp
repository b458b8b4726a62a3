// Awaits a task so that the stopped path ends here: true means that it was taken. Unlike `as_result`, exceptions pass as they are.
#pragma once

#include <coroutine>
#include <utility>

#include <ergon/runtime/root.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::detail {

class boundary {
 public:
  explicit boundary(task<void> body) : child_(task_access::release(std::move(body))) {}
  boundary(const boundary&) = delete;
  boundary& operator=(const boundary&) = delete;
  ~boundary() {
    if (child_ != nullptr) child_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    running_ = std::exchange(child_, nullptr);
    running_.promise().set_parent(parent.promise(), true);
    root_ = running_.promise().root();
    return transfer(running_);
  }
  bool await_resume() {
    if (root_->take_unwound()) return true;
    frame_end<void> const destroys{running_};
    running_.promise().take_result();
    return false;
  }

 private:
  std::coroutine_handle<task_promise<void>> child_;
  std::coroutine_handle<task_promise<void>> running_ = nullptr;
  task_root* root_ = nullptr;
};

}  // namespace ergon::detail
