#include "broker/check.hpp"

#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t limit = 1000;

/// What the check says to `job`; nothing where it takes it.
std::optional<errc> refusal(const new_job& job) {
  try {
    check_new_jobs({&job, 1}, limit);
    return std::nullopt;
  } catch (const error& wrong) {
    return wrong.reason();
  }
}

TEST(CheckTest, TakesWhatTheDocumentationAllows) {
  const std::string longest(128, 'q');
  const std::string id(256, 'i');
  EXPECT_EQ(refusal({.queue = longest, .kind = "a-b_c.d:e/F9", .payload = std::string(limit, 'x'), .id = id}), std::nullopt);
  EXPECT_EQ(refusal({.kind = "k", .id = "名前 @%"}), std::nullopt);
  EXPECT_EQ(refusal({.kind = "k", .delay = 0ns, .timeout = 0ms, .unique_key = "u", .unique_for = 1ms}), std::nullopt);
  EXPECT_EQ(refusal({.kind = "k", .delay = std::chrono::years{10}}), std::nullopt);
}

// Promise 9.
TEST(CheckTest, RefusesOddBytesInNames) {
  for (const std::string_view bad : {std::string_view{""}, std::string_view{"a b"}, std::string_view{"a\0b", 3},
                                     std::string_view{"ü"}, std::string_view{"a\n"}, std::string_view{"\xff"}}) {
    EXPECT_EQ(refusal({.queue = bad, .kind = "k"}), errc::invalid_argument);
    EXPECT_EQ(refusal({.kind = bad}), errc::invalid_argument);
    EXPECT_THROW(check_queue_name(bad), error);
  }
  EXPECT_EQ(refusal({.queue = std::string(129, 'q'), .kind = "k"}), errc::invalid_argument);
}

// Promise 9.
TEST(CheckTest, RefusesOddBytesInIdsKeysAndHeaders) {
  for (const std::string_view bad : {std::string_view{"a\0b", 3}, std::string_view{"\x7f"}, std::string_view{"\xc2\x85"},
                                     std::string_view{"\xed\xa0\x80"}, std::string_view{"ab\xff"}}) {
    EXPECT_EQ(refusal({.kind = "k", .id = bad}), errc::invalid_argument);
    EXPECT_EQ(refusal({.kind = "k", .unique_key = bad, .unique_for = 1s}), errc::invalid_argument);
    const header h{.name = bad, .value = "v"};
    EXPECT_EQ(refusal({.kind = "k", .headers = {&h, 1}}), errc::invalid_argument);
  }
  const header nameless{.name = "", .value = "v"};
  EXPECT_EQ(refusal({.kind = "k", .headers = {&nameless, 1}}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .id = std::string(257, 'i')}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .unique_key = std::string(1025, 'u'), .unique_for = 1s}), errc::invalid_argument);
}

TEST(CheckTest, RefusesWhatIsTooLarge) {
  EXPECT_EQ(refusal({.kind = "k", .payload = std::string(limit + 1, 'x')}), errc::too_large);
  const std::string value(limit, 'v');
  const header h{.name = "h", .value = value};
  EXPECT_EQ(refusal({.kind = "k", .headers = {&h, 1}}), errc::too_large);
}

TEST(CheckTest, RefusesNegativeAndAbsurdSpans) {
  constexpr auto absurd = std::chrono::milliseconds{std::numeric_limits<std::int64_t>::max()};
  for (const auto bad : {-1ms, absurd, -absurd}) {
    EXPECT_EQ(refusal({.kind = "k", .timeout = bad}), errc::invalid_argument);
    EXPECT_EQ(refusal({.kind = "k", .unique_key = "u", .unique_for = bad}), errc::invalid_argument);
    EXPECT_EQ(refusal({.kind = "k", .retention = bad}), errc::invalid_argument);
    EXPECT_EQ(refusal({.kind = "k", .keep_result = bad}), errc::invalid_argument);
  }
  EXPECT_EQ(refusal({.kind = "k", .delay = -1ns}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .delay = std::chrono::years{10} + 1ns}), errc::invalid_argument);
}

TEST(CheckTest, RefusesContradictions) {
  EXPECT_EQ(refusal({.kind = "k", .delay = 1s, .due = wall_time{}}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .unique_key = "u"}), errc::invalid_argument);
  EXPECT_EQ(refusal({.kind = "k", .unique_for = 1s}), errc::invalid_argument);
}

TEST(CheckTest, TellsWhichOfSeveralJobsIsWrong) {
  const auto text_of = [](std::span<const new_job> jobs) -> std::string {
    try {
      check_new_jobs(jobs, limit);
      return {};
    } catch (const error& wrong) {
      return wrong.what();
    }
  };
  // Names are looked at anew where they are others than the last job's.
  const std::string shared = "kind";
  const std::vector<new_job> jobs{{.kind = shared}, {.kind = shared}, {.kind = "b d"}};
  EXPECT_EQ(text_of(jobs).find("job 2 of the batch: kind \"b d\""), 0U) << text_of(jobs);
  EXPECT_EQ(text_of(std::span{jobs}.last(1)).find("kind \"b d\""), 0U);
  EXPECT_EQ(text_of(std::span{jobs}.first(2)), "");
}

}  // namespace
}  // namespace ergon
