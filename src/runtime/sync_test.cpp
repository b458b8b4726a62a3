// Event, latch, semaphore, mutex, channel: order, hand-over, lifetimes.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ergon/runtime/channel.hpp>
#include <ergon/runtime/completion.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/latch.hpp>
#include <ergon/runtime/mutex.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/semaphore.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {
namespace {

TEST(CompletionTest, EndsAWaitThatBeginsAfterIt) {
  runtime rt{{.threads = 1}};
  EXPECT_TRUE(rt.block_on([]() -> task<bool> {
    completion c;
    c.complete();
    co_await c;
    co_return true;
  }()));
}

TEST(EventTest, WakesEveryWaiterInTheOrderInWhichTheyCame) {
  runtime rt{{.threads = 1}};
  event e;
  std::vector<int> log;
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(rt.spawn([](event& e, std::vector<int>& log, int i) -> task<void> {
      co_await e.wait();
      log.push_back(i);
    }(e, log, i)));
    rt.settle();
  }
  e.set();
  e.set();
  rt.settle();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(e.is_set());
  e.reset();
  EXPECT_FALSE(e.is_set());
}

TEST(EventTest, MayBeDestroyedByTheTaskThatItWoke) {
  runtime rt{{.threads = 2}};
  for (int i = 0; i < 2000; ++i) {
    auto shared = std::make_unique<event>();
    event& e = *shared;
    auto h = rt.spawn([](std::unique_ptr<event> mine) -> task<void> {
      co_await mine->wait();
      mine.reset();
    }(std::move(shared)));
    e.set();
    while (!h.done()) {
      std::this_thread::yield();
    }
  }
}

TEST(LatchTest, LetsEveryWaiterGoAtZeroInTheOrderInWhichTheyCame) {
  runtime rt{{.threads = 1}};
  latch l{3};
  std::vector<int> log;
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(rt.spawn([](latch& l, std::vector<int>& log, int i) -> task<void> {
      co_await l.wait();
      log.push_back(i);
    }(l, log, i)));
    rt.settle();
  }
  l.count_down(0);
  l.count_down(2);
  rt.settle();
  EXPECT_TRUE(log.empty());
  EXPECT_FALSE(l.try_wait());
  l.count_down();
  rt.settle();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(l.try_wait());
  rt.block_on([](latch& l) -> task<void> { co_await l.wait(); }(l));
}

TEST(LatchTest, OfZeroIsOpen) {
  runtime rt{{.threads = 1}};
  latch open{0};
  EXPECT_TRUE(open.try_wait());
  rt.block_on([](latch& l) -> task<void> {
    co_await l.wait();
    co_await l.arrive_and_wait(0);
  }(open));
}

TEST(LatchTest, RefusesToGoBelowZero) {
  runtime rt{{.threads = 1}};
  latch l{2};
  EXPECT_THROW(l.count_down(3), error);
  EXPECT_THROW(rt.block_on([](latch& l) -> task<void> { co_await l.arrive_and_wait(3); }(l)), error);
  l.count_down(2);
  EXPECT_TRUE(l.try_wait()) << "a refused call counted";
  try {
    rt.block_on([](latch& l) -> task<void> { co_await l.arrive_and_wait(); }(l));
    FAIL() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::invalid_argument);
    EXPECT_STREQ(e.what(), "a latch was counted down by 1 when 0 was left; it cannot go below zero");
  }
}

TEST(LatchTest, BringsTasksTogether) {
  runtime rt{{.threads = 2}};
  for (int round = 0; round < 500; ++round) {
    rt.block_on([]() -> task<void> {
      std::atomic<int> arrived = 0;
      latch all{8};
      co_await with_group([&](task_group& g) -> task<void> {
        for (int i = 0; i < 8; ++i) {
          g.spawn([](latch& all, std::atomic<int>& arrived) -> task<void> {
            ++arrived;
            co_await all.arrive_and_wait();
            EXPECT_EQ(arrived, 8);
          }(all, arrived));
        }
        co_return;
      });
    }());
  }
}

TEST(LatchTest, MayBeDestroyedByTheTaskThatItLetGo) {
  runtime rt{{.threads = 2}};
  for (int i = 0; i < 2000; ++i) {
    auto shared = std::make_unique<latch>(2);
    latch& l = *shared;
    auto waiter = rt.spawn([](std::unique_ptr<latch> mine) -> task<void> {
      co_await mine->wait();
      mine.reset();
    }(std::move(shared)));
    auto arriver = rt.spawn([](latch& l) -> task<void> { co_await l.arrive_and_wait(); }(l));
    l.count_down();
    while (!waiter.done() || !arriver.done()) {
      std::this_thread::yield();
    }
  }
}

TEST(LatchTest, ATaskThatIsCancelledWhileItWaitsHasArrivedAndOneThatIsCancelledBeforeHasNot) {
  runtime rt{{.threads = 1}};
  latch l{2};
  auto waits = rt.spawn([](latch& l) -> task<void> { co_await l.arrive_and_wait(); }(l));
  rt.settle();
  waits.cancel();
  rt.settle();
  EXPECT_TRUE(waits.done());
  join_handle<> before;
  rt.block_on([](join_handle<>& self, latch& l) -> task<void> {
    self = spawn([](join_handle<>& self, latch& l) -> task<void> {
      self.cancel();
      co_await l.arrive_and_wait();
    }(self, l));
    EXPECT_FALSE((co_await as_result(self)).has_value());
  }(before, l));
  EXPECT_FALSE(l.try_wait());
  l.count_down();
  EXPECT_TRUE(l.try_wait());
}

