#include "broker/job_id.hpp"

#include <gtest/gtest.h>

namespace ergon {
namespace {

TEST(JobIdTest, PlainIdsSortByAge) {
  EXPECT_LT(make_job_id(1, ""), make_job_id(2, ""));
  EXPECT_LT(make_job_id(31, ""), make_job_id(32, ""));
  EXPECT_LT(make_job_id(0xffffffff, ""), make_job_id(0x100000000, ""));
  EXPECT_EQ(make_job_id(~std::uint64_t{0}, "").size(), 13U);
}

TEST(JobIdTest, ReadsBackWhatItMade) {
  for (const std::uint64_t serial : {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    EXPECT_EQ(parse_job_id(make_job_id(serial, "")).serial, serial);
    for (const std::string_view own : {"order-42", "a@b", "50%", "%40", "@", "a@0000000000001", "日本", "x%25@y"}) {
      const job_name name = parse_job_id(make_job_id(serial, own));
      EXPECT_EQ(name.serial, serial) << own;
      EXPECT_EQ(name.custom_id, own);
    }
  }
}

TEST(JobIdTest, TwoLivesOfOneOwnIdHaveDifferentNames) { EXPECT_NE(make_job_id(1, "a"), make_job_id(2, "a")); }

TEST(JobIdTest, TakesATextThatIsNoPublicIdAsAnOwnId) {
  for (const std::string_view own : {"order-42", "50%", "user@example.com", "@0000000000001", "a%zz@0000000000001", "a@", ""}) {
    const job_name name = parse_job_id(own);
    EXPECT_EQ(name.custom_id, own);
    EXPECT_FALSE(name.serial) << own;
  }
}

TEST(JobIdTest, TakesATextLikeASerialNumberAsEither) {
  const job_name name = parse_job_id("0000000000012");
  EXPECT_EQ(name.custom_id, "0000000000012");
  EXPECT_EQ(name.serial, 34U);
}

}  // namespace
}  // namespace ergon
