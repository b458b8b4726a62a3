// Groups: children end before their scope does, on every way out.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct alive {
  explicit alive(std::atomic<int>& n) : count(n) { ++count; }
  alive(const alive&) = delete;
  alive& operator=(const alive&) = delete;
  ~alive() { --count; }
  std::atomic<int>& count;
};

task<void> wait_alive(event& e, std::atomic<int>& n) {
  alive const here{n};
  co_await e.wait();
}
task<void> fails(const char* text) {
  co_await yield();
  throw std::runtime_error(text);
}

TEST(TaskGroupTest, WaitsForAllItsChildrenAndGivesTheBodysValue) {
  runtime rt{{.threads = 2}};
  int const sum = rt.block_on([]() -> task<int> {
    std::atomic<int> sum{0};
    auto const n = co_await with_group([&](task_group& g) -> task<int> {
      for (int i = 1; i <= 100; ++i) {
        g.spawn([](std::atomic<int>& sum, int i) -> task<void> {
          co_await sleep_for(std::chrono::microseconds{i});
          sum += i;
        }(sum, i));
      }
      co_return 1000;
    });
    co_return n + sum.load();
  }());
  EXPECT_EQ(sum, 6050);
}

TEST(TaskGroupTest, LetsChildrenSpawnSiblings) {
  runtime rt{{.threads = 2}};
  std::atomic<int> leaves{0};
  struct tree {
    static task<void> grow(task_group& g, int depth, std::atomic<int>& leaves) {
      if (depth == 0) {
        ++leaves;
      } else {
        g.spawn(grow(g, depth - 1, leaves));
        g.spawn(grow(g, depth - 1, leaves));
      }
      co_return;
    }
  };
  rt.block_on([](std::atomic<int>& leaves) -> task<void> {
    co_await with_group([&](task_group& g) { return tree::grow(g, 10, leaves); });
  }(leaves));
  EXPECT_EQ(leaves.load(), 1024);
}

TEST(TaskGroupTest, CancelsSiblingsAndBodyWhenAChildFailsAndThrowsItsException) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    event never;
    std::atomic<int> here{0};
    try {
      co_await with_group([&](task_group& g) -> task<void> {
        alive const body{here};
        for (int i = 0; i < 10; ++i) {
          g.spawn(wait_alive(never, here));
        }
        g.spawn(fails("a child"));
        co_await never.wait();
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "a child");
    }
    EXPECT_EQ(here.load(), 0);
  }());
}

TEST(TaskGroupTest, CancelsChildrenWhenTheBodyThrows) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    event never;
    std::atomic<int> here{0};
    bool thrown = false;
    try {
      co_await with_group([&](task_group& g) -> task<int> {
        g.spawn(wait_alive(never, here));
        co_await yield();
        throw std::logic_error("body");
        co_return 1;
      });
    } catch (const std::logic_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(here.load(), 0);
  }());
}

TEST(TaskGroupTest, EndsItsChildrenBeforeTheParentsFrameIsDestroyedByACancel) {
  runtime rt{{.threads = 2}};
  event never;
  std::vector<std::string> log;
  struct says {
    std::vector<std::string>& log;
    const char* what;
    ~says() { log.emplace_back(what); }
  };
  auto h = rt.spawn([](event& never, std::vector<std::string>& log) -> task<void> {
    says const outer{log, "parent"};
    co_await with_group([&](task_group& g) -> task<void> {
      g.spawn([](event& never, std::vector<std::string>& log) -> task<void> {
        says const inner{log, "child"};
        co_await never.wait();
      }(never, log));
      co_return;
    });
    log.emplace_back("not reached");
  }(never, log));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(log, (std::vector<std::string>{"child", "parent"}));
}

TEST(TaskGroupTest, WaitsForAChildThatCannotBeCancelled) {
  runtime rt{{.threads = 1}};
  completion* waiting = nullptr;
  auto h = rt.spawn([](completion*& waiting) -> task<void> {
    co_await with_group([&](task_group& g) -> task<void> {
      g.spawn([](completion*& waiting) -> task<void> {
        completion c;
        waiting = &c;
        co_await c;
      }(waiting));
      co_return;
    });
  }(waiting));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_FALSE(h.done());
  waiting->complete();
  rt.settle();
  EXPECT_TRUE(h.done());
}

TEST(TaskGroupTest, CancelEndsChildrenWithoutAnError) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    event never;
    std::atomic<int> here{0};
    bool late = false;
    co_await with_group([&](task_group& g) -> task<void> {
      g.spawn(wait_alive(never, here));
      co_await yield();
      EXPECT_EQ(here.load(), 1);
      g.cancel();
      g.spawn([](bool& late) -> task<void> {
        late = true;
        co_return;
      }(late));
    });
    EXPECT_EQ(here.load(), 0);
    EXPECT_FALSE(late);
  }());
}

TEST(TaskGroupTest, NestsAndCancelsThroughEveryLevel) {
  runtime rt{{.threads = 2}};
  event never;
  std::atomic<int> here{0};
  struct tree {
    static task<void> grow(int depth, event& never, std::atomic<int>& here) {
      alive const a{here};
      co_await with_group([&](task_group& g) -> task<void> {
        if (depth > 0) {
          g.spawn(grow(depth - 1, never, here));
          g.spawn(grow(depth - 1, never, here));
        }
        co_await never.wait();
      });
    }
  };
  auto h = rt.spawn(tree::grow(6, never, here));
  rt.settle();
  EXPECT_EQ(here.load(), 127);
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(here.load(), 0);
}

TEST(TaskGroupTest, CancelsTwentyThousandNestedGroupsInConstantStack) {
  runtime rt{{.threads = 1}};
  event never;
  struct chain {
    static task<void> grow(int depth, event& never) {
      co_await with_group([&](task_group& g) -> task<void> {
        if (depth > 0) {
          g.spawn(grow(depth - 1, never));
        }
        co_await never.wait();
      });
    }
  };
  auto h = rt.spawn(chain::grow(20'000, never));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
}

}  // namespace
}  // namespace ergon
