// Cancellation: the stopped path, and every wait under a cancel that races with its end.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/channel.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/latch.hpp>
#include <ergon/runtime/mutex.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct says {
  std::vector<std::string>& into;
  std::string what;
  ~says() { into.push_back(what); }
};

task<void> nested(int level, std::vector<std::string>& log, event& never) {
  says const mine{log, "level " + std::to_string(level)};
  if (level == 0) {
    says const inner{log, "innermost"};
    co_await never.wait();
    log.emplace_back("not reached");
  } else {
    co_await nested(level - 1, log, never);
    log.emplace_back("not reached");
  }
}

errc joined_with(runtime& rt, join_handle<>& handle) {
  return rt.block_on([](join_handle<>& h) -> task<errc> {
    auto const end = co_await as_result(h);
    co_return end ? errc{} : static_cast<errc>(end.error().value());
  }(handle));
}

TEST(CancelTest, DestroysTheFramesLeafFirstAndThrowsNothing) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  std::vector<std::string> log;
  event never;
  auto handle = rt.spawn(nested(2, log, never));
  rt.settle();
  handle.cancel();
  EXPECT_EQ(joined_with(rt, handle), errc::cancelled);
  EXPECT_EQ(log, (std::vector<std::string>{"innermost", "level 0", "level 1", "level 2"}));
}

task<void> deep_wait(int n, event& never) {
  if (n == 0) {
    co_await never.wait();
  } else {
    co_await deep_wait(n - 1, never);
  }
}

TEST(CancelTest, DestroysASuspendedChainAMillionDeepInConstantStack) {
  runtime rt{{.threads = 1}};
  event never;
  auto handle = rt.spawn(deep_wait(1'000'000, never));
  rt.settle();
  handle.cancel();
  EXPECT_EQ(joined_with(rt, handle), errc::cancelled);
}

TEST(CancelTest, ThrowsCancelledFromAPlainJoin) {
  runtime rt{{.threads = 1}};
  event never;
  auto handle = rt.spawn(deep_wait(1, never));
  handle.cancel();
  handle.cancel();
  auto const reason = rt.block_on([](join_handle<>& h) -> task<errc> {
    try {
      co_await h;
    } catch (const error& e) {
      co_return e.reason();
    }
    co_return errc{};
  }(handle));
  EXPECT_EQ(reason, errc::cancelled);
  handle.cancel();
}

TEST(CancelTest, NeverStartsATaskThatWasCancelledBefore) {
  runtime rt{{.threads = 1}};
  bool started = false;
  rt.block_on([](runtime& rt, bool& started) -> task<void> {
    auto handle = rt.spawn([](bool& flag) -> task<void> {
      flag = true;
      co_return;
    }(started));
    handle.cancel();
    EXPECT_FALSE((co_await as_result(handle)).has_value());
  }(rt, started));
  EXPECT_FALSE(started);
}

TEST(CancelTest, StopsTheNextWaitWhenTheTaskRunsWhileItIsCancelled) {
  runtime rt{{.threads = 1}};
  event open{true};
  bool before = false;
  bool after = false;
  rt.block_on([](runtime& rt, event& open, bool& before, bool& after) -> task<void> {
    join_handle<> handle;
    handle = rt.spawn([](join_handle<>& self, event& open, bool& before, bool& after) -> task<void> {
      self.cancel();
      before = true;
      co_await open.wait();
      after = true;
    }(handle, open, before, after));
    EXPECT_FALSE((co_await as_result(handle)).has_value());
  }(rt, open, before, after));
  EXPECT_TRUE(before);
  EXPECT_FALSE(after);
}

TEST(CancelTest, LetsACoroutineSeeTheStopOfAWaitAndOfAChild) {
  runtime rt{{.threads = 1}};
  event never;
  std::vector<std::string> log;
  auto handle = rt.spawn([](event& never, std::vector<std::string>& log) -> task<void> {
    auto const child = co_await as_result(nested(1, log, never));
    log.emplace_back(child ? "value" : child.error().message());
    auto const wait = co_await as_result(never.wait());
    log.emplace_back(wait ? "value" : "again");
    co_await never.wait();
    log.emplace_back("not reached");
  }(never, log));
  rt.settle();
  handle.cancel();
  EXPECT_EQ(joined_with(rt, handle), errc::cancelled);
  ASSERT_EQ(log.size(), 5U);
  EXPECT_EQ(log[2], "level 1");
  EXPECT_EQ(log[3], make_error_code(errc::cancelled).message());
  EXPECT_EQ(log[4], "again");
}

