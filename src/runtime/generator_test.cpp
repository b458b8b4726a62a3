// Generators: laziness, ends of every kind, who destroys the frame, misuse.
#include <ergon/runtime/generator.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/when.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

struct says {
  std::vector<std::string>& into;
  std::string what;
  ~says() { into.push_back(what); }
};

generator<int> count_to(int n) {
  for (int i = 1; i <= n; ++i) {
    co_yield i;
  }
}

/// With a wait before each value.
generator<int> slow_count_to(int n) {
  for (int i = 1; i <= n; ++i) {
    co_await sleep_for(1s);
    co_yield i;
  }
}

task<long> sum_of(generator<int> g) {
  long sum = 0;
  while (auto v = co_await g.next()) {
    sum += *v;
  }
  co_return sum;
}

TEST(GeneratorTest, RunsOnlyAsFarAsItIsAsked) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    std::vector<std::string> log;
    auto g = [](std::vector<std::string>& log) -> generator<int> {
      log.emplace_back("started");
      co_yield 1;
      log.emplace_back("went on");
      co_yield 2;
      log.emplace_back("ended");
    }(log);
    EXPECT_TRUE(log.empty());
    EXPECT_EQ(co_await g.next(), 1);
    EXPECT_EQ(log, std::vector<std::string>{"started"});
    EXPECT_EQ(co_await g.next(), 2);
    EXPECT_EQ(log.size(), 2U);
    EXPECT_EQ(co_await g.next(), std::nullopt);
    EXPECT_EQ(log.size(), 3U);
  }());
}

TEST(GeneratorTest, GivesNothingAfterItsEnd) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto g = count_to(1);
    EXPECT_EQ(co_await g.next(), 1);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(co_await g.next(), std::nullopt);
    }
    EXPECT_EQ((co_await as_result(g.next())).value(), std::nullopt);
  }());
}

TEST(GeneratorTest, WaitsForTimeTasksAndOtherGenerators) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  auto squares = [](generator<int> from) -> generator<int> {
    while (auto v = co_await from.next()) {
      co_yield co_await [](int n) -> task<int> { co_return n* n; }(*v);
    }
  };
  auto h = rt.spawn(sum_of(squares(slow_count_to(3))));
  for (int i = 0; i < 3; ++i) {
    rt.settle();
    EXPECT_FALSE(h.done());
    clock.advance(1s);
  }
  EXPECT_EQ(rt.block_on([](join_handle<long>& h) -> task<long> { co_return co_await h; }(h)), 14);
}

TEST(GeneratorTest, CarriesMoveOnlyConvertedAndOverAlignedValues) {
  struct alignas(64) wide {
    std::int64_t value = 0;
  };
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto pointers = []() -> generator<std::unique_ptr<int>> {
      co_yield std::make_unique<int>(1);
      auto named = std::make_unique<int>(2);
      co_yield std::move(named);
      EXPECT_EQ(named, nullptr);
    }();
    EXPECT_EQ(**co_await pointers.next(), 1);
    EXPECT_EQ(**co_await pointers.next(), 2);
    EXPECT_FALSE(co_await pointers.next());

    auto texts = []() -> generator<std::string> {
      std::string const kept = "a text that is longer than what fits into the object";
      co_yield kept;
      co_yield "literal";
      std::string also = kept;
      co_yield also;
      EXPECT_EQ(also, kept) << "what is yielded by name is copied";
    }();
    EXPECT_EQ((co_await texts.next())->size(), 52U);
    EXPECT_EQ(co_await texts.next(), "literal");
    EXPECT_EQ((co_await texts.next())->size(), 52U);
    EXPECT_FALSE(co_await texts.next());

    auto wides = []() -> generator<wide> {
      wide const named{1};
      co_yield named;
      co_yield wide{2};
    }();
    EXPECT_EQ((co_await wides.next())->value, 1);
    EXPECT_EQ((co_await wides.next())->value, 2);
  }());
}

TEST(GeneratorTest, OfReferencesGivesPointersToWhatIsYielded) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    std::array<int, 3> numbers{1, 2, 3};
    auto each = [](std::array<int, 3>& of) -> generator<int&> {
      for (int& n : of) {
        co_yield n;
      }
    }(numbers);
    while (int* const n = co_await each.next()) {
      *n *= 2;
    }
    EXPECT_EQ(numbers, (std::array<int, 3>{2, 4, 6}));

    auto texts = []() -> generator<const std::string&> { co_yield "made of this"; }();
    EXPECT_EQ(*co_await texts.next(), "made of this");
    EXPECT_EQ(co_await texts.next(), nullptr);
  }());
}

TEST(GeneratorTest, ThrowsToWhoAsksAndHasEndedThen) {
  runtime rt{{.threads = 1}};
  auto held = std::make_shared<int>(1);
  rt.block_on([](std::shared_ptr<int>& held) -> task<void> {
    auto g = [](std::shared_ptr<int>) -> generator<int> {
      co_yield 1;
      co_await yield();
      throw std::runtime_error("from the body");
    }(held);
    EXPECT_EQ(co_await g.next(), 1);
    try {
      static_cast<void>(co_await g.next());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "from the body");
    }
    EXPECT_EQ(held.use_count(), 1) << "the frame is kept";
    EXPECT_EQ(co_await g.next(), std::nullopt);
  }(held));
}

