#include "broker/sqlite/committer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ergon::sqlite {

namespace {

constexpr off_t ballast_size = off_t{4} << 20;
constexpr int patient_ms = 10'000;
/// What a store at its own limit may grow by while it drains: a kept result is written before its job's page is free.
constexpr std::int64_t spare_pages = 1024;

bool is_full(const failure& f) noexcept { return f.reason() == errc::store_full; }

}  // namespace

committer::committer(ergon::runtime& rt, connection db, std::unique_ptr<store> in, side_file& side, committer_options options)
    : runtime_{rt},
      db_{std::move(db)},
      store_{std::move(in)},
      side_{side},
      options_{std::move(options)},
      ballast_{options_.path + "-ballast"} {
  load_ballast();
}

committer::~committer() { close(); }

void committer::check_open() const {
  if (closed_) {
    throw error{errc::closed, fmt::format("the store \"{}\" is closed", options_.path)};
  }
}

void committer::submit(operation_base& what) {
  process_.check(options_.path);
  std::unique_lock held{mutex_};
  check_open();
  queue_.push_back(&what);
  kick(held);
}

void committer::enlist(operation_base& what) {
  process_.check(options_.path);
  const std::lock_guard held{mutex_};
  check_open();
  queue_.push_back(&what);
}

void committer::submit_fetch(fetch_base& what) {
  process_.check(options_.path);
  std::unique_lock held{mutex_};
  check_open();
  if (what.state_ == fetch_base::state::idle) {
    what.state_ = fetch_base::state::queued;
    what.withdrawn_ = false;
    queue_.push_back(&what);
    kick(held);
  }
}

bool committer::withdraw(fetch_base& what) noexcept {
  const std::lock_guard held{mutex_};
  if (what.state_ == fetch_base::state::idle) {
    return true;
  }
  if (std::erase(waiting_, &what) != 0 || std::erase(queue_, &what) != 0) {
    what.state_ = fetch_base::state::idle;
    return true;
  }
  what.withdrawn_ = true;
  return false;
}

void committer::wake_fetches() {
  const std::lock_guard held{mutex_};
  ++rings_;
  for (fetch_base* fetch : waiting_) {
    fetch->state_ = fetch_base::state::queued;
    queue_.push_back(fetch);
  }
  waiting_.clear();
}

void committer::kick(std::unique_lock<std::mutex>& held) {
  if (executing_ || posted_) {
    return;
  }
  if (options_.in_place) {
    posted_ = true;
    ticket_.self = shared_from_this();
    held.unlock();
    runtime_.post(ticket_);
    return;
  }
  executing_ = true;
  hand_over();
}

void committer::hand_over() {
  to_thread_ = true;
  if (!thread_.joinable()) {
    thread_ = std::thread{[this] { write_forever(); }};
  }
  handed_over_.notify_one();
}

void committer::run_posted() noexcept {
  std::unique_lock held{mutex_};
  posted_ = false;
  if (executing_ || queue_.empty() || closed_) {
    return;
  }
  executing_ = true;
  cycle(role::in_place, held);
}

void committer::run_now() {
  std::unique_lock held{mutex_};
  if (executing_ || queue_.empty() || closed_) {
    return;
  }
  executing_ = true;
  cycle(role::thread, held);
}

void committer::tidy() {
  constexpr std::int64_t unused_pages = 256;
  {
    const std::lock_guard held{mutex_};
    if (executing_ || !queue_.empty() || closed_) {
      return;
    }
    executing_ = true;
  }
  if (side_.try_lock()) {
    try {
      // A few pages at a time: a step takes up to three milliseconds.
      if (query_integer(db_.get(), "PRAGMA freelist_count") > unused_pages) {
        sqlite::execute(db_.get(), "PRAGMA incremental_vacuum(64)", "tidy");
      }
    } catch (const error&) {
      // The pages stay in the file and are used again.
    }
    side_.unlock();
  }
  std::unique_lock held{mutex_};
  executing_ = false;
  settled_.notify_all();
  if (!queue_.empty()) {
    kick(held);
  }
}

void committer::write_forever() {
  std::unique_lock held{mutex_};
  for (;;) {
    handed_over_.wait(held, [this] { return to_thread_ || closed_; });
    if (!to_thread_) {
      return;
    }
    to_thread_ = false;
    cycle(role::thread, held);
  }
}

void committer::cycle(role as, std::unique_lock<std::mutex>& held) {
  while (!queue_.empty()) {
    held.unlock();
    bool mine = as == role::thread;
    if (mine) {
      side_.lock();
    } else {
      mine = side_.try_lock();
    }
    bool done = false;
    if (mine) {
      held.lock();
      batch_.swap(queue_);
      rings_before_ = rings_;
      held.unlock();
      done = execute(as);
      side_.unlock();
      if (done) {
        conclude();
      }
    }
    held.lock();
    if (!done) {
      // What was taken goes back in front of what came since.
      queue_.insert(queue_.begin(), batch_.begin(), batch_.end());
      batch_.clear();
      hand_over();
      return;
    }
    if (as == role::in_place) {
      // The rest waits for its turn behind the tasks that this batch has woken.
      executing_ = false;
      if (!queue_.empty()) {
        kick(held);
      } else {
        settled_.notify_all();
      }
      return;
    }
  }
  executing_ = false;
  settled_.notify_all();
}

