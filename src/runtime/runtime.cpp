// The public face of the scheduler.
#include <ergon/runtime/runtime.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ergon/runtime/blocking.hpp>

#include "runtime/futex.hpp"
#include "runtime/scheduler.hpp"

namespace ergon {

namespace {

// A thread that waits for a root outside every runtime.
struct thread_waiter : detail::join_waiter {
  std::atomic<std::uint32_t> word{0};

  thread_waiter() {
    joined = [](detail::join_waiter& self, detail::task_root&) noexcept {
      auto& word = static_cast<thread_waiter&>(self).word;
      word.store(1, std::memory_order_release);
      detail::futex_wake(word, 1);
    };
  }
};

}  // namespace

runtime::runtime(runtime_options options) : scheduler_(std::make_unique<detail::scheduler>(*this, std::move(options))) {}
runtime::runtime(runtime_options options, std::uint64_t seed)
    : scheduler_(std::make_unique<detail::scheduler>(*this, std::move(options), std::make_unique<detail::simulation>(seed))) {}
runtime::~runtime() = default;

const detail::simulation& runtime::simulated() const noexcept { return *scheduler_->simulated(); }

std::size_t runtime::shutdown(std::chrono::nanoseconds deadline) {
  return scheduler_->shutdown(detail::time_after(ergon::clock::system().steady(), deadline));
}

void runtime::post(work& item) noexcept { scheduler_->push(item); }
ergon::clock& runtime::clock() const noexcept { return scheduler_->clock(); }
unsigned runtime::threads() const noexcept { return scheduler_->threads(); }
std::size_t runtime::live_tasks() const noexcept { return scheduler_->live_tasks(); }
std::vector<task_info> runtime::tasks() const { return scheduler_->tasks(); }
std::string runtime::describe_tasks() const {
  std::map<std::string, std::size_t> counts;
  std::vector<task_info> const all = tasks();
  for (const task_info& t : all) {
    std::string line = t.name.empty() ? "(no name)" : t.name;
    line += t.waits_in.empty() ? ": runs, is ready, or waits for what cannot be cancelled" : ": waits in " + t.waits_in;
    if (!t.function.empty()) {
      line += " at " + t.function;
    }
    if (t.cancelled) {
      line += ", cancelled";
    }
    ++counts[std::move(line)];
  }
  std::vector<std::pair<std::size_t, std::string>> kinds;
  for (auto const& [text, count] : counts) {
    kinds.emplace_back(count, text);
  }
  std::ranges::sort(kinds,
                    [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::string text = std::to_string(all.size()) + (all.size() == 1 ? " task\n" : " tasks\n");
  for (auto const& [count, kind] : kinds) {
    std::string number = std::to_string(count);
    number.insert(0, number.size() < 9 ? 9 - number.size() : 0, ' ');
    text += number + "  " + kind + "\n";
  }
  return text;
}
void runtime::settle() const { scheduler_->settle(); }

void runtime::set_blocking_executor(std::shared_ptr<blocking_executor> executor) {
  scheduler_->set_blocking_executor(std::move(executor));
}
std::shared_ptr<blocking_executor> runtime::blocking() const { return scheduler_->blocking(); }

runtime& runtime::default_runtime() {
  // Never destroyed: tasks may run while static objects go.
  static runtime* const shared = new runtime;
  return *shared;
}

runtime* runtime::current() noexcept { return detail::scheduler::current_runtime(); }

void runtime::start(detail::task_root& root, std::string_view name) { scheduler_->start(root, name); }

void runtime::check_may_block() const {
  if (scheduler_->is_own_thread()) {
    throw error(errc::invalid_argument,
                "block_on was called on a thread of the same runtime, which it would block: use co_await");
  }
}

void runtime::wait_for(detail::task_root& root) const {
  if (scheduler_->simulated() != nullptr) {
    scheduler_->wait_in_simulation(root);
    return;
  }
  thread_waiter waiter;
  if (root.set_joiner(waiter)) {
    while (waiter.word.load(std::memory_order_acquire) == 0) {
      detail::futex_wait(waiter.word, 0, steady_time::max());
    }
  }
}

}  // namespace ergon
