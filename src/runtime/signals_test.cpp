// Signals as waits. The process signals itself.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>

#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/signals.hpp>

namespace ergon {
namespace {

extern "C" void before_us(int) {}

TEST(SignalsTest, SeesTheFirstSignalAndTheSecond) {
  runtime rt{{.threads = 1}};
  signal_set signals{SIGUSR1, SIGUSR2};
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_EQ(rt.block_on([](signal_set& s) -> task<int> { co_return co_await s.wait(); }(signals)), SIGUSR1);
  ASSERT_EQ(::kill(::getpid(), SIGUSR2), 0);
  EXPECT_EQ(rt.block_on([](signal_set& s) -> task<int> { co_return co_await s.wait(); }(signals)), SIGUSR2);
}

TEST(SignalsTest, PutsBackTheDispositionThatWasThere) {
  struct sigaction ours{};
  struct sigaction now{};
  ours.sa_handler = &before_us;
  ASSERT_EQ(::sigaction(SIGUSR1, &ours, nullptr), 0);
  {
    signal_set outer{SIGUSR1};
    {
      signal_set inner{SIGUSR1, SIGUSR1};
    }
    ::sigaction(SIGUSR1, nullptr, &now);
    EXPECT_NE(now.sa_handler, &before_us);
  }
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, &before_us);
  ours.sa_handler = SIG_DFL;
  ::sigaction(SIGUSR1, &ours, nullptr);
}

TEST(SignalsTest, TellsEverySetThatListens) {
  runtime rt{{.threads = 1}};
  signal_set a{SIGUSR1};
  signal_set b{SIGUSR1};
  ::kill(::getpid(), SIGUSR1);
  auto wait = [](signal_set& s) -> task<int> { co_return co_await s.wait(); };
  EXPECT_EQ(rt.block_on(wait(a)), SIGUSR1);
  EXPECT_EQ(rt.block_on(wait(b)), SIGUSR1);
}

TEST(SignalsTest, StopsAWaitThatIsCancelled) {
  runtime rt{{.threads = 1}};
  auto h = rt.spawn(wait_signal({SIGUSR1}));
  rt.settle();
  h.cancel();
  rt.settle();
  EXPECT_TRUE(h.done());
  struct sigaction now{};
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(SignalsTest, RefusesWhatCannotBeCaught) {
  EXPECT_THROW(signal_set{SIGKILL}, error);
  EXPECT_THROW(signal_set{0}, error);
  EXPECT_THROW(signal_set{100'000}, error);
  EXPECT_THROW((signal_set{SIGUSR1, SIGSTOP}), error);
  struct sigaction now{};
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(SignalsTest, CallsAFunctionThoughEveryWorkerHangs) {
  std::atomic<bool> told{false};
  std::string text;
  runtime rt{{.threads = 1}};
  signal_callback const on_usr2{{SIGUSR2}, [&](int signal) {
                                  EXPECT_EQ(signal, SIGUSR2);
                                  text = rt.describe_tasks();
                                  told = true;
                                }};
  auto hangs = rt.spawn(
      [](std::atomic<bool>& told) -> task<void> {
        ::raise(SIGUSR2);
        while (!told) {
          std::this_thread::yield();
        }
        co_return;
      }(told),
      "hangs");
  rt.block_on([](join_handle<> h) -> task<void> { co_await h; }(std::move(hangs)));
  EXPECT_NE(text.find("1  hangs: runs, is ready"), std::string::npos) << text;
}

}  // namespace
}  // namespace ergon
