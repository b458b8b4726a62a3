// The tasks that somebody answers for: those a worker started, or the children of a group. `lock` guards the list and its links.
#pragma once

#include <cstddef>

#include <ergon/base/export.hpp>
#include <ergon/runtime/root.hpp>
#include <ergon/runtime/spin_lock.hpp>

namespace ergon::detail {

class ERGON_EXPORT root_list {
 public:
  root_list() = default;
  root_list(const root_list&) = delete;
  root_list& operator=(const root_list&) = delete;

  spin_lock lock;

  // Under the lock.
  void insert(task_root& root) noexcept;
  void remove(task_root& root) noexcept;
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr && cancelled_ == nullptr; }

  /// Takes the lock itself, a few tasks at a time. What is inserted meanwhile is cancelled too.
  void cancel_all() noexcept;

 private:
  task_root* first_ = nullptr;
  /// Those that `cancel_all` has seen.
  task_root* cancelled_ = nullptr;
};

}  // namespace ergon::detail
