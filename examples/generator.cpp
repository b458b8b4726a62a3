// A generator gives values one by one and may wait in between: here pages of a slow service, item by item, through a filter. Who has
// read enough stops asking, and the body goes with its variables.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <ergon/runtime/generator.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

using namespace std::chrono_literals;

ergon::task<std::vector<int>> fetch_page(int number) {
  co_await ergon::sleep_for(2ms);
  co_return std::vector<int>{3 * number, 3 * number + 1, 3 * number + 2};
}

ergon::generator<int> items() {
  for (int page = 0;; ++page) {
    for (int item : co_await fetch_page(page)) co_yield item;
  }
}

ergon::generator<std::string> named_even_ones(ergon::generator<int> from) {
  while (auto item = co_await from.next()) {
    if (*item % 2 == 0) co_yield "item " + std::to_string(*item);
  }
}

ergon::task<void> show() {
  auto names = named_even_ones(items());
  for (int i = 0; i < 5; ++i) std::cout << *co_await names.next() << "\n";

  // A cancel, here that of a timeout, stops a generator at its wait.
  auto all_of_them = [](ergon::generator<int> from) -> ergon::task<int> {
    int count = 0;
    while (co_await from.next()) ++count;
    co_return count;
  };
  const auto late = co_await ergon::as_result(ergon::timeout(10ms, all_of_them(items())));
  std::cout << "all items: " << late.error().message() << "\n";
}

int main() {
  ergon::runtime rt{{.threads = 2}};
  rt.block_on(show());
}
