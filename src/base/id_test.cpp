#include <ergon/base/id.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

TEST(NumberTextTest, IsThirteenCharactersThatReadBack) {
  EXPECT_EQ(ergon::encode_u64(0), "0000000000000");
  EXPECT_EQ(ergon::encode_u64(31), "000000000000z");
  EXPECT_EQ(ergon::encode_u64(std::numeric_limits<std::uint64_t>::max()), "fzzzzzzzzzzzz");
  std::mt19937_64 random{7};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random() >> (i % 64);
    EXPECT_EQ(ergon::decode_u64(ergon::encode_u64(value)), value);
  }
}

TEST(NumberTextTest, SortsAsItsNumbersDo) {
  std::mt19937_64 random{8};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t a = random() >> (i % 64);
    const std::uint64_t b = random() >> (i * 7 % 64);
    EXPECT_EQ(a < b, ergon::encode_u64(a) < ergon::encode_u64(b));
  }
}

TEST(NumberTextTest, NoOtherTextIsRead) {
  for (std::string_view bad :
       {"", "000000000000", "00000000000000", "g000000000000", "zzzzzzzzzzzzz", "000000000000Z", "000000000000i", "000000000000l",
        "000000000000o", "000000000000u", "000000000000 ", "000000000000\xff", "-00000000001"}) {
    EXPECT_FALSE(ergon::decode_u64(bad)) << bad;
  }
}

TEST(IdSourceTest, PutsTheMillisecondFirst) {
  ergon::manual_clock clock;
  clock.set_wall(ergon::wall_time{1469918176385ms});
  ergon::id_source ids{clock, 1};
  // The example of the ULID specification's seed time, in lower case.
  EXPECT_EQ(ids.next().substr(0, 10), "01aryz6s41");
  EXPECT_EQ(ids.next().size(), ergon::id_source::text_size);
}

TEST(IdSourceTest, EachIdSortsAfterTheOneBeforeWhateverTheCalendarDoes) {
  ergon::manual_clock clock;
  ergon::id_source ids{clock};
  std::string before;
  for (int i = 0; i < 5000; ++i) {
    if (i % 500 == 0) clock.advance(1ms);
    if (i == 2500) clock.set_wall(clock.wall() - 1h);
    std::string id = ids.next();
    ASSERT_LT(before, id);
    before = std::move(id);
  }
}

TEST(IdSourceTest, TheSameSeedMakesTheSameIds) {
  ergon::manual_clock clock;
  ergon::id_source one{clock, 42};
  ergon::id_source other{clock, 42};
  ergon::id_source third{clock, 43};
  const std::string id = one.next();
  EXPECT_EQ(id, other.next());
  EXPECT_NE(id, third.next());
}

TEST(IdSourceTest, ThreadsNeverShareAnId) {
  ergon::id_source ids;
  std::array<std::vector<std::string>, 4> made;
  {
    std::vector<std::jthread> threads;
    for (auto& mine : made) {
      threads.emplace_back([&ids, &mine] {
        for (int i = 0; i < 2000; ++i) mine.push_back(ids.next());
      });
    }
  }
  std::set<std::string> all;
  for (const auto& mine : made) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), 8000U);
}

TEST(IdSourceTest, AForkedChildDoesNotRepeatItsParent) {
  ergon::manual_clock clock;
  ergon::id_source ids{clock};
  static_cast<void>(ids.next());
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string id = ids.next();
    const ssize_t n = ::write(pipe[1], id.data(), id.size());
    ::_exit(n == static_cast<ssize_t>(id.size()) ? 0 : 1);
  }
  std::string theirs(ergon::id_source::text_size, '\0');
  EXPECT_EQ(::read(pipe[0], theirs.data(), theirs.size()), static_cast<ssize_t>(theirs.size()));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_NE(ids.next(), theirs);
}

}  // namespace