TEST(GeneratorTest, AValueWhoseMoveThrowsLeavesItWhereItStands) {
  struct brittle {
    explicit brittle(bool breaks) : breaks(breaks) {}
    brittle(brittle&& other) : breaks(other.breaks) {
      if (breaks) {
        throw std::runtime_error("does not move");
      }
    }
    bool breaks;
  };
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto g = []() -> generator<brittle> {
      co_yield brittle{true};
      co_yield brittle{false};
    }();
    EXPECT_THROW(static_cast<void>(co_await g.next()), std::runtime_error);
    EXPECT_TRUE(co_await g.next());
    EXPECT_FALSE(co_await g.next());
  }());
}

TEST(GeneratorTest, DestroyedUnfinishedItDestroysWhatItsBodyHolds) {
  runtime rt{{.threads = 1}};
  std::vector<std::string> log;
  auto body = [](std::vector<std::string>& log, std::shared_ptr<int>) -> generator<int> {
    says const outer{log, "outer"};
    {
      says const inner{log, "inner"};
      co_yield 1;
    }
    co_yield 2;
  };
  auto held = std::make_shared<int>(1);
  {
    auto const never_started = body(log, held);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_TRUE(log.empty());
  rt.block_on([](generator<int> g) -> task<void> { EXPECT_EQ(co_await g.next(), 1); }(body(log, held)));
  EXPECT_EQ(log, (std::vector<std::string>{"inner", "outer"}));
  EXPECT_EQ(held.use_count(), 1);
  rt.block_on([](generator<int> g) -> task<void> {
    EXPECT_EQ(co_await g.next(), 1);
    g = count_to(1);
    EXPECT_EQ(co_await g.next(), 1);
  }(body(log, held)));
  EXPECT_EQ(log.size(), 4U);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(GeneratorTest, ACancelDestroysItsFrameBeforeThatOfWhoAsks) {
  runtime rt{{.threads = 1}};
  std::vector<std::string> log;
  event never;
  auto inner = [](std::vector<std::string>& log, event& never) -> generator<int> {
    says const mine{log, "inner"};
    co_yield 1;
    co_await [](std::vector<std::string>& log, event& never) -> task<void> {
      says const mine{log, "leaf"};
      co_await never.wait();
    }(log, never);
    log.emplace_back("not reached");
  };
  auto outer = [](std::vector<std::string>& log, generator<int> from) -> generator<int> {
    says const mine{log, "outer"};
    while (auto v = co_await from.next()) {
      co_yield *v;
    }
    log.emplace_back("not reached");
  };
  auto h = rt.spawn([](std::vector<std::string>& log, generator<int> g) -> task<void> {
    says const mine{log, "who asks"};
    EXPECT_EQ(co_await g.next(), 1);
    static_cast<void>(co_await g.next());
    log.emplace_back("not reached");
  }(log, outer(log, inner(log, never))));
  rt.settle();
  EXPECT_TRUE(log.empty());
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(log, (std::vector<std::string>{"leaf", "inner", "outer", "who asks"}));
}

TEST(GeneratorTest, OutlivesATaskThatWasStoppedInIt) {
  runtime rt{{.threads = 1}};
  std::vector<std::string> log;
  event never;
  auto g = [](std::vector<std::string>& log, event& never) -> generator<int> {
    says const mine{log, "body"};
    co_yield 1;
    co_await never.wait();
  }(log, never);
  auto ask = [](generator<int>& g) -> task<std::optional<int>> { co_return co_await g.next(); };
  EXPECT_EQ(rt.block_on(ask(g)), 1);
  auto h = rt.spawn(ask(g));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(log, std::vector<std::string>{"body"});
  EXPECT_EQ(rt.block_on(ask(g)), std::nullopt);
}

TEST(GeneratorTest, AsResultSeesAStopAndTheTaskGoesOn) {
  runtime rt{{.threads = 1}};
  std::vector<std::string> log;
  event never;
  auto h = rt.spawn([](std::vector<std::string>& log, event& never) -> task<void> {
    auto g = [](std::vector<std::string>& log, event& never) -> generator<int> {
      says const mine{log, "body"};
      co_yield 1;
      co_await never.wait();
    }(log, never);
    EXPECT_EQ((co_await as_result(g.next())).value(), 1);
    auto const stopped = co_await as_result(g.next());
    log.emplace_back(stopped ? "value" : stopped.error().message());
    EXPECT_EQ((co_await as_result(g.next())).value(), std::nullopt);
    EXPECT_EQ(co_await g.next(), std::nullopt);
    log.emplace_back("tidied up");
  }(log, never));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_EQ(log, (std::vector<std::string>{"body", make_error_code(errc::cancelled).message(), "tidied up"}));
}

TEST(GeneratorTest, AsResultGivesWhatEndsAWaitAsAValueAndThrowsTheRest) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto closed = []() -> generator<int> {
      co_await yield();
      throw error(errc::closed, "closed");
      co_yield 1;
    }();
    EXPECT_EQ((co_await as_result(closed.next())).error(), errc::closed);
    auto other = []() -> generator<int> {
      throw std::runtime_error("other");
      co_yield 1;
    }();
    EXPECT_THROW(static_cast<void>(co_await as_result(other.next())), std::runtime_error);
    generator<int> empty;
    EXPECT_THROW(static_cast<void>(co_await as_result(empty.next())), error);
  }());
}

