#include <ergon/broker/batch.hpp>

#include <string>

#include <gtest/gtest.h>

namespace ergon {
namespace {

TEST(DeliveryBatchTest, WhatItKeepsStaysWhereItIs) {
  delivery_batch batch;
  std::vector<std::string_view> kept;
  for (int i = 0; i < 20'000; ++i) kept.push_back(batch.keep("text " + std::to_string(i)));
  for (int i = 0; i < 20'000; ++i) EXPECT_EQ(kept[static_cast<std::size_t>(i)], "text " + std::to_string(i));
}

TEST(DeliveryBatchTest, KeepsMoreThanAChunkInOnePiece) {
  delivery_batch batch;
  const std::string large(10'000'000, 'x');
  const auto before = batch.keep("before");
  EXPECT_EQ(batch.keep(large), large);
  EXPECT_EQ(batch.keep("after"), "after");
  EXPECT_EQ(before, "before");
  EXPECT_EQ(batch.size_bytes(), 10'000'011U);
}

TEST(DeliveryBatchTest, IsEmptyAfterClear) {
  delivery_batch batch;
  batch.jobs.push_back({});
  EXPECT_EQ(batch.keep(""), "");
  const char* first = batch.keep("a").data();
  batch.clear();
  EXPECT_TRUE(batch.jobs.empty());
  EXPECT_EQ(batch.size_bytes(), 0U);
  EXPECT_EQ(batch.keep("b").data(), first) << "the memory is used again";
}

}  // namespace
}  // namespace ergon
