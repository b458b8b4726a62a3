#include "broker/redis/serial.hpp"

#include <gtest/gtest.h>

namespace ergon::redis_store {
namespace {

TEST(SerialTest, IsReadAsItWasWritten) {
  for (const serial it : {serial{.ms = 0, .number = 0}, serial{.ms = 1'893'456'000'000, .number = 7},
                          serial{.ms = 1'893'456'000'000, .number = 7, .is_own = true},
                          serial{.ms = (std::uint64_t{1} << 48U) - 1, .number = (std::uint64_t{1} << 56U) - 1}}) {
    EXPECT_EQ(parse_serial(to_text(it)), it);
    const auto address = address_in(parse_wide_job_id(public_id_of(65'535, it, {})));
    ASSERT_TRUE(address) << to_text(it);
    EXPECT_EQ(address->queue, 65'535U);
    EXPECT_EQ(address->which, it);
  }
}

TEST(SerialTest, OfAnOwnIdStandsBehindIt) {
  const serial it{.ms = 5, .number = 6, .is_own = true};
  const std::string id = public_id_of(3, it, "order@4%2");
  const auto name = parse_wide_job_id(id);
  EXPECT_EQ(name.custom_id, "order@4%2");
  EXPECT_EQ(address_in(name)->which, it);
}

TEST(SerialTest, RefusesEverythingElse) {
  for (const std::string_view bad : {"", "-", "1", "1-", "-1", "1-2-3", "1-2 ", " 1-2", "1*2", "a-b", "281474976710656-0",
                                     "1-72057594037927936", "18446744073709551616-0"}) {
    EXPECT_FALSE(parse_serial(bad)) << bad;
  }
  // Not of this kind of store, or with bits that must be nought.
  for (const std::string_view bad : {"", "0000000000001", "00000000000000000000000001", "0008000000000zzzzzzzzzzzzz"}) {
    EXPECT_FALSE(address_in(parse_wide_job_id(bad))) << bad;
  }
}

TEST(SerialTest, PublicIdsSortByAge) {
  EXPECT_LT(public_id_of(1, {.ms = 1, .number = 9}, {}), public_id_of(1, {.ms = 2, .number = 0}, {}));
  EXPECT_LT(public_id_of(1, {.ms = 1, .number = 9}, {}), public_id_of(1, {.ms = 1, .number = 10}, {}));
}

}  // namespace
}  // namespace ergon::redis_store