TEST(GeneratorTest, ATimeoutStopsItAtItsWait) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  auto h = rt.spawn(timeout(10s, sum_of(slow_count_to(1000))));
  for (int i = 0; i < 10; ++i) {
    rt.settle();
    clock.advance(1s);
  }
  EXPECT_EQ(rt.block_on([](join_handle<long>& h) -> task<std::error_code> { co_return (co_await as_result(h)).error(); }(h)),
            errc::timed_out);
}

task<errc> refusal(generator<int>& g) {
  try {
    static_cast<void>(co_await g.next());
  } catch (const error& e) {
    co_return e.reason();
  }
  co_return errc{};
}

TEST(GeneratorTest, RefusesToBeAskedWhenItIsEmpty) {
  runtime rt{{.threads = 1}};
  generator<int> none;
  EXPECT_EQ(rt.block_on(refusal(none)), errc::invalid_argument);
  auto first = count_to(2);
  auto second = std::move(first);
  EXPECT_EQ(rt.block_on(refusal(first)), errc::invalid_argument);
  EXPECT_EQ(rt.block_on(sum_of(std::move(second))), 3);
}

TEST(GeneratorTest, RefusesASecondWhoAsksAndDoesNotDisturbTheFirst) {
  runtime rt{{.threads = 2}};
  event go_on;
  auto g = [](event& go_on) -> generator<int> {
    co_await go_on.wait();
    co_yield 7;
  }(go_on);
  auto first = rt.spawn([](generator<int>& g) -> task<std::optional<int>> { co_return co_await g.next(); }(g));
  rt.settle();
  EXPECT_EQ(rt.block_on(refusal(g)), errc::invalid_argument);
  go_on.set();
  EXPECT_EQ(rt.block_on([](join_handle<std::optional<int>>& h) -> task<std::optional<int>> { co_return co_await h; }(first)), 7);
}

TEST(GeneratorTest, GivesEveryValueOnceToTasksThatAskFromManyThreads) {
  runtime rt{{.threads = 2}};
  auto g = [](int n) -> generator<int> {
    for (int i = 1; i <= n; ++i) {
      if (i % 16 == 0) {
        co_await yield();
      }
      co_yield i;
    }
  }(20'000);
  auto ask = [](generator<int>& g) -> task<long> {
    long sum = 0;
    for (;;) {
      bool refused = false;
      try {
        auto const v = co_await g.next();
        if (!v) {
          co_return sum;
        }
        sum += *v;
      } catch (const error&) {
        refused = true;
      }
      if (refused) {
        co_await yield();
      }
    }
  };
  auto const [a, b, c] = rt.block_on(when_all(ask(g), ask(g), ask(g)));
  EXPECT_EQ(a + b + c, 20'000L * 20'001 / 2);
}

TEST(GeneratorTest, GivesAMillionValuesInConstantStack) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(rt.block_on(sum_of(count_to(1'000'000))), 1'000'000L * 1'000'001 / 2);
}

TEST(GeneratorTest, PassesValuesThroughManyGeneratorsInConstantStack) {
  runtime rt{{.threads = 1}};
  auto pass = [](generator<int> from) -> generator<int> {
    while (auto v = co_await from.next()) {
      co_yield *v;
    }
  };
  auto g = count_to(20);
  for (int i = 0; i < 10'000; ++i) {
    g = pass(std::move(g));
  }
  EXPECT_EQ(rt.block_on(sum_of(std::move(g))), 210);
}

TEST(GeneratorTest, RunsUnderTheRootOfWhoAsks) {
  runtime rt{{.threads = 1}};
  event never;
  auto g = [](event& never) -> generator<int> {
    co_yield 1;
    co_await never.wait();
    co_yield 2;
  }(never);
  auto ask = [](generator<int>& g) -> task<std::optional<int>> { co_return co_await g.next(); };
  auto first = rt.spawn(ask(g));
  rt.settle();
  auto second = rt.spawn(ask(g));
  rt.settle();
  // The first has ended: its cancel does not reach the body, which runs under the second now.
  first.cancel();
  rt.settle();
  EXPECT_FALSE(second.done());
  never.set();
  EXPECT_EQ(rt.block_on([](join_handle<std::optional<int>>& h) -> task<std::optional<int>> { co_return co_await h; }(second)), 2);
}

}  // namespace
}  // namespace ergon
