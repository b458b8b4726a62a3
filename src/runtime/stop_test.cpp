// Stop tokens at the edges of tasks.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>

namespace ergon {
namespace {

TEST(StopTest, RequestsTheTokenOfACancelledTask) {
  runtime rt{{.threads = 1}};
  event never;
  std::stop_token token;
  auto h = rt.spawn([](std::stop_token& token, event& never) -> task<void> {
    token = co_await this_task::stop_token();
    co_await never.wait();
  }(token, never));
  rt.settle();
  EXPECT_TRUE(token.stop_possible());
  EXPECT_FALSE(token.stop_requested());
  h.cancel();
  EXPECT_TRUE(token.stop_requested());
  rt.settle();
  EXPECT_TRUE(h.done());
}

TEST(StopTest, GivesARequestedTokenToATaskThatIsCancelledAlready) {
  runtime rt{{.threads = 1}};
  event never;
  bool requested = false;
  bool cancelled = false;
  auto h = rt.spawn([](event& never, bool& requested, bool& cancelled) -> task<void> {
    static_cast<void>(co_await as_result(never.wait()));
    requested = (co_await this_task::stop_token()).stop_requested();
    cancelled = co_await this_task::is_cancelled();
    co_await this_task::checkpoint();
    requested = false;
  }(never, requested, cancelled));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  EXPECT_TRUE(requested);
  EXPECT_TRUE(cancelled);
}

TEST(StopTest, CancelsATaskThroughATokenFromOutside) {
  runtime rt{{.threads = 1}};
  event never;
  std::stop_source source;
  auto h = rt.spawn(with_stop(source.get_token(), [](event& e) -> task<void> { co_await e.wait(); }(never)));
  rt.settle();
  EXPECT_FALSE(h.done());
  std::thread([&] { source.request_stop(); }).join();
  EXPECT_EQ(rt.block_on([](join_handle<>& h) -> task<std::error_code> { co_return (co_await as_result(h)).error(); }(h)),
            errc::cancelled);
}

TEST(StopTest, PassesTheValueOnAndIgnoresALaterRequest) {
  runtime rt{{.threads = 1}};
  std::stop_source source;
  EXPECT_EQ(rt.block_on(with_stop(source.get_token(), []() -> task<int> { co_return 5; }())), 5);
  source.request_stop();
  EXPECT_THROW(rt.block_on(with_stop(source.get_token(), []() -> task<int> { co_return 5; }())), error);
}

}  // namespace
}  // namespace ergon
