// A flood of one kind of work must not stop the others: each test counts how many turns the flood had when the other came through, on one
// worker, where nobody else could help.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/runtime/channel.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/signals.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/timer.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

// Many more than anybody should have to wait for, and few enough to end soon.
constexpr long patience = 100'000'000;

struct flood {
  std::atomic<bool> over{false};
  std::atomic<long> turns{0};
  bool goes_on() noexcept {
    return turns.fetch_add(1, std::memory_order_relaxed) < patience && !over.load(std::memory_order_relaxed);
  }
  ~flood() { EXPECT_LT(turns.load(), patience); }
};

task<void> end_it_after(std::chrono::nanoseconds span, flood& f) {
  co_await sleep_for(span);
  f.over = true;
}
task<void> end_it_when_ready(flood& f) {
  co_await yield();
  f.over = true;
}

// Each child begets the next.
task<void> beget(flood& f, task_group& g) {
  if (f.goes_on()) {
    g.spawn(beget(f, g));
  }
  co_return;
}
task<void> yield_on(flood& f) {
  while (f.goes_on()) {
    co_await yield();
  }
}
task<void> never_wait(flood& f, semaphore& s) {
  while (f.goes_on()) {
    auto const held = co_await s.acquire();
  }
}
task<void> ping(flood& f, channel<int>& in, channel<int>& out) {
  while (auto v = co_await in.receive()) {
    if (!f.goes_on()) {
      in.close();
      out.close();
      co_return;
    }
    static_cast<void>(co_await as_result(out.send(*v)));
  }
}
task<void> play(flood& f) {
  channel<int> a{1};
  channel<int> b{1};
  int first = 1;
  static_cast<void>(a.try_send(first));
  co_await with_group([&](task_group& g) -> task<void> {
    g.spawn(ping(f, a, b));
    g.spawn(ping(f, b, a));
    co_return;
  });
}
task<void> flood_with_children(flood& f) {
  co_await with_group([&](task_group& g) -> task<void> {
    g.spawn(beget(f, g));
    co_return;
  });
}
task<void> flood_with_timers(flood& f) {
  while (f.goes_on()) {
    co_await sleep_for(1ns);
  }
}

using maker = task<void> (*)(flood&);
const std::vector<std::pair<const char*, maker>> floods{
    {"children", &flood_with_children},
    {"yields", &yield_on},
    {"messages", &play},
    {"timers", &flood_with_timers},
    {"waits that end at once",
     [](flood& f) -> task<void> {
       semaphore s{1};
       co_await never_wait(f, s);
     }},
};

TEST(FairnessTest, TimersComeThrough) {
  for (auto const& [what, make] : floods) {
    SCOPED_TRACE(what);
    flood f;
    runtime rt{{.threads = 1}};
    rt.block_on([](flood& f, maker make) -> task<void> {
      auto other = spawn(end_it_after(1ms, f));
      co_await make(f);
      co_await other;
    }(f, make));
  }
}

TEST(FairnessTest, ReadyTasksComeThrough) {
  for (auto const& [what, make] : floods) {
    SCOPED_TRACE(what);
    flood f;
    runtime rt{{.threads = 1}};
    rt.block_on([](flood& f, maker make) -> task<void> {
      auto other = spawn(end_it_when_ready(f));
      co_await make(f);
      co_await other;
    }(f, make));
  }
}

TEST(FairnessTest, TheOldestChildComesThroughAFloodOfYoungerOnes) {
  flood f;
  runtime rt{{.threads = 1}};
  rt.block_on([](flood& f) -> task<void> {
    // Stands below everything that the flood spawns.
    auto oldest = spawn([](flood& f) -> task<void> {
      f.over = true;
      co_return;
    }(f));
    co_await flood_with_children(f);
    co_await oldest;
  }(f));
}

TEST(FairnessTest, WhatComesFromOutsideComesThrough) {
  for (auto const& [what, make] : floods) {
    SCOPED_TRACE(what);
    flood f;
    runtime rt{{.threads = 1}};
    auto flooded = rt.spawn(make(f));
    rt.block_on(end_it_when_ready(f));
    rt.block_on([](join_handle<> h) -> task<void> { co_await h; }(std::move(flooded)));
  }
}

}  // namespace
}  // namespace ergon
