// Tasks as coroutines: laziness, results, exceptions, chains of any depth.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<int> just(int n) { co_return n; }

task<int> sum_of(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += co_await just(1);
  }
  co_return sum;
}

task<int> depth(int n) {
  if (n == 0) {
    co_return 0;
  }
  co_return 1 + co_await depth(n - 1);
}

task<void> throws_at(int n) {
  if (n == 0) {
    throw std::runtime_error("from below");
  }
  co_await throws_at(n - 1);
}

TEST(TaskTest, DoesNotStartBeforeItIsAwaited) {
  runtime rt{{.threads = 1}};
  bool started = false;
  auto body = [](bool& flag) -> task<void> {
    flag = true;
    co_return;
  };
  {
    task<void> never = body(started);
    EXPECT_TRUE(never);
  }
  EXPECT_FALSE(started);
  rt.block_on(body(started));
  EXPECT_TRUE(started);
}

TEST(TaskTest, GivesItsValueToTheAwaiter) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(just(7)), 7);
}

TEST(TaskTest, CarriesMoveOnlyValuesReferencesAndOverAlignedValues) {
  struct alignas(64) wide {
    int value = 0;
  };
  runtime rt{{.threads = 1}};
  EXPECT_EQ(*rt.block_on([]() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); }()), 3);
  static int target = 5;
  EXPECT_EQ(&rt.block_on([]() -> task<int&> { co_return target; }()), &target);
  EXPECT_EQ(rt.block_on([]() -> task<int> {
    wide here{4};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&here) % 64, 0U);
    wide const got = co_await [](wide w) -> task<wide> { co_return w; }(here);
    co_await yield();
    co_return got.value + here.value;
  }()),
            8);
}

TEST(TaskTest, LetsAnExceptionTravelThroughTheChain) {
  runtime rt{{.threads = 1}};
  try {
    rt.block_on(throws_at(100));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "from below");
  }
}

TEST(TaskTest, AwaitsAMillionChildrenThatCompleteAtOnceInConstantStack) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(sum_of(1'000'000)), 1'000'000);
}

TEST(TaskTest, ReturnsThroughAMillionFramesInConstantStack) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(depth(1'000'000)), 1'000'000);
}

TEST(TaskTest, ThrowsThroughManyFramesInConstantStack) {
  runtime rt{{.threads = 1}};
  EXPECT_THROW(rt.block_on(throws_at(10'000)), std::runtime_error);
}

TEST(TaskTest, RefusesToStartAnEmptyTask) {
  runtime rt{{.threads = 1}};
  auto const reason = rt.block_on([]() -> task<errc> {
    task<int> first = just(1);
    task<int> second = std::move(first);
    static_cast<void>(co_await std::move(second));
    try {
      static_cast<void>(co_await std::move(second));
    } catch (const error& e) {
      co_return e.reason();
    }
    co_return errc{};
  }());
  EXPECT_EQ(reason, errc::invalid_argument);
  EXPECT_THROW(static_cast<void>(rt.spawn(task<int>{})), error);
  EXPECT_EQ(rt.live_tasks(), 0U);
}

TEST(TaskTest, DestroysParametersOfATaskThatIsNeverStarted) {
  auto held = std::make_shared<int>(1);
  {
    auto const never = [](std::shared_ptr<int>) -> task<void> { co_return; }(held);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(TaskTest, DestroysAChildsFrameBeforeTheParentGoesOn) {
  runtime rt{{.threads = 1}};
  auto held = std::make_shared<int>(1);
  rt.block_on([](std::shared_ptr<int>& held) -> task<void> {
    co_await [](std::shared_ptr<int>) -> task<void> { co_return; }(held);
    EXPECT_EQ(held.use_count(), 1);
  }(held));
}

}  // namespace
}  // namespace ergon
