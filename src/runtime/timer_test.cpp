#include <ergon/runtime/timer.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/runtime.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct counting final : timer_callback {
  void expired() noexcept override { count->fetch_add(1); }
  std::atomic<int>* count = nullptr;
};

TEST(TimerCallbackTest, IsCalledOnceWhenItsTimeHasComeAndNotBefore) {
  manual_clock clock;
  std::atomic<int> calls{0};
  runtime rt{{.threads = 2, .clock = &clock}};
  counting t;
  t.count = &calls;
  EXPECT_FALSE(t.stop());
  t.start(rt, 10s);
  clock.advance(9s);
  rt.settle();
  EXPECT_EQ(calls, 0);
  clock.advance(1s);
  rt.settle();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(t.stop());
  t.start(rt, -1s);
  rt.settle();
  EXPECT_EQ(calls, 2);
  t.start(rt, 1s);
  EXPECT_TRUE(t.stop());
  clock.advance(1h);
  rt.settle();
  EXPECT_EQ(calls, 2);
}

TEST(TimerCallbackTest, MayBeStartedAgainOrDestroyedInItsCall) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  struct again final : timer_callback {
    void expired() noexcept override {
      if (--left > 0) {
        start(*on, 1s);
      } else {
        --*alive;
        delete this;
      }
    }
    runtime* on = nullptr;
    int left = 5;
    int* alive = nullptr;
  };
  int alive = 1;
  auto* t = new again;
  t->on = &rt;
  t->alive = &alive;
  t->start(rt, 1s);
  for (int i = 0; i < 4; ++i) {
    clock.advance(1s);
    rt.settle();
    EXPECT_EQ(alive, 1);
  }
  clock.advance(1s);
  rt.settle();
  EXPECT_EQ(alive, 0);
}

TEST(TimerCallbackTest, EveryOneOfManyIsEitherCalledOrStopped) {
  constexpr int many = 20'000;
  std::atomic<int> calls{0};
  int stopped = 0;
  runtime rt{{.threads = 2}};
  std::vector<counting> timers(many);
  for (int i = 0; i < many; ++i) {
    timers[static_cast<std::size_t>(i)].count = &calls;
    timers[static_cast<std::size_t>(i)].start(rt, std::chrono::microseconds{i % 3000});
  }
  for (auto& t : timers) {
    stopped += t.stop() ? 1 : 0;
  }
  while (calls + stopped < many) {
    std::this_thread::yield();
  }
  EXPECT_EQ(calls + stopped, many);
}

TEST(TimerCallbackDeathTest, RefusesMisuse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        runtime rt{{.threads = 1}};
        counting t;
        t.start(rt, 1h);
        t.start(rt, 1h);
      },
      "was started that is set already");
  EXPECT_DEATH(
      {
        runtime rt{{.threads = 1}};
        counting t;
        t.start(rt, 1h);
      },
      "was destroyed while it was set");
}

}  // namespace
}  // namespace ergon