TEST(SemaphoreTest, ServesFirstWhoCameFirst) {
  runtime rt{{.threads = 1}};
  semaphore s{1};
  std::vector<int> log;
  auto take = [](semaphore& s, std::vector<int>& log, int n, std::size_t count) -> task<void> {
    auto p = co_await s.acquire(count);
    log.push_back(n);
  };
  auto held = s.try_acquire();
  ASSERT_TRUE(held);
  EXPECT_FALSE(s.try_acquire());
  static_cast<void>(rt.spawn(take(s, log, 1, 3)));
  rt.settle();
  static_cast<void>(rt.spawn(take(s, log, 2, 1)));
  rt.settle();
  held.give_back();
  rt.settle();
  EXPECT_TRUE(log.empty()) << "the small one overtook the large one";
  EXPECT_FALSE(s.try_acquire()) << "somebody waits";
  s.release(2);
  rt.settle();
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
  EXPECT_EQ(s.available(), 3U);
}

TEST(SemaphoreTest, ServesThoseBehindALargeRequestThatIsCancelled) {
  runtime rt{{.threads = 1}};
  semaphore s{1};
  bool served = false;
  auto large = rt.spawn([](semaphore& s) -> task<void> { auto p = co_await s.acquire(2); }(s));
  rt.settle();
  static_cast<void>(rt.spawn([](semaphore& s, bool& served) -> task<void> {
    auto p = co_await s.acquire();
    served = true;
  }(s, served)));
  rt.settle();
  EXPECT_FALSE(served);
  large.cancel();
  rt.settle();
  EXPECT_TRUE(served);
}

TEST(MutexTest, LetsOneTaskInAtATime) {
  runtime rt{{.threads = 2}};
  mutex m;
  int plain = 0;
  rt.block_on([](mutex& m, int& plain) -> task<void> {
    co_await with_group([&](task_group& g) -> task<void> {
      for (int t = 0; t < 8; ++t) {
        g.spawn([](mutex& m, int& plain) -> task<void> {
          for (int i = 0; i < 500; ++i) {
            auto held = co_await m.lock();
            int const seen = plain;
            co_await yield();
            plain = seen + 1;
          }
        }(m, plain));
      }
      co_return;
    });
  }(m, plain));
  EXPECT_EQ(plain, 4000);
}

task<void> send_numbers(channel<int>& c, int from, int to) {
  for (int i = from; i < to; ++i) {
    co_await c.send(i);
  }
}
task<long> receive_all(channel<int>& c) {
  long sum = 0;
  while (auto v = co_await c.receive()) {
    sum += *v;
  }
  co_return sum;
}

class ChannelTest : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Capacities, ChannelTest, testing::Values(0U, 1U, 7U, 1000U));

TEST_P(ChannelTest, PassesEveryValueOnceBetweenManySendersAndReceivers) {
  runtime rt{{.threads = 2}};
  channel<int> c{GetParam()};
  long const sum = rt.block_on([](channel<int>& c) -> task<long> {
    auto a = spawn(receive_all(c));
    auto b = spawn(receive_all(c));
    co_await with_group([&](task_group& g) -> task<void> {
      for (int i = 0; i < 4; ++i) {
        g.spawn(send_numbers(c, i * 1000, (i + 1) * 1000));
      }
      co_return;
    });
    c.close();
    co_return co_await a + co_await b;
  }(c));
  EXPECT_EQ(sum, 3999L * 4000 / 2);
}

TEST(ChannelOrderTest, KeepsOrder) {
  runtime rt{{.threads = 1}};
  channel<int> c{3};
  std::vector<int> got;
  rt.block_on([](channel<int>& c, std::vector<int>& got) -> task<void> {
    auto sender = spawn(send_numbers(c, 0, 100));
    for (int i = 0; i < 100; ++i) {
      got.push_back((co_await c.receive()).value());
    }
    co_await sender;
  }(c, got));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
  }
}

TEST(ChannelOrderTest, DrainsAfterCloseAndRefusesSenders) {
  runtime rt{{.threads = 1}};
  channel<std::unique_ptr<int>> c{1};
  auto first = std::make_unique<int>(1);
  EXPECT_TRUE(c.try_send(first));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(c.try_send(second));
  EXPECT_NE(second, nullptr) << "what was not sent stays the caller's";
  auto waiting = rt.spawn([](channel<std::unique_ptr<int>>& c, std::unique_ptr<int> v) -> task<bool> {
    co_return (co_await as_result(c.send(std::move(v)))).has_value();
  }(c, std::move(second)));
  rt.settle();
  c.close();
  EXPECT_FALSE(rt.block_on([](join_handle<bool>& h) -> task<bool> { co_return co_await h; }(waiting)));
  rt.block_on([](channel<std::unique_ptr<int>>& c) -> task<void> {
    auto const value = co_await c.receive();
    EXPECT_EQ(**value, 1);
    EXPECT_FALSE((co_await c.receive()).has_value());
    EXPECT_THROW(co_await c.send(nullptr), error);
  }(c));
  EXPECT_TRUE(c.closed());
  EXPECT_EQ(c.try_receive(), std::nullopt);
}

TEST(ChannelOrderTest, DestroysWhatIsLeftInIt) {
  auto held = std::make_shared<int>(1);
  {
    channel<std::shared_ptr<int>> c{4};
    for (int i = 0; i < 3; ++i) {
      auto copy = held;
      EXPECT_TRUE(c.try_send(copy));
    }
    EXPECT_EQ(c.try_receive().value(), held);
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace ergon
