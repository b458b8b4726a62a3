// `task_group`: children that end before their scope does. Made by `with_group`, which waits for all of them on every way out:
//
//   co_await ergon::with_group([&](ergon::task_group& g) -> ergon::task<void> {
//     g.spawn(fetch(a));
//     g.spawn(fetch(b));
//     co_return;
//   });
//
// The first exception, of a child or of the body, cancels the body and all children and is thrown by `with_group` when they have
// ended. A cancel of the waiting task does the same and then takes the stopped path. The lambda lives until `with_group` ends,
// so it may capture.
//
// Locking: a spin lock guards the list of children, which grows under it a block at a time, and the first exception. A child that ends reports its exception
// before it is counted off; the last one hands the waiter out under the lock and touches nothing of the group afterwards.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/operation.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

class ERGON_EXPORT task_group : private detail::join_waiter {
 public:
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Starts a child; from its body or a child, on any thread. Its value is dropped. After `cancel` or a failure it never starts.
  /// `name` must refer to static storage. Throws `errc::invalid_argument` for an empty task.
  template <class T>
  void spawn(task<T> body, std::string_view name = {}) {
    adopt(*detail::make_root<T>(home_, std::move(body), name).let_go());
  }

  /// Cancels the body and every child; later ones are born cancelled.
  void cancel() noexcept;
  /// Children, the body included, that have not ended.
  [[nodiscard]] std::size_t alive() const noexcept;

 private:
  template <class F>
  friend auto with_group(F body) -> std::invoke_result_t<F&, task_group&>;

  class ERGON_EXPORT join_all final : public operation {
   public:
    explicit join_all(task_group& group) noexcept : group_(&group) {}
    ~join_all() = default;
    void await_resume() const noexcept {}

   private:
    friend class task_group;
    bool arm() noexcept override;
    bool disarm() noexcept override;
    task_group* group_;
  };

  explicit task_group(detail::task_root& owner) noexcept;
  ~task_group();

  /// Throws `std::bad_alloc`, and then the child has been given up.
  void adopt(detail::task_root& child);
  static void child_ended(detail::join_waiter& self, detail::task_root& child) noexcept;

  detail::scheduler& home_;
  mutable detail::spin_lock lock_;
  // Each child knows its place.
  std::deque<detail::task_root*> children_;
  bool cancelled_ = false;
  std::exception_ptr first_failure_;
  join_all* waiter_ = nullptr;
};

/// Runs `body(group)` and the children that it spawns, and gives the body's value. See above. `errc::cancelled` if `group.cancel()`
/// stopped the body before it had a value to give.
template <class F>
auto with_group(F body) -> std::invoke_result_t<F&, task_group&> {
  using value = typename std::invoke_result_t<F&, task_group&>::value_type;
  detail::task_root& me = co_await detail::this_root{};
  task_group group{me};
  auto main = detail::make_root<value>(me.home(), std::invoke(body, group), me.name());
  group.adopt(*main);
  task_group::join_all until_cancelled{group};
  until_cancelled.report_stop();
  co_await until_cancelled;
  if (until_cancelled.stopped()) {
    group.cancel();
    task_group::join_all to_the_end{group};
    to_the_end.ignore_cancel();
    co_await to_the_end;
    co_await detail::stop_here{};
  }
  if (group.first_failure_) {
    std::rethrow_exception(std::move(group.first_failure_));
  }
  if constexpr (std::is_void_v<value>) {
    co_return;
  } else {
    co_return main.take();
  }
}

}  // namespace ergon
