// A request's number, carried along by everything that is done for it, without a parameter in between.
#include <atomic>
#include <cstdio>

#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/task_local.hpp>

namespace {

const ergon::task_local<int> request;
std::atomic<int> right{0};

// Knows nothing of who calls it.
void log(const char* what) {
  const int* const number = request.get();
  std::printf("[request %d] %s\n", number != nullptr ? *number : 0, what);
}

ergon::task<void> query(const char* table, int expected) {
  co_await ergon::sleep_for(std::chrono::milliseconds{1});
  log(table);
  right += request.get() != nullptr && *request.get() == expected ? 1 : 0;
}

ergon::task<void> handle(int number) {
  co_await ergon::with_group([&](ergon::task_group& g) -> ergon::task<void> {
    g.spawn(query("users", number));
    g.spawn(query("orders", number));
    co_return;
  });
  log("answered");
}

}  // namespace

int main() {
  ergon::runtime rt;
  rt.block_on([]() -> ergon::task<void> {
    co_await ergon::with_group([&](ergon::task_group& g) -> ergon::task<void> {
      for (int number = 1; number <= 3; ++number) {
        g.spawn(request.with(number, handle(number)));
      }
      co_return;
    });
  }());
  return right == 6 ? 0 : 1;
}
