#include "bench/driver/runner.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "bench/driver/process.hpp"

namespace ergon::bench {
namespace {

namespace fs = std::filesystem;

// A folder with programs that are shell scripts.
class RunnerTest : public ::testing::Test {
 protected:
  void program(const std::string& name, const std::string& script) {
    const fs::path file = work_.path() / name;
    std::ofstream{file} << "#!/bin/sh\n" << script << '\n';
    fs::permissions(file, fs::perms::owner_all);
  }
  static measurement row(std::string key, std::string program) {
    measurement m{.key = key, .section = "Section", .title = std::move(key), .scenario = "e2e", .system = "ergon"};
    m.unit = "jobs/s";
    m.program = std::move(program);
    return m;
  }
  results measure(suite s) {
    results all{.suite = "test"};
    progress shown{s.rows.size() * s.rounds};
    run_suite(s, work_.path(), work_, shown, all);
    return all;
  }

  work_folder work_{fs::temp_directory_path()};
};

TEST_F(RunnerTest, KeepsTheFigureOfEveryRound) {
  program("steady", R"(echo '{"value": 250, "verified": true, "about": {"libraries": {"x": "1.2"}}}')");
  suite s{.name = "test", .rows = {row("a", "steady")}, .stores = {}, .rounds = 3, .budget_seconds = 0};
  results all{.suite = "test"};
  all.environment["libraries"] = boost::json::object{};
  progress shown{3};
  run_suite(s, work_.path(), work_, shown, all);
  EXPECT_EQ(all.rows[0].values(), (std::vector<double>{250, 250, 250}));
  EXPECT_GT(all.rows[0].peak_rss_kb, 0U);
  EXPECT_EQ(all.environment.at("libraries").at("x"), "1.2");
}

TEST_F(RunnerTest, ARowWhoseWorkDoesNotCheckIsVoidAndSaysWhy) {
  program("liar", R"(echo '{"value": 250, "verified": false, "failure": "3 jobs were lost"}')");
  const auto all = measure({.name = "test", .rows = {row("a", "liar")}, .stores = {}, .rounds = 2, .budget_seconds = 0});
  EXPECT_TRUE(all.rows[0].is_void());
  EXPECT_EQ(all.rows[0].failure, "its work did not check: 3 jobs were lost");
}

TEST_F(RunnerTest, AProgramThatFailsMakesItsOwnRowVoidAndNoOther) {
  program("broken", "echo 'no disk' >&2; exit 3");
  program("steady", R"(echo '{"value": 250, "verified": true}')");
  const auto all = measure({.name = "test",
                            .rows = {row("a", "broken"), row("b", "steady"), row("c", "missing")},
                            .stores = {},
                            .rounds = 1,
                            .budget_seconds = 0});
  EXPECT_EQ(all.rows[0].failure, "it ended with code 3: no disk");
  EXPECT_FALSE(all.rows[1].is_void());
  EXPECT_EQ(all.rows[2].failure, "the program missing is not there: it was not built");
}

TEST_F(RunnerTest, EveryRoundOfARowStartsFromTheSamePreparedStore) {
  // Prepared with one line; each run adds one and says how many there are.
  program("store", R"(for last; do :; done
case $1 in prepare) echo one >"$last/lines" ;; *) echo two >>"$last/lines" ;; esac
echo "{\"value\": $(wc -l <"$last/lines"), \"verified\": true}")");
  suite s{.name = "test", .rows = {row("a", "store")}, .stores = {{"full", "store", {}}}, .rounds = 3, .budget_seconds = 0};
  s.rows[0].store = "full";
  EXPECT_EQ(measure(s).rows[0].values(), (std::vector<double>{2, 2, 2}));
}

TEST_F(RunnerTest, AStoreThatCannotBeMadeMakesItsRowsVoid) {
  program("store", "echo 'disk full' >&2; exit 1");
  suite s{.name = "test", .rows = {row("a", "store")}, .stores = {{"full", "store", {}}}, .rounds = 1, .budget_seconds = 0};
  s.rows[0].store = "full";
  EXPECT_EQ(measure(s).rows[0].failure, "its store could not be made: it ended with code 1: disk full");
}

TEST_F(RunnerTest, RowsThatHardlyVaryTakePartInTheFirstRoundsOnly) {
  program("steady", R"(echo '{"value": 250, "verified": true}')");
  suite s{.name = "test", .rows = {row("a", "steady"), row("b", "steady")}, .stores = {}, .rounds = 3, .budget_seconds = 0};
  s.rows[1].rounds_at_most = 1;
  const auto all = measure(s);
  EXPECT_EQ(all.rows[0].values().size(), 3U);
  EXPECT_EQ(all.rows[1].values().size(), 1U);
}

TEST_F(RunnerTest, NoRoundIsStartedThatWouldNotEndWithinTheBudget) {
  program("steady", R"(echo '{"value": 250, "verified": true}')");
  const auto all = measure({.name = "test", .rows = {row("a", "steady")}, .stores = {}, .rounds = 5000, .budget_seconds = 1});
  EXPECT_GE(all.rows[0].values().size(), 1U);
  EXPECT_LT(all.rows[0].values().size(), 5000U);
}

