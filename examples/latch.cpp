// A latch opens when it has been counted down to zero: the start of a race, and its end.
#include <iostream>

#include <ergon/runtime/latch.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task_group.hpp>

ergon::task<void> run(ergon::latch& all_ready, ergon::latch& finished) {
  co_await all_ready.arrive_and_wait();  // nobody goes before everybody is here
  finished.count_down();
}

ergon::task<void> race(std::size_t runners) {
  ergon::latch all_ready{runners};
  ergon::latch finished{runners};
  co_await ergon::with_group([&](ergon::task_group& group) -> ergon::task<void> {
    for (std::size_t i = 0; i < runners; ++i) group.spawn(run(all_ready, finished));
    co_await finished.wait();
    std::cout << runners << " have finished\n";
  });
}

int main() {
  ergon::runtime rt{{.threads = 2}};
  rt.block_on(race(1000));
}