TEST(CancelTest, GivesValuesAndOtherExceptionsThroughAsResult) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto const value = co_await as_result([]() -> task<int> { co_return 4; }());
    EXPECT_EQ(value.value(), 4);
    EXPECT_THROW(static_cast<void>(co_await as_result([]() -> task<int> {
                   throw std::runtime_error("other");
                   co_return 1;
                 }())),
                 std::runtime_error);
    auto const closed = co_await as_result([]() -> task<int> {
      throw error(errc::closed, "closed");
      co_return 1;
    }());
    EXPECT_EQ(closed.error(), errc::closed);
  }());
}

TEST(CancelTest, EndsEveryWaitAtOnce) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  event never;
  latch closed{2};
  semaphore none{0};
  mutex held;
  auto guard = held.try_lock();
  channel<int> full{1};
  int one = 1;
  ASSERT_TRUE(full.try_send(one));
  channel<int> empty{1};
  auto forever = rt.spawn(deep_wait(0, never));
  std::vector<join_handle<>> waits;
  waits.push_back(rt.spawn([](event& e) -> task<void> { co_await e.wait(); }(never)));
  waits.push_back(rt.spawn([](latch& l) -> task<void> { co_await l.arrive_and_wait(); }(closed)));
  waits.push_back(rt.spawn([](semaphore& s) -> task<void> { auto p = co_await s.acquire(); }(none)));
  waits.push_back(rt.spawn([](mutex& m) -> task<void> { auto g = co_await m.lock(); }(held)));
  waits.push_back(rt.spawn([](channel<int>& c) -> task<void> { co_await c.send(2); }(full)));
  waits.push_back(rt.spawn([](channel<int>& c) -> task<void> { static_cast<void>(co_await c.receive()); }(empty)));
  waits.push_back(rt.spawn([](join_handle<>& h) -> task<void> { co_await h; }(forever)));
  waits.push_back(rt.spawn([]() -> task<void> { co_await sleep_for(24h); }()));
  waits.push_back(rt.spawn(timeout(1h, deep_wait(3, never))));
  waits.push_back(rt.spawn([](event& e) -> task<void> {
    co_await with_group([&](task_group& g) -> task<void> {
      g.spawn(deep_wait(2, e));
      co_await e.wait();
    });
  }(never)));
  waits.push_back(rt.spawn(with_stop({}, deep_wait(1, never))));
  waits.push_back(rt.spawn([]() -> task<void> {
    for (;;) {
      co_await yield();
    }
  }()));
  while (rt.live_tasks() < waits.size() + 5) {
    std::this_thread::yield();
  }
  for (auto& w : waits) {
    EXPECT_FALSE(w.done());
    w.cancel();
    EXPECT_EQ(joined_with(rt, w), errc::cancelled);
  }
  EXPECT_FALSE(forever.done());
  EXPECT_EQ(full.size(), 1U);
  forever.cancel();
  EXPECT_EQ(joined_with(rt, forever), errc::cancelled);
}

TEST(CancelTest, BreaksTasksThatJoinEachOther) {
  runtime rt{{.threads = 2}};
  for (int round = 0; round < 200; ++round) {
    join_handle<> a;
    join_handle<> b;
    event both;
    auto join = [](event& both, join_handle<>& other) -> task<void> {
      co_await both.wait();
      co_await other;
    };
    a = rt.spawn(join(both, b));
    b = rt.spawn(join(both, a));
    both.set();
    std::thread other([&] { a.cancel(); });
    b.cancel();
    other.join();
    while (!a.done() || !b.done()) {
      std::this_thread::yield();
    }
  }
}