TEST_F(RunnerTest, AProgramThatHangsIsKilledWithWhatItStarted) {
  program("hang", "sleep 1000 & echo $!; wait");
  const child_end end = run_child(work_.path() / "hang", {}, std::chrono::seconds{0});
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.code, 128 + 9);
}

TEST_F(RunnerTest, ARowOnRedisFindsAnEmptyServerThatIsGoneAfterTheRun) {
  // Its figure is the server's process id, if the key is new each time.
  program("visitor", R"sh(while [ $# -gt 1 ]; do
case $1 in --redis) url=$2 ;; --server_pid) pid=$2 ;; esac; shift; done
[ "$(redis-cli -u "$url" incr visits)" = 1 ] || exit 1
echo "{\"value\": $pid, \"verified\": true, \"server_busy\": 0.97}")sh");
  suite s{.name = "test", .rows = {row("a", "visitor")}, .stores = {}, .rounds = 3, .budget_seconds = 0};
  s.rows[0].on_redis = true;
  const auto all = measure(s);
  EXPECT_EQ(all.rows[0].failure, "");
  EXPECT_EQ(all.rows[0].bound_by(), "server");
  EXPECT_NE(all.environment.at("redis").as_string().find("--appendonly no"), std::string_view::npos);
  const auto pids = all.rows[0].values();
  ASSERT_EQ(pids.size(), 3U);
  EXPECT_EQ(pids.front(), pids.back());
  EXPECT_EQ(::kill(static_cast<pid_t>(pids.front()), 0), -1);
}

TEST_F(RunnerTest, AServerThatARowHasKilledIsStartedAnewForTheNext) {
  program("killer", R"(while [ $# -gt 1 ]; do case $1 in --server_pid) kill -9 "$2" ;; esac; shift; done
echo '{"value": 1, "verified": true}')");
  suite s{.name = "test",
          .rows = {row("a", "killer"), row("b", "killer"), row("c", "killer")},
          .stores = {},
          .rounds = 1,
          .budget_seconds = 0};
  for (measurement& m : s.rows) m.on_redis = true;
  const auto all = measure(s);
  EXPECT_FALSE(all.rows[0].is_void());
  EXPECT_TRUE(all.rows[1].is_void());
  EXPECT_FALSE(all.rows[2].is_void());
}

TEST_F(RunnerTest, ARowOnRedisWithoutAServerSaysWhatIsMissing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  suite s{.name = "test", .rows = {row("a", "any")}, .stores = {}, .rounds = 1, .budget_seconds = 0};
  s.rows[0].on_redis = true;
  const auto all = measure(s);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(all.rows[0].failure,
            "there is no Redis server: neither redis-server nor redis-check-rdb is in PATH (Debian: redis-tools)");
}

TEST_F(RunnerTest, WhatASystemLacksIsNotRunAndIsNoFailure) {
  suite s{.name = "test", .rows = {row("a", "missing")}, .stores = {}, .rounds = 2, .budget_seconds = 0};
  s.rows[0].lacks = "it has no batches";
  const auto all = measure(s);
  EXPECT_TRUE(all.rows[0].is_void());
  EXPECT_FALSE(all.rows[0].has_failed());
  EXPECT_EQ(to_json(all).at("rows").at(0).at("note"), "it has no batches");
}

TEST(ReplyTest, WhatIsNoLineOfJsonIsAFailure) {
  EXPECT_EQ(parse_reply("Segmentation fault\n").failure, "it printed no line of JSON");
  EXPECT_EQ(parse_reply("").failure, "it printed no line of JSON");
  EXPECT_EQ(parse_reply("{\"verified\": true}\n").failure, "it printed no figure");
}

TEST(ReplyTest, TheLastLineCountsAndALatencyIsRead) {
  const reply r =
      parse_reply("starting\n{\"value\": 0.5, \"verified\": true, \"latency_ms\": {\"p50\": 1, \"p95\": 2, \"p99\": 3.5}}\n");
  EXPECT_EQ(r.failure, "");
  EXPECT_DOUBLE_EQ(r.percentiles->p99, 3.5);
}

TEST(QueueSuiteTest, EveryBaselineAndStoreThatARowNamesIsInTheSuite) {
  for (const bool quick : {true, false}) {
    const suite s = make_suite("queue", quick);
    for (const measurement& m : s.rows) {
      EXPECT_EQ(std::ranges::count(s.rows, m.key, &measurement::key), 1) << m.key;
      EXPECT_FALSE(m.title.empty()) << m.key;
      if (!m.baseline.empty()) EXPECT_EQ(std::ranges::count(s.rows, m.baseline, &measurement::key), 1) << m.key;
      if (!m.store.empty()) EXPECT_EQ(std::ranges::count(s.stores, m.store, &prepared_store::name), 1) << m.key;
    }
  }
}

TEST(QueueSuiteTest, AnUnknownSuiteIsRefusedWithTheListOfThoseThatThereAre) {
  try {
    (void)make_suite("pol", true);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "there is no suite 'pol'; there is: queue, tasks");
  }
}

}  // namespace
}  // namespace ergon::bench