bool committer::execute(role as) {
  try {
    if (std::ranges::none_of(batch_, [this](operation_base* op) { return op->is_needed(*store_); })) {
      return true;
    }
    sqlite3_busy_timeout(db_.get(), as == role::thread ? patient_ms : 0);
    attempt(batch_);
  } catch (const failure& f) {
    if (f.reason() == errc::busy && as == role::in_place) {
      return false;
    }
    if (is_full(f)) {
      drain_full_store(f);
    } else {
      for (operation_base* op : batch_) {
        op->failure = std::current_exception();
      }
    }
  } catch (...) {
    for (operation_base* op : batch_) {
      op->failure = std::current_exception();
    }
  }
  return true;
}

void committer::attempt(std::span<operation_base* const> group) {
  std::size_t ran = 0;
  std::vector<fetch_base*> woken;
  try {
    store_->begin();
    for (operation_base* op : group) {
      ++ran;
      op->failure = nullptr;
      try {
        op->run(*store_);
      } catch (const failure&) {
        throw;
      } catch (...) {
        op->failure = std::current_exception();
      }
    }
    if (auto& ready = store_->happened().ready; !ready.empty()) {
      {
        const std::lock_guard held{mutex_};
        std::erase_if(waiting_, [&](fetch_base* fetch) {
          if (!fetch->wants(ready)) {
            return false;
          }
          fetch->state_ = fetch_base::state::queued;
          woken.push_back(fetch);
          return true;
        });
      }
      for (fetch_base* fetch : woken) {
        fetch->run_again(*store_);
      }
    }
    store_->commit();
  } catch (...) {
    store_->rollback();
    for (operation_base* op : group.first(ran)) {
      op->undo();
    }
    for (fetch_base* fetch : woken) {
      fetch->undo();
    }
    if (!woken.empty()) {
      const std::lock_guard held{mutex_};
      for (fetch_base* fetch : woken) {
        if (fetch->withdrawn_) {
          queue_.push_back(fetch);
          continue;
        }
        fetch->state_ = fetch_base::state::waiting;
        waiting_.push_back(fetch);
      }
    }
    throw;
  }
  for (operation_base* op : group) {
    if (!op->failure) {
      op->stored();
    }
  }
  for (fetch_base* fetch : woken) {
    fetch->stored();
    batch_.push_back(fetch);
  }
  options_.told(store_->happened());
}

void committer::drain_full_store(const failure& why) {
  // What makes room goes first, together; then everything else by itself, so that one large job does not refuse the small ones.
  free_ballast();
  const std::vector<operation_base*> all = batch_;
  std::vector<operation_base*> drains;
  std::ranges::copy_if(all, std::back_inserter(drains), [](operation_base* op) { return op->drains; });
  const auto try_one = [&](std::span<operation_base* const> group) {
    try {
      attempt(group);
    } catch (...) {
      for (operation_base* op : group) {
        op->failure = std::current_exception();
      }
    }
  };
  if (!drains.empty()) {
    bound_pages(spare_pages);
    try_one(drains);
    bound_pages(0);
  }
  for (operation_base* op : all) {
    if (op->drains) {
      continue;
    }
    if (all.size() == 1) {
      op->failure = std::make_exception_ptr(why);
    } else {
      try_one(std::span{&op, 1});
    }
  }
}

void committer::conclude() {
  for (operation_base* op : batch_) {
    fetch_base* const fetch = op->as_fetch();
    if (fetch == nullptr) {
      op->finish();
      continue;
    }
    // `finish` under the lock: one who withdraws a fetch and is told that it is idle may rely on that it has been called.
    const std::lock_guard held{mutex_};
    if (fetch->found() || fetch->failure || fetch->withdrawn_) {
      fetch->state_ = fetch_base::state::idle;
      fetch->finish();
    } else if (rings_ != rings_before_) {
      queue_.push_back(fetch);
    } else {
      fetch->state_ = fetch_base::state::waiting;
      waiting_.push_back(fetch);
    }
  }
  batch_.clear();
}

void committer::bound_pages(std::int64_t spare) {
  if (options_.max_pages != 0) {
    sqlite::execute(db_.get(), fmt::format("PRAGMA max_page_count = {}", options_.max_pages + spare).c_str(), "bound");
  }
}

void committer::free_ballast() noexcept {
  ballast_free_ = true;
  static_cast<void>(::truncate(ballast_.c_str(), 0));
}

void committer::load_ballast() noexcept {
  if (!ballast_free_) {
    return;
  }
  const int fd = ::open(ballast_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ballast_free_ = ::posix_fallocate(fd, 0, ballast_size) != 0;
    ::close(fd);
  }
}

void committer::close() noexcept {
  std::vector<operation_base*> left;
  {
    std::unique_lock held{mutex_};
    closed_ = true;
    settled_.wait(held, [this] { return !executing_; });
    left.swap(queue_);
    waiting_.clear();
    handed_over_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  for (operation_base* op : left) {
    op->failure = std::make_exception_ptr(error{errc::closed, fmt::format("the store \"{}\" was closed", options_.path)});
    op->finish();
  }
  store_.reset();
  db_.reset();
}

}  // namespace ergon::sqlite
