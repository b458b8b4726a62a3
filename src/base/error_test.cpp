#include <ergon/base/error.hpp>

#include <gtest/gtest.h>

namespace {

TEST(ErrorTest, ShowsItsTextAloneAndKeepsItsCode) {
  const ergon::error failure{ergon::errc::lease_lost, "job 7: taken over by worker b"};
  EXPECT_STREQ(failure.what(), "job 7: taken over by worker b");
  EXPECT_EQ(failure.reason(), ergon::errc::lease_lost);
  EXPECT_EQ(failure.code(), ergon::errc::lease_lost);
}

TEST(ErrorTest, EveryCodeHasAMessageOfItsOwnOnOneLine) {
  EXPECT_STREQ(ergon::error_category().name(), "ergon");
  std::string before;
  for (int i = 1; i <= static_cast<int>(ergon::errc::bad_reply); ++i) {
    const std::string message = ergon::error_category().message(i);
    EXPECT_NE(message, "unknown ergon error") << i;
    EXPECT_NE(message, before);
    EXPECT_EQ(message.find('\n'), std::string::npos);
    before = message;
  }
  EXPECT_EQ(ergon::error_category().message(4711), "unknown ergon error");
}

TEST(ErrorTest, IsCaughtAsASystemError) {
  try {
    throw ergon::error{ergon::errc::busy, "x"};
  } catch (const std::system_error& caught) {
    EXPECT_EQ(caught.code().category(), ergon::error_category());
  }
}

}  // namespace