// A cancel that comes from another thread while the wait ends: one of the two wins, nothing is lost and nothing ends twice.
template <class Wait, class End>
void race(Wait wait, End end) {
  runtime rt{{.threads = 2}};
  int ended = 0;
  int stopped = 0;
  for (int round = 0; round < 1000; ++round) {
    auto handle = rt.spawn(wait());
    std::atomic<bool> go{false};
    std::thread canceller([&] {
      while (!go.load()) {
      }
      handle.cancel();
    });
    go.store(true);
    end();
    canceller.join();
    (joined_with(rt, handle) == errc::cancelled ? stopped : ended) += 1;
  }
  EXPECT_EQ(ended + stopped, 1000);
}

TEST(CancelTest, RacesWithAnEvent) {
  event e;
  race([&] { return [](event& e) -> task<void> { co_await e.wait(); }(e); },
       [&] {
         e.set();
         e.reset();
         e.set();
       });
}

TEST(CancelTest, RacesWithALatch) {
  std::unique_ptr<latch> l;
  race(
      [&] {
        l = std::make_unique<latch>(1);
        return [](latch& l) -> task<void> { co_await l.wait(); }(*l);
      },
      [&] { l->count_down(); });
  race(
      [&] {
        l = std::make_unique<latch>(2);
        return [](latch& l) -> task<void> { co_await l.arrive_and_wait(); }(*l);
      },
      [&] { l->count_down(); });
}

TEST(CancelTest, RacesWithASemaphoreAndLosesNoPermit) {
  semaphore s{0};
  race([&] { return [](semaphore& s) -> task<void> { auto p = co_await s.acquire(); }(s); }, [&] { s.release(); });
  EXPECT_EQ(s.available(), 1000U);
}

TEST(CancelTest, RacesWithASleep) {
  race([] { return []() -> task<void> { co_await sleep_for(20us); }(); }, [] {});
}

TEST(CancelTest, RacesWithAJoin) {
  race(
      [] {
        return []() -> task<void> {
          auto child = spawn([]() -> task<void> { co_await yield(); }());
          co_await child;
        }();
      },
      [] {});
}

TEST(CancelTest, RacesWithATimeout) {
  race([] { return timeout(30us, []() -> task<void> { co_await sleep_for(20us); }()); }, [] {});
}

TEST(CancelTest, RacesWithAGroup) {
  race(
      [] {
        return with_group([](task_group& g) -> task<void> {
          for (int i = 0; i < 4; ++i) {
            g.spawn([]() -> task<void> { co_await sleep_for(10us); }());
          }
          co_await yield();
        });
      },
      [] {});
}

TEST(CancelTest, RacesWithAChannelAndLosesNoValue) {
  channel<int> c{4};
  std::atomic<int> received{0};
  int sent = 0;
  race(
      [&] {
        return [](channel<int>& c, std::atomic<int>& received) -> task<void> {
          if (co_await c.receive()) {
            ++received;
          }
        }(c, received);
      },
      [&] {
        int value = 1;
        sent += c.try_send(value) ? 1 : 0;
      });
  EXPECT_EQ(received.load() + static_cast<int>(c.size()), sent);
}

TEST(CancelTest, IsRememberedByACompletion) {
  runtime rt{{.threads = 1}};
  completion* waiting = nullptr;
  std::vector<std::string> log;
  event never;
  auto handle = rt.spawn([](completion*& waiting, std::vector<std::string>& log, event& never) -> task<void> {
    completion done;
    waiting = &done;
    co_await done;
    log.emplace_back("completed");
    co_await never.wait();
    log.emplace_back("not reached");
  }(waiting, log, never));
  rt.settle();
  handle.cancel();
  rt.settle();
  EXPECT_FALSE(handle.done());
  waiting->complete();
  EXPECT_EQ(joined_with(rt, handle), errc::cancelled);
  EXPECT_EQ(log, std::vector<std::string>{"completed"});
}

TEST(CancelTest, DoesNotReachAShieldedTask) {
  runtime rt{{.threads = 1}};
  event finish;
  bool finished = false;
  event never;
  auto handle = rt.spawn([](event& finish, bool& finished, event& never) -> task<void> {
    co_await shielded([](event& finish, bool& finished) -> task<void> {
      co_await finish.wait();
      finished = true;
    }(finish, finished));
    co_await never.wait();
  }(finish, finished, never));
  rt.settle();
  handle.cancel();
  rt.settle();
  EXPECT_FALSE(handle.done());
  finish.set();
  EXPECT_EQ(joined_with(rt, handle), errc::cancelled);
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace ergon
