// Where frames lie, what a root keeps, and what goes back to the system.
#include "runtime/frame_memory.hpp"
#include "runtime/task_test_tools.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

task<void> wait_for(event& e) { co_await e.wait(); }

std::size_t resident() {
  auto const use = detail::measure_frames();
  return use.slabs - use.released;
}

TEST(FrameMemoryTest, GivesPagesBackAfterABurstThoughEverySlabHasASurvivor) {
  constexpr int many = 200'000;
  constexpr int one_in = 400;
  constexpr int survivors = many / one_in;
  std::size_t const before = resident();
  runtime rt{{.threads = 2}};
  event most;
  event few;
  std::vector<join_handle<void>> rest;
  std::size_t full = 0;
  rt.block_on([](event& most, event& few, std::vector<join_handle<void>>& rest, std::size_t& full) -> task<void> {
    std::vector<join_handle<void>> crowd;
    crowd.reserve(many);
    for (int i = 0; i < many; ++i) {
      (i % one_in == 0 ? rest : crowd).push_back(spawn(wait_for(i % one_in == 0 ? few : most)));
    }
    full = resident();
    most.set();
    for (auto& h : crowd) {
      co_await h;
    }
  }(most, few, rest, full));
  std::size_t const left = resident();
  // Nought where frames come from `new`, in sanitizer builds.
  if (full != 0) {
    EXPECT_GE(full, std::size_t{many} * 80);
  }
  // A survivor keeps the page that it lies on or the two, and its slab's first; a class keeps half a megabyte, and whole slabs of as much.
  EXPECT_LE(left, before + std::size_t{survivors} * 3 * 4096 + (std::size_t{2} << 20U)) << "of " << full;
  few.set();
  for (auto& h : rest) {
    rt.block_on([](join_handle<void> h) -> task<void> { co_await h; }(std::move(h)));
  }
  EXPECT_LE(resident(), before + (std::size_t{2} << 20U));
}

TEST(FrameMemoryTest, IsFoundByAWalkWhateverItsSize) {
  struct large {
    std::array<char, 5000> bytes{};
  };
  struct alignas(64) wide {
    int value = 0;
  };
  runtime rt{{.threads = 2}};
  event e;
  std::vector<join_handle<void>> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(rt.spawn(wait_for(e), "small"));
    handles.push_back(rt.spawn([](event& e, large) -> task<void> { co_await e.wait(); }(e, {}), "large"));
    handles.push_back(rt.spawn(
        [](event& e) -> task<void> {
          wide here;
          co_await e.wait();
          here.value = 1;
        }(e),
        "wide"));
  }
  std::map<std::string, int> found;
  detail::walk_roots([](detail::task_root& root,
                        void* context) { ++(*static_cast<std::map<std::string, int>*>(context))[std::string{root.name()}]; },
                     &found);
  EXPECT_EQ(found["small"], 100);
  EXPECT_EQ(found["large"], 100);
  EXPECT_EQ(found["wide"], 100);
  e.set();
  for (auto& h : handles) {
    rt.block_on([](join_handle<void> h) -> task<void> { co_await h; }(std::move(h)));
  }
}

TEST(TaskListTest, TellsWhatEveryTaskWaitsFor) {
  // What tasks refer to lives longer than their runtimes.
  event e;
  std::atomic<bool> hang = true;
  std::atomic<bool> hangs = false;
  runtime rt{{.threads = 2}};
  runtime other{{.threads = 1}};
  std::vector<join_handle<void>> handles;
  handles.push_back(rt.spawn(wait_for(e), "waits"));
  handles.push_back(rt.spawn([]() -> task<void> { co_await sleep_for(1h); }(), "sleeps"));
  handles.push_back(other.spawn(wait_for(e), "elsewhere"));
  rt.settle();
  other.settle();
  // One that hangs on its worker is no obstacle.
  handles.push_back(rt.spawn(
      [](std::atomic<bool>& hangs, std::atomic<bool>& hang) -> task<void> {
        hangs = true;
        hangs.notify_one();
        hang.wait(true);
        co_return;
      }(hangs, hang),
      "hangs"));
  hangs.wait(false);
  std::map<std::string, task_info> found;
  for (task_info& info : rt.tasks()) {
    found[info.name] = info;
  }
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(found["waits"].waits_in, "event::wait_operation");
  EXPECT_EQ(found["sleeps"].waits_in, "sleep_operation");
  EXPECT_FALSE(found["sleeps"].function.empty());
  EXPECT_EQ(found["hangs"].waits_in, "");
  hang = false;
  hang.notify_one();
  e.set();
  handles[1].cancel();
}

TEST(RootLifeTest, TheVariablesGoWhenTheTaskEndsAndTheResultWithTheHandle) {
  runtime rt{{.threads = 1}};
  std::atomic<int> results = 0;
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> const seen = held;
  {
    auto h = rt.spawn(
        [](std::shared_ptr<int>, std::atomic<int>& n) -> task<counted> { co_return counted{n}; }(std::move(held), results));
    rt.settle();
    EXPECT_TRUE(h.done());
    EXPECT_TRUE(seen.expired()) << "a parameter outlives its task";
    EXPECT_EQ(results, 1);
  }
  EXPECT_EQ(results, 0);
  // Of a detached task, and of one that is taken.
  static_cast<void>(rt.spawn([](std::atomic<int>& n) -> task<counted> { co_return counted{n}; }(results)));
  rt.settle();
  EXPECT_EQ(results, 0);
  {
    counted const taken = rt.block_on([](std::atomic<int>& n) -> task<counted> { co_return counted{n}; }(results));
    EXPECT_EQ(results, 1);
  }
  EXPECT_EQ(results, 0);
}

TEST(RootLifeTest, AnExceptionThatNobodyTakesGoesWithTheHandle) {
  struct thrown : std::runtime_error {
    explicit thrown(std::atomic<int>& n) : std::runtime_error{"thrown"}, count(n) {}
    counted count;
  };
  runtime rt{{.threads = 1}};
  std::atomic<int> alive = 0;
  auto const fails = [](std::atomic<int>& n) -> task<int> {
    co_await yield();
    throw thrown{n};
  };
  {
    auto h = rt.spawn(fails(alive));
    rt.settle();
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  static_cast<void>(rt.spawn(fails(alive)));
  rt.settle();
  EXPECT_EQ(alive, 0);
}

TEST(RootLifeTest, GroupsKnowTheirChildrenThoughThoseHaveStopTokens) {
  runtime rt{{.threads = 2}};
  std::atomic<int> stopped = 0;
  auto const child = [](std::atomic<int>& stopped, int i) -> task<void> {
    std::stop_token token;
    if (i % 2 == 0) {
      token = co_await this_task::stop_token();
    }
    std::stop_callback const count{token, [&] { ++stopped; }};
    if (i % 3 == 0) {
      co_return;
    }
    co_await yield();
    if (i % 2 != 0) {
      token = co_await this_task::stop_token();
    }
    co_await sleep_for(1h);
  };
  rt.block_on([](auto child, std::atomic<int>& stopped) -> task<void> {
    co_await with_group([&](task_group& group) -> task<void> {
      for (int i = 0; i < 300; ++i) {
        group.spawn(child(stopped, i));
      }
      while (group.alive() > 201) {
        co_await yield();
      }
      EXPECT_EQ(group.alive(), 201U);
      group.cancel();
      co_await sleep_for(1h);
    });
  }(child, stopped));
}

}  // namespace
}  // namespace ergon
