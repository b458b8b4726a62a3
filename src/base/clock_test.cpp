#include <ergon/base/clock.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <ergon/base/error.hpp>

namespace {

using namespace std::chrono_literals;

TEST(ClockTest, TheSystemsReadingsNeverRunBackwards) {
  const auto& clock = ergon::clock::system();
  const auto steady = clock.steady();
  const auto boot = clock.boot();
  EXPECT_GE(clock.steady(), steady);
  EXPECT_GE(clock.boot(), boot);
  EXPECT_GT(clock.wall().time_since_epoch(), 0ns);
  EXPECT_FALSE(clock.is_manual());
}

TEST(ClockTest, TheSystemNamesItsBootAlwaysAlike) {
  EXPECT_FALSE(ergon::clock::system().boot_id().empty());
  EXPECT_EQ(ergon::clock::system().boot_id(), ergon::clock::system().boot_id());
}

TEST(ManualClockTest, StartsIn2030ADayAfterBoot) {
  const ergon::manual_clock clock;
  EXPECT_EQ(clock.wall(), std::chrono::sys_days{std::chrono::year{2030} / 1 / 1});
  EXPECT_EQ(clock.boot(), 24h);
  EXPECT_TRUE(clock.is_manual());
}

TEST(ManualClockTest, StandsStillUntilItIsAdvanced) {
  ergon::manual_clock clock;
  const auto wall = clock.wall();
  const auto steady = clock.steady();
  const auto boot = clock.boot();
  EXPECT_EQ(clock.wall(), wall);
  clock.advance(5min);
  EXPECT_EQ(clock.wall(), wall + 5min);
  EXPECT_EQ(clock.steady(), steady + 5min);
  EXPECT_EQ(clock.boot(), boot + 5min);
}

TEST(ManualClockTest, SettingTheCalendarMovesNothingElse) {
  ergon::manual_clock clock;
  const auto wall = clock.wall();
  const auto steady = clock.steady();
  clock.set_wall(wall - 1h);
  EXPECT_EQ(clock.wall(), wall - 1h);
  EXPECT_EQ(clock.steady(), steady);
  EXPECT_EQ(clock.boot(), 24h);
}

TEST(ManualClockTest, ASuspendedMachineAgesOnlyByBootTime) {
  ergon::manual_clock clock;
  const auto wall = clock.wall();
  const auto steady = clock.steady();
  clock.suspend(8h);
  EXPECT_EQ(clock.wall(), wall + 8h);
  EXPECT_EQ(clock.boot(), 32h);
  EXPECT_EQ(clock.steady(), steady);
}

TEST(ManualClockTest, ARebootIsAnotherBootFromNought) {
  ergon::manual_clock clock;
  const auto wall = clock.wall();
  const auto id = clock.boot_id();
  clock.reboot(30s);
  EXPECT_NE(clock.boot_id(), id);
  EXPECT_EQ(clock.boot(), 0ns);
  EXPECT_EQ(clock.steady().time_since_epoch(), 0ns);
  EXPECT_EQ(clock.wall(), wall + 30s);
}

TEST(ManualClockTest, RefusesToRunBackwards) {
  ergon::manual_clock clock;
  EXPECT_THROW(clock.advance(-1ns), ergon::error);
  EXPECT_THROW(clock.suspend(-1ns), ergon::error);
  EXPECT_THROW(clock.reboot(-1ns), ergon::error);
  EXPECT_EQ(clock.boot(), 24h);
}

TEST(ManualClockTest, TellsItsListenersAfterEachMoveUntilTheyGo) {
  ergon::manual_clock clock;
  int calls = 0;
  std::chrono::nanoseconds seen{0};
  auto token = clock.listen([&] {
    ++calls;
    seen = clock.boot();
  });
  clock.advance(1s);
  EXPECT_EQ(seen, 24h + 1s);
  clock.suspend(1s);
  clock.set_wall(clock.wall());
  clock.reboot(0s);
  EXPECT_EQ(calls, 4);
  token.reset();
  clock.advance(1s);
  EXPECT_EQ(calls, 4);
}

TEST(ManualClockTest, ATokenMayOutliveItsClock) {
  std::shared_ptr<void> token;
  {
    ergon::manual_clock clock;
    token = clock.listen([] {});
  }
  token.reset();
}

TEST(ManualClockTest, ATokenThatIsGoneWaitsForTheCallUnderWay) {
  ergon::manual_clock clock;
  std::atomic<bool> inside{false};
  std::atomic<bool> go{false};
  std::atomic<bool> finished{false};
  auto token = clock.listen([&] {
    inside = true;
    inside.notify_all();
    go.wait(false);
    finished = true;
  });
  std::jthread mover{[&] { clock.advance(1s); }};
  inside.wait(false);
  std::jthread releaser{[&] {
    go = true;
    go.notify_all();
  }};
  token.reset();
  EXPECT_TRUE(finished);
}

}  // namespace
