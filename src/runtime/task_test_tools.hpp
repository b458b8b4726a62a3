// What tests of tasks share.
#pragma once

#include <atomic>
#include <system_error>
#include <utility>

#include <ergon/runtime/join_handle.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// Counts itself in while it lives.
struct counted {
  explicit counted(std::atomic<int>& in) : alive(&in) { ++*alive; }
  counted(const counted& other) : alive(other.alive) { ++*alive; }
  counted& operator=(const counted&) = delete;
  ~counted() { --*alive; }
  std::atomic<int>* alive;
};

/// Waits, from outside, for a task's end: no error if it gave a value, else how it was ended.
template <class T>
std::error_code end_of(runtime& rt, join_handle<T> of) {
  return rt.block_on([](join_handle<T> of) -> task<std::error_code> {
    auto const end = co_await as_result(of);
    co_return end ? std::error_code{} : end.error();
  }(std::move(of)));
}

}  // namespace ergon
