#include <ergon/broker/tracing.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ergon/base/error.hpp>
#include <ergon/base/url.hpp>

#include "broker/memory/memory_broker.hpp"

namespace ergon {
namespace {

TEST(TracingTest, TellsBeforeAndAfterEveryCall) {
  ergon::runtime rt{{.threads = 1}};
  std::vector<std::string> calls;
  auto b = traced_broker(open_memory(parse_url("memory:traced"), {.runtime = &rt}), [&](std::string_view call, trace_point at) {
    calls.push_back(std::string{call} + (at == trace_point::before ? "<" : ">"));
  });
  const new_job job{.kind = "k"};
  enqueued out;
  rt.block_on(b->enqueue({&job, 1}, {&out, 1}));
  auto c = rt.block_on(b->join({.queues = {{.name = "default"}}}));
  delivery_batch batch;
  rt.block_on(c->fetch(1, batch));
  const settlement end{.lease = batch.jobs.at(0).lease};
  settled said = settled::lost;
  rt.block_on(c->settle({&end, 1}, {&said, 1}));
  EXPECT_EQ(said, settled::yes);
  EXPECT_THROW(rt.block_on(b->cancel("nothing")), error);
  rt.block_on(c->leave());
  EXPECT_EQ(calls, (std::vector<std::string>{"broker.enqueue<", "broker.enqueue>", "broker.join<", "broker.join>",
                                             "consumer.fetch<", "consumer.fetch>", "consumer.settle<", "consumer.settle>",
                                             "broker.cancel<", "broker.cancel>", "consumer.leave<", "consumer.leave>"}));
}

TEST(TracingTest, WhatTheHookThrowsBeforeACallStopsIt) {
  ergon::runtime rt{{.threads = 1}};
  auto inner = open_memory(parse_url("memory:traced2"), {.runtime = &rt});
  auto b = traced_broker(inner, [](std::string_view call, trace_point at) {
    if (call == "broker.enqueue" && at == trace_point::before) throw error{errc::cancelled, "killed here"};
  });
  const new_job job{.kind = "k"};
  enqueued out;
  EXPECT_THROW(rt.block_on(b->enqueue({&job, 1}, {&out, 1})), error);
  EXPECT_TRUE(rt.block_on(inner->queues()).empty());
}

}  // namespace
}  // namespace ergon
