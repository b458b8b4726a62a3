#include "broker/record.hpp"

#include <random>

#include <gtest/gtest.h>

namespace ergon {
namespace {

using namespace std::chrono_literals;

wall_time at(std::int64_t seconds) { return wall_time{std::chrono::seconds{seconds}}; }

record full() {
  record r;
  r.kind = "resize";
  r.payload = "{\"path\":\"a.png\"}";
  r.custom_id = "order-42";
  r.unique_key = "resize:a.png";
  r.raw_headers = "hhh";
  r.raw_errors = "eee";
  r.serial = 1ULL << 41;
  r.enqueued_at = at(1'900'000'000);
  r.failures = 3;
  r.losses = 2;
  r.marked_losses = 1;
  r.max_retries = 0;
  r.timeout = 0ms;
  r.deadline = at(1'900'000'100);
  r.retention = 1h;
  r.keep_result = 2h;
  r.unique_for = 3h;
  r.ending = "";
  return r;
}

std::string encoded(const record& r) {
  std::string bytes;
  encode_record(r, bytes);
  return bytes;
}

void expect_same(const record& a, const record& b) {
  EXPECT_EQ(a.fit, b.fit);
  EXPECT_EQ(a.format, b.format);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.payload, b.payload);
  EXPECT_EQ(a.custom_id, b.custom_id);
  EXPECT_EQ(a.unique_key, b.unique_key);
  EXPECT_EQ(a.raw_headers, b.raw_headers);
  EXPECT_EQ(a.raw_errors, b.raw_errors);
  EXPECT_EQ(a.serial, b.serial);
  EXPECT_EQ(a.enqueued_at, b.enqueued_at);
  EXPECT_EQ(a.failures, b.failures);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.marked_losses, b.marked_losses);
  EXPECT_EQ(a.max_retries, b.max_retries);
  EXPECT_EQ(a.timeout, b.timeout);
  EXPECT_EQ(a.deadline, b.deadline);
  EXPECT_EQ(a.retention, b.retention);
  EXPECT_EQ(a.keep_result, b.keep_result);
  EXPECT_EQ(a.unique_for, b.unique_for);
  EXPECT_EQ(a.ending, b.ending);
  EXPECT_EQ(a.unknown, b.unknown);
}

TEST(RecordTest, ReadsBackEveryField) {
  const std::string bytes = encoded(full());
  expect_same(decode_record(bytes), full());
}

TEST(RecordTest, APlainJobCostsFewBytesBeyondItsOwn) {
  const std::string payload(100, 'x');
  const std::string bytes = encoded(record_of({.kind = "noop", .payload = payload}, at(1'900'000'000), {}));
  EXPECT_LE(bytes.size(), 100 + 4 + 16U);
  EXPECT_EQ(decode_record(bytes).max_retries, 25U);
  EXPECT_EQ(decode_record(bytes).timeout, 30min);
}

// Promise 12: an older worker never strips what a newer client wrote.
TEST(RecordTest, CarriesUnknownFieldsThroughARewrite) {
  std::string bytes = encoded(full());
  const std::string later = {static_cast<char>(0x80 | (40 << 2 & 0x7f) | 2), static_cast<char>(40 << 2 >> 7), 3, 'n', 'e', 'w'};
  bytes += later;
  record r = decode_record(bytes);
  EXPECT_EQ(r.fit, record_fit::readable);
  EXPECT_EQ(r.unknown, later);
  ++r.failures;
  const std::string rewritten = encoded(r);
  EXPECT_TRUE(rewritten.ends_with(later));
  EXPECT_EQ(decode_record(rewritten).failures, 4U);
}

// Promise 12.
TEST(RecordTest, KeepsANewerFormatAsItIs) {
  std::string bytes = encoded(full());
  bytes.front() = 2;
  bytes += "\x07 rules that nobody knows yet";
  record r = decode_record(bytes);
  EXPECT_EQ(r.fit, record_fit::newer);
  EXPECT_EQ(r.kind, "resize");
  EXPECT_EQ(encoded(r), bytes);
}

// Promise 9.
TEST(RecordTest, CallsAnythingElseGarbage) {
  for (const std::string_view bytes :
       {std::string_view{}, std::string_view{"\0abc", 4}, std::string_view{"\1"}, std::string_view{"\1\xff\xff"}}) {
    EXPECT_EQ(decode_record(bytes).fit, record_fit::garbage);
  }
  const std::string sound = encoded(full());
  std::string twice = sound + sound.substr(1);
  EXPECT_EQ(decode_record(twice).fit, record_fit::garbage);
  EXPECT_EQ(decode_record(twice).kind, "resize");
  std::string torn = sound.substr(0, sound.size() - 1);
  EXPECT_EQ(decode_record(torn).fit, record_fit::garbage);
}

// Promise 9.
TEST(RecordTest, SurvivesAnyDamage) {
  std::mt19937_64 random{1};
  const std::string sound = encoded(full());
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = sound.substr(0, random() % (sound.size() + 1));
    for (std::size_t flips = random() % 4; flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const record r = decode_record(bytes);
    (void)decode_headers(r.raw_headers);
    (void)decode_failures(r.raw_errors);
    (void)info_of(r, 7, "default", job_state::ready);
    if (r.fit == record_fit::readable) {
      const std::string rewritten = encoded(r);
      expect_same(decode_record(rewritten), r);
    }
  }
}

TEST(RecordTest, ReadsBackHeaders) {
  const std::vector<header> headers{
      {.name = "tenant", .value = "a"}, {.name = "trace", .value = std::string_view{"\0\xff", 2}}, {.name = "e", .value = ""}};
  std::string raw;
  encode_headers(headers, raw);
  EXPECT_EQ(decode_headers(raw), headers);
  EXPECT_EQ(decode_headers(std::string_view{raw}.substr(0, raw.size() - 1)).size(), 2U);
}

// Promise 4: error history is capped.
TEST(RecordTest, KeepsTheLastTenFailures) {
  std::string raw;
  for (int i = 1; i <= 25; ++i) {
    std::string next;
    add_failure(raw, at(i), "w1", "error " + std::to_string(i), next);
    raw = std::move(next);
  }
  const auto failures = decode_failures(raw);
  ASSERT_EQ(failures.size(), 10U);
  EXPECT_EQ(failures.front().error, "error 16");
  EXPECT_EQ(failures.back().error, "error 25");
  EXPECT_EQ(failures.back().at, at(25));
  EXPECT_EQ(failures.back().worker, "w1");
}

TEST(RecordTest, ADeliveryPointsIntoItsBatch) {
  delivery_batch batch;
  {
    std::string headers;
    encode_headers(std::vector<header>{{.name = "tenant", .value = "a"}}, headers);
    record r = full();
    r.raw_headers = headers;
    std::string bytes = encoded(r);
    deliver(decode_record(bytes), 5, {.where = 1, .number = 2}, std::string{"default"}, batch);
    bytes.assign(bytes.size(), '?');
  }
  const delivery& d = batch.jobs.at(0);
  EXPECT_EQ(d.kind, "resize");
  EXPECT_EQ(d.payload, "{\"path\":\"a.png\"}");
  EXPECT_EQ(d.queue, "default");
  EXPECT_EQ(d.serial, 1ULL << 41);
  EXPECT_EQ(headers_of(d).at(0).value, "a");
  EXPECT_TRUE(d.suspect);
  EXPECT_TRUE(d.keeps_result);
  EXPECT_TRUE(public_id(d).starts_with("order-42@"));
}

}  // namespace
}  // namespace ergon
