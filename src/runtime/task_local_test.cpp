#include <ergon/runtime/task_local.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/fork_join.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/when.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

const task_local<std::string> trace;
const task_local<int> level;

std::string seen() { return trace.get() != nullptr ? *trace.get() : "none"; }
int depth() { return level.get() != nullptr ? *level.get() : 0; }

task<std::string> look() {
  co_await yield();
  co_return seen();
}

TEST(TaskLocalTest, IsSeenBelowAndGoneAfterwards) {
  EXPECT_EQ(trace.get(), nullptr);
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    EXPECT_EQ(seen(), "none");
    EXPECT_EQ(co_await trace.with("a", look()), "a");
    EXPECT_EQ(seen(), "none");
    co_await trace.with("outer", []() -> task<void> {
      EXPECT_EQ(co_await trace.with("inner", look()), "inner");
      EXPECT_EQ(seen(), "outer");
      EXPECT_EQ(co_await level.with(3, look()), "outer");
      EXPECT_EQ(depth(), 0);
    }());
  }());
}

TEST(TaskLocalTest, IsTakenAlongByWhatIsStartedMeanwhile) {
  runtime rt{{.threads = 2}};
  event go;
  join_handle<std::string> late;
  rt.block_on([](event& go, join_handle<std::string>& late) -> task<void> {
    co_await trace.with("t", [](event& go, join_handle<std::string>& late) -> task<void> {
      late = spawn([](event& go) -> task<std::string> {
        co_await go.wait();
        co_return seen();
      }(go));
      std::atomic<int> right{0};
      co_await with_group([&](task_group& g) -> task<void> {
        for (int i = 0; i < 10; ++i) {
          g.spawn([](std::atomic<int>& right) -> task<void> { right += (co_await look()) == "t" ? 1 : 0; }(right));
        }
        co_return;
      });
      EXPECT_EQ(right, 10);
      auto [a, b] = co_await when_all(look(), timeout(1h, look()));
      EXPECT_EQ(a + b, "tt");
    }(go, late));
  }(go, late));
  // The task outlives the scope, and keeps the value alive.
  go.set();
  EXPECT_EQ(rt.block_on([](join_handle<std::string> h) -> task<std::string> { co_return co_await h; }(std::move(late))), "t");
}

// Each branch sets its own value over what its parent has set, on whatever thread.
task<int> tree(int at) {
  int const here = depth();
  co_await yield();
  EXPECT_EQ(depth(), here);
  EXPECT_EQ(here, 10 - at);
  EXPECT_EQ(seen(), "root");
  if (at == 0) {
    co_return 1;
  }
  auto [a, b] = co_await fork_join(level.with(here + 1, tree(at - 1)), level.with(here + 1, tree(at - 1)));
  EXPECT_EQ(depth(), here);
  co_return a + b;
}

TEST(TaskLocalTest, BranchesOfForksHaveTheirOwn) {
  runtime rt{{.threads = 4}};
  EXPECT_EQ(rt.block_on(trace.with("root", tree(10))), 1024);
}

TEST(TaskLocalTest, EndsWithATaskThatIsStopped) {
  struct counted {
    explicit counted(std::atomic<int>& n) noexcept : alive(&n) { ++*alive; }
    counted(counted&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
    counted& operator=(counted&&) = delete;
    ~counted() {
      if (alive != nullptr) --*alive;
    }
    std::atomic<int>* alive;
  };
  static const task_local<counted> held;
  std::atomic<int> alive{0};
  event never;
  {
    runtime rt{{.threads = 2}};
    auto waits = [](event& never) -> task<void> { co_await never.wait(); };
    auto forks = [](auto& waits, event& never, std::atomic<int>& alive) -> task<void> {
      co_await fork_join(held.with(counted{alive}, waits(never)), waits(never));
    };
    auto a = rt.spawn(held.with(counted{alive}, waits(never)));
    auto b = rt.spawn(held.with(counted{alive}, forks(waits, never, alive)));
    auto never_begun = held.with(counted{alive}, waits(never));
    EXPECT_GE(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace ergon
