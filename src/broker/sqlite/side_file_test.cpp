// What processes tell each other beside the database.
#include "broker/sqlite/side_file.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/clock.hpp>

#include "broker/sqlite/test_folder.hpp"

namespace ergon::sqlite {
namespace {

using namespace std::chrono_literals;

TEST(SideFileTest, GivesEachOpenerASlotOfItsOwn) {
  const test_folder folder;
  const side_file a{folder / "db"};
  const side_file b{folder / "db"};
  EXPECT_EQ(a.id(), b.id());
  EXPECT_NE(a.slot(), b.slot());
  EXPECT_TRUE(a.is_held(b.slot(), b.token()));
  EXPECT_TRUE(a.is_held(a.slot(), a.token()));
  EXPECT_FALSE(a.is_held(b.slot(), b.token() + 1)) << "another use of the slot";
  EXPECT_FALSE(a.is_held(200, 0));
  EXPECT_FALSE(a.is_held(-1, 0));
}

TEST(SideFileTest, SeesAKilledProcessGoneAndGivesItsSlotAway) {
  const test_folder folder;
  const side_file mine{folder / "db"};
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const side_file theirs{folder / "db"};
    const std::int64_t place[2] = {theirs.slot(), theirs.token()};
    if (::write(told[1], place, sizeof place) == sizeof place) {
      for (;;) ::pause();
    }
    ::_exit(1);
  }
  std::int64_t place[2] = {};
  ASSERT_EQ(::read(told[0], place, sizeof place), static_cast<ssize_t>(sizeof place));
  EXPECT_TRUE(mine.is_held(place[0], place[1]));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(mine.is_held(place[0], place[1]));
  const side_file heir{folder / "db"};
  EXPECT_EQ(heir.slot(), place[0]);
  EXPECT_FALSE(mine.is_held(place[0], place[1])) << "the slot is held again, by another use";
  ::close(told[0]);
  ::close(told[1]);
}

TEST(SideFileTest, ARingWakesOnlyThoseWhoWantItAndTakesTheWishBack) {
  const test_folder folder;
  side_file ringer{folder / "db"};
  side_file wants{folder / "db"};
  side_file other{folder / "db"};
  wants.want(bell_queue(3) | bell_ended);
  other.want(bell_queue(4));
  const auto before = wants.heard();
  const auto other_before = other.heard();
  ringer.ring(bell_queue(3), 10);
  EXPECT_NE(wants.heard(), before);
  EXPECT_EQ(other.heard(), other_before);
  EXPECT_EQ(wants.want(0), bell_ended) << "what is missing is what has rung";
}

TEST(SideFileTest, ARingForOneJobWakesOneOfSeveral) {
  const test_folder folder;
  side_file ringer{folder / "db"};
  side_file a{folder / "db"};
  side_file b{folder / "db"};
  const auto count = [&] { return a.heard() + b.heard(); };
  const auto ask = [&] {
    a.want(bell_queue(1));
    b.want(bell_queue(1));
  };
  ask();
  const auto before = count();
  const auto a_before = a.heard();
  ringer.ring(bell_queue(1), 1);
  EXPECT_EQ(count(), before + 1);
  ask();
  ringer.ring(bell_queue(1), 1);
  EXPECT_EQ(a.heard(), a_before + 1) << "in turn";
}

TEST(SideFileTest, AWaitEndsByABellThatRangBeforeIt) {
  const test_folder folder;
  side_file mine{folder / "db"};
  const auto heard = mine.heard();
  mine.ring_self();
  const auto start = clock::system().steady();
  mine.wait(heard, 1h);
  EXPECT_LT(clock::system().steady() - start, 10min);
}

TEST(SideFileTest, TheWriteLockHoldsOneAtATime) {
  const test_folder folder;
  constexpr int threads = 4;
  constexpr int rounds = 500;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  int shared = 0;
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      side_file mine{folder / "db"};
      for (int i = 0; i < rounds; ++i) {
        mine.lock();
        most = std::max(most.load(), ++inside);
        ++shared;
        --inside;
        mine.unlock();
      }
    });
  }
  all.clear();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(shared, threads * rounds);
}

TEST(SideFileTest, AKilledHolderLeavesTheLockFree) {
  const test_folder folder;
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    side_file theirs{folder / "db"};
    theirs.lock();
    if (::write(told[1], "x", 1) == 1) {
      for (;;) ::pause();
    }
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  side_file mine{folder / "db"};
  EXPECT_FALSE(mine.try_lock());
  ::kill(child, SIGKILL);
  mine.lock();
  ::waitpid(child, nullptr, 0);
  mine.unlock();
  ::close(told[0]);
  ::close(told[1]);
}

}  // namespace
}  // namespace ergon::sqlite
