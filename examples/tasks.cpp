// Tasks by themselves: no queue, no store. Ten thousand wait at once on two threads; a group ends with its first failure; a channel
// carries what many send to one.
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <vector>

#include <ergon/runtime/channel.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

using namespace std::chrono_literals;

ergon::task<int> slow_square(int n) {
  co_await ergon::sleep_for(50ms);
  co_return n* n;
}

ergon::task<long> sum_of_squares(int n) {
  std::vector<ergon::join_handle<int>> waiting;
  for (int i = 1; i <= n; ++i) waiting.push_back(ergon::spawn(slow_square(i)));
  long sum = 0;
  for (auto& square : waiting) sum += co_await square;
  co_return sum;
}

ergon::task<void> fail_soon() {
  co_await ergon::sleep_for(1ms);
  throw std::runtime_error{"one of them failed"};
}

ergon::task<void> wait_an_hour() { co_await ergon::sleep_for(1h); }

ergon::task<void> show() {
  std::cout << "sum of squares: " << co_await sum_of_squares(10'000) << "\n";

  try {
    co_await ergon::with_group([](ergon::task_group& group) -> ergon::task<void> {
      for (int i = 0; i < 100; ++i) group.spawn(wait_an_hour());
      group.spawn(fail_soon());
      co_return;
    });
  } catch (const std::runtime_error& e) {
    std::cout << "the group ended: " << e.what() << "\n";
  }

  const auto late = co_await ergon::as_result(ergon::timeout(5ms, wait_an_hour()));
  std::cout << "an hour in five milliseconds: " << late.error().message() << "\n";

  ergon::channel<int> pipe{16};
  std::vector<ergon::join_handle<void>> senders;
  for (int s = 0; s < 4; ++s) {
    senders.push_back(ergon::spawn([](ergon::channel<int>& to) -> ergon::task<void> {
      for (int i = 0; i < 1000; ++i) co_await to.send(i);
    }(pipe)));
  }
  int received = 0;
  for (; received < 4000; ++received) co_await pipe.receive();
  for (auto& sender : senders) co_await sender;
  std::cout << "received: " << received << "\n";
}

int main() {
  ergon::runtime rt{{.threads = 2}};
  rt.block_on(show());
}
