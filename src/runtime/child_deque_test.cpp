#include "runtime/child_deque.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ergon::detail {
namespace {

struct numbered final : work {
  void run() noexcept override { ++runs; }
  std::atomic<int> runs{0};
};

TEST(ChildDequeTest, GivesTheNewestToItsOwnerAndTheOldestToThieves) {
  std::array<numbered, 4> items;
  child_deque deque;
  EXPECT_FALSE(deque.pop());
  EXPECT_FALSE(deque.steal());
  for (auto& i : items) {
    EXPECT_TRUE(deque.push(ready_item{i}));
  }
  EXPECT_EQ(deque.size(), 4U);
  deque.pop().run();
  EXPECT_EQ(items[3].runs, 1);
  deque.steal().run();
  EXPECT_EQ(items[0].runs, 1);
  deque.pop().run();
  deque.pop().run();
  EXPECT_EQ(items[1].runs + items[2].runs, 2);
  EXPECT_FALSE(deque.pop());
  EXPECT_FALSE(deque.steal());
}

TEST(ChildDequeTest, ShedsItsOlderHalfInOrderWhenItIsFull) {
  std::vector<numbered> items(child_deque::capacity + 1);
  child_deque deque;
  for (std::size_t i = 0; i < child_deque::capacity; ++i) {
    EXPECT_TRUE(deque.push(ready_item{items[i]}));
  }
  EXPECT_FALSE(deque.push(ready_item{items[child_deque::capacity]}));
  work_chain const older = deque.take_older_half();
  EXPECT_EQ(older.size, child_deque::capacity / 2);
  std::size_t at = 0;
  for (ready_item item = older.first; item; ++at) {
    ready_item const next = item.next();
    item.run();
    EXPECT_EQ(items[at].runs, 1);
    item = next;
  }
  EXPECT_EQ(at, child_deque::capacity / 2);
  EXPECT_EQ(deque.take_older_half().size, child_deque::capacity / 2);
  EXPECT_EQ(deque.take_older_half().size, 0U);
}

TEST(ChildDequeTest, HandsEveryItemOutOnceWhoeverTakesIt) {
  constexpr std::size_t many = 100'000;
  std::vector<numbered> items(many);
  child_deque deque;
  std::atomic<std::size_t> taken{0};
  auto thieve = [&] {
    while (taken.load() < many) {
      if (ready_item const item = deque.steal()) {
        item.run();
        ++taken;
      } else {
        std::this_thread::yield();
      }
    }
  };
  std::thread one{thieve};
  std::thread two{thieve};
  auto run = [&](ready_item item) {
    item.run();
    ++taken;
  };
  for (std::size_t i = 0; i < many; ++i) {
    while (!deque.push(ready_item{items[i]})) {
      work_chain const older = deque.take_older_half();
      for (ready_item item = older.first; item;) {
        ready_item const next = item.next();
        run(item);
        item = next;
      }
    }
    if (i % 3 == 0) {
      if (ready_item const item = deque.pop()) {
        run(item);
      }
    }
  }
  while (ready_item const item = deque.pop()) {
    run(item);
  }
  one.join();
  two.join();
  for (auto& i : items) {
    ASSERT_EQ(i.runs, 1);
  }
}

}  // namespace
}  // namespace ergon::detail
