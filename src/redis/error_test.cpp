#include <ergon/redis/error.hpp>

#include <gtest/gtest.h>

namespace ergon::redis {
namespace {

TEST(RedisErrorTest, TellsByTheFirstWordWhatAnErrorMeans) {
  EXPECT_EQ(meaning_of("OOM command not allowed when used memory > 'maxmemory'."), errc::store_full);
  EXPECT_EQ(meaning_of("READONLY You can't write against a read only replica."), errc::store_read_only);
  EXPECT_EQ(meaning_of("MISCONF Redis is configured to save RDB snapshots"), errc::store_read_only);
  EXPECT_EQ(meaning_of("NOPERM this user has no permissions"), errc::not_permitted);
  EXPECT_EQ(meaning_of("LOADING Redis is loading the dataset in memory"), errc::unavailable);
  EXPECT_EQ(meaning_of("ERR unknown command"), errc::rejected);
  EXPECT_EQ(meaning_of("OOMS"), errc::rejected);
  EXPECT_EQ(meaning_of(""), errc::rejected);
}

TEST(RedisErrorTest, SaysWhatWasAskedAndWhatTheServerSaid) {
  const server_error e{"XADD jobs", "WRONGTYPE Operation against a key"};
  EXPECT_STREQ(e.what(), "XADD jobs: the server says: WRONGTYPE Operation against a key");
  EXPECT_EQ(e.word(), "WRONGTYPE");
}

}  // namespace
}  // namespace ergon::redis
