// Life of a root and of the waits in it; the locking is described in root.hpp.
#include <ergon/runtime/root.hpp>

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/root_list.hpp>

#include "runtime/scheduler.hpp"

namespace ergon {

namespace detail {

namespace {

// What a transfer through the loop left for `resume_chain`.
constinit thread_local std::coroutine_handle<> transferred;

}  // namespace

void spin_wait(unsigned round) noexcept {
  // With more threads than processors the holder may be the one that waits for ours.
  if (round % 64 == 63) {
    ::sched_yield();
    return;
  }
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void fatal(const char* text) noexcept {
  std::fputs(text, stderr);
  std::fputc('\n', stderr);
  std::abort();
}

std::coroutine_handle<> transfer_through_loop(std::coroutine_handle<> next) noexcept {
  transferred = next;
  return std::noop_coroutine();
}

void resume_chain(std::coroutine_handle<> frame) noexcept {
  frame.resume();
  while (transferred) [[unlikely]] {
    std::exchange(transferred, {}).resume();
  }
}

task_root::task_root(scheduler& home, promise_base& outermost, std::string_view name) noexcept
    : scheduler_(&home), outermost_(&outermost), name_(name) {
  run = &task_root::start;
}

task_root::~task_root() { delete stop_source_; }

void task_root::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

void task_root::start(work& self) noexcept {
  auto& root = static_cast<task_root&>(self);
  if (root.cancelled()) {
    unwind(*root.outermost_);
  } else {
    resume_chain(root.outermost_->handle());
  }
}

void task_root::cancel() noexcept {
  operation* ended = nullptr;
  std::stop_source source{std::nostopstate};
  {
    std::lock_guard const guard(lock_);
    if (cancelled_.load(std::memory_order_relaxed) || done()) {
      return;
    }
    cancelled_.store(true, std::memory_order_release);
    if (operation_ != nullptr && operation_->disarm()) {
      ended = std::exchange(operation_, nullptr);
      ended->stopped_ = true;
    }
    if (stop_source_ != nullptr) {
      source = *stop_source_;
    }
  }
  if (ended != nullptr) {
    schedule(*ended);
  }
  source.request_stop();
}

std::stop_token task_root::stop_token() {
  auto made = std::make_unique<std::stop_source>();
  std::stop_source mine{std::nostopstate};
  bool late = false;
  {
    std::lock_guard const guard(lock_);
    if (stop_source_ == nullptr) {
      stop_source_ = made.release();
      late = cancelled_.load(std::memory_order_relaxed);
    }
    mine = *stop_source_;
  }
  if (late) {
    mine.request_stop();
  }
  return mine.get_token();
}

void task_root::schedule(work& item) noexcept { scheduler_->push(item); }

bool task_root::set_joiner(join_waiter& waiter) noexcept {
  std::lock_guard const guard(join_lock_);
  if (done_.load(std::memory_order_relaxed)) {
    return false;
  }
  if (joiner_ != nullptr) {
    fatal("ergon: two tasks await one join handle at the same time");
  }
  joiner_ = &waiter;
  return true;
}

bool task_root::clear_joiner(join_waiter& waiter) noexcept {
  std::lock_guard const guard(join_lock_);
  if (joiner_ != &waiter) {
    return false;
  }
  joiner_ = nullptr;
  return true;
}

void task_root::unwind(promise_base& leaf) noexcept {
  task_root& root = *leaf.root();
  promise_base* at = &leaf;
  for (;;) {
    promise_base* const up = at->parent();
    bool const boundary = at->is_boundary();
    at->handle().destroy();
    if (up == nullptr) {
      root.stopped_ = true;
      root.finish();
      return;
    }
    if (boundary) {
      root.unwound_ = true;
      resume_chain(up->handle());
      return;
    }
    at = up;
  }
}

void finish_root(promise_base& outermost) noexcept {
  task_root& root = *outermost.root();
  root.take_result(outermost);
  outermost.handle().destroy();
  root.finish();
}

void task_root::finish() noexcept {
  scheduler_->ended(*this);
  join_waiter* told = nullptr;
  {
    std::lock_guard const guard(join_lock_);
    done_.store(true, std::memory_order_release);
    told = std::exchange(joiner_, nullptr);
  }
  if (told != nullptr) {
    told->joined(*told, *this);
  }
  release();
}

void root_list::insert(task_root& root) noexcept {
  root.previous_ = nullptr;
  root.following_ = first_;
  if (first_ != nullptr) {
    first_->previous_ = &root;
  }
  first_ = &root;
}

void root_list::remove(task_root& root) noexcept {
  if (root.following_ != nullptr) {
    root.following_->previous_ = root.previous_;
  }
  if (root.previous_ != nullptr) {
    root.previous_->following_ = root.following_;
  } else {
    (first_ == &root ? first_ : cancelled_) = root.following_;
  }
}

void root_list::cancel_all() noexcept {
  constexpr int batch = 64;
  std::array<task_root*, batch> some;
  int count = 0;
  do {
    count = 0;
    {
      std::lock_guard const guard(lock);
      for (; count < batch && first_ != nullptr; ++count) {
        task_root& root = *first_;
        remove(root);
        root.previous_ = nullptr;
        root.following_ = cancelled_;
        if (cancelled_ != nullptr) {
          cancelled_->previous_ = &root;
        }
        cancelled_ = &root;
        root.retain();
        some[static_cast<std::size_t>(count)] = &root;
      }
    }
    for (int i = 0; i < count; ++i) {
      task_root* const root = some[static_cast<std::size_t>(i)];
      root->cancel();
      root->release();
    }
  } while (count == batch);
}

join_wait::join_wait(task_root& target) noexcept : target_(&target) {
  joined = [](join_waiter& self, task_root&) noexcept { static_cast<join_wait&>(self).wake(); };
}
bool join_wait::arm() noexcept { return target_->set_joiner(*this); }
bool join_wait::disarm() noexcept { return target_->clear_joiner(*this); }

void launch_owned(task_root& child) noexcept { child.home().launch_owned(child); }

void stop_here::begin(promise_base& leaf) noexcept {
  leaf_ = &leaf;
  run = [](work& self) noexcept { task_root::unwind(*static_cast<stop_here&>(self).leaf_); };
  leaf.root()->schedule(*this);
}

}  // namespace detail

std::coroutine_handle<> operation::begin(detail::promise_base& leaf) noexcept {
  leaf_ = &leaf;
  run = &operation::go_on;
  detail::task_root& root = *leaf.root();
  bool stop = false;
  switch (cancel_) {
    case on_cancel::check:
      stop = root.cancelled();
      [[fallthrough]];
    case on_cancel::ignore:
      if (!stop) {
        return arm() ? std::noop_coroutine() : detail::transfer(leaf.handle());
      }
      break;
    case on_cancel::end: {
      std::unique_lock guard(root.lock_);
      stop = root.cancelled();
      if (stop) {
        break;
      }
      if (!arm()) {
        guard.unlock();
        return detail::transfer(leaf.handle());
      }
      root.operation_ = this;
      return std::noop_coroutine();
    }
  }
  stopped_ = true;
  if (report_stop_) {
    return detail::transfer(leaf.handle());
  }
  root.schedule(*this);
  return std::noop_coroutine();
}

void operation::go_on(work& self) noexcept {
  auto& mine = static_cast<operation&>(self);
  detail::promise_base& leaf = *mine.leaf_;
  if (mine.stopped_ && !mine.report_stop_) {
    detail::task_root::unwind(leaf);
  } else {
    detail::resume_chain(leaf.handle());
  }
}

void operation::release() noexcept {
  if (cancel_ == on_cancel::end) {
    std::lock_guard const guard(root().lock_);
    root().operation_ = nullptr;
  }
}

void operation::queue() noexcept { root().schedule(*this); }

void operation::wake() noexcept {
  release();
  queue();
}

void completion::complete() noexcept {
  if (state_.exchange(complete_, std::memory_order_acq_rel) == waiting_) {
    leaf_->root()->schedule(*this);
  }
}

bool completion::begin(detail::promise_base& leaf) noexcept {
  leaf_ = &leaf;
  run = &completion::go_on;
  unsigned char expected = pending_;
  return state_.compare_exchange_strong(expected, waiting_, std::memory_order_acq_rel, std::memory_order_acquire);
}

void completion::go_on(work& self) noexcept { detail::resume_chain(static_cast<completion&>(self).leaf_->handle()); }

}  // namespace ergon
