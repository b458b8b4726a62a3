#include "bench/driver/results.hpp"

#include <gtest/gtest.h>
#include <boost/json/parse.hpp>

namespace ergon::bench {
namespace {

row_result row(std::string key, std::string system, std::vector<std::optional<double>> rounds, std::string baseline = {}) {
  row_result r{
      .what = {.key = std::move(key), .section = "Section", .title = "a row", .scenario = "e2e", .system = std::move(system)},
      .rounds = std::move(rounds)};
  r.what.params = {{"broker", "sqlite"}, {"jobs", 100}};
  r.what.unit = "jobs/s";
  r.what.baseline = std::move(baseline);
  r.what.baseline_title = "sqlite-bare";
  return r;
}

results two_rows() {
  results all{.suite = "queue", .measured_at = "2026-01-31T12:00:00Z"};
  all.rows.push_back(row("bare", "sqlite-bare", {100.0, 100.0, 100.0}));
  all.rows.push_back(row("ours", "ergon", {150.0, 120.0, 180.0}, "bare"));
  return all;
}

bar ratio_bar(double value, double stretch = 0) {
  return {.what = bar::kind::ratio_at_least, .value = value, .stretch = stretch};
}

TEST(ResultsTest, ARowOfTheFileHasTheFieldsOfSchema1) {
  const auto file = to_json(two_rows());
  EXPECT_EQ(file.at("schema"), 1);
  EXPECT_EQ(file.at("measured_at"), "2026-01-31T12:00:00Z");
  const auto& ours = file.at("rows").as_array().at(1).as_object();
  EXPECT_EQ(ours.at("suite"), "queue");
  EXPECT_EQ(ours.at("scenario"), "e2e");
  EXPECT_EQ(ours.at("system"), "ergon");
  EXPECT_EQ(ours.at("params").at("broker"), "sqlite");
  EXPECT_EQ(ours.at("unit"), "jobs/s");
  EXPECT_EQ(ours.at("rounds").as_array().size(), 3U);
  EXPECT_EQ(ours.at("best"), 180.0);
  EXPECT_EQ(ours.at("median"), 150.0);
  EXPECT_EQ(ours.at("worst"), 120.0);
  EXPECT_EQ(ours.at("verified"), true);
  const auto& ratio = ours.at("ratio_to").at("sqlite-bare");
  EXPECT_EQ(ratio.at("median"), 1.5);
  EXPECT_EQ(ratio.at("low"), 1.2);
  EXPECT_EQ(ratio.at("high"), 1.8);
  EXPECT_EQ(ratio.at("verdict"), "faster");
}

TEST(ResultsTest, ARateIsBoundByTheServerOnlyWhereItWasMeasuredBusy) {
  results all = two_rows();
  all.rows[0].server_busy = {0.96, 0.99, 0.50};
  all.rows[1].server_busy = {0.94, 0.93, 0.99};
  const auto file = to_json(all);
  const auto& rows = file.at("rows").as_array();
  EXPECT_EQ(rows.at(0).at("bound_by"), "server");
  EXPECT_FALSE(rows.at(1).as_object().contains("bound_by"));
  EXPECT_NE(note_of(all, all.rows[1]).find("The server used 94% of a core."), std::string::npos);
}

TEST(ResultsTest, OfAVoidRowTheRoundsStayAndNothingIsSaidAboutThem) {
  results all = two_rows();
  all.rows[1].failure = "its work did not check";
  const auto file = to_json(all);
  const auto& ours = file.at("rows").as_array().at(1).as_object();
  EXPECT_EQ(ours.at("verified"), false);
  EXPECT_TRUE(ours.at("median").is_null());
  EXPECT_EQ(ours.at("rounds").as_array().size(), 3U);
  EXPECT_FALSE(ours.contains("ratio_to"));
  EXPECT_NE(std::string{ours.at("note").as_string()}.find("its work did not check"), std::string::npos);
}

TEST(ResultsTest, NothingIsComparedWithAVoidRow) {
  results all = two_rows();
  all.rows[0].failure = "it was not done after 120 s";
  all.rows[1].what.must = ratio_bar(0.6);
  EXPECT_FALSE(comparison_of(all, all.rows[1]).has_value());
  EXPECT_EQ(bar_text(all, all.rows[1]), "≥ 0.60 × sqlite-bare: the row it is compared with was not measured");
}

TEST(ResultsTest, ABarSaysWhetherItIsMetAndByHowMuchItIsMissed) {
  results all = two_rows();
  row_result& ours = all.rows[1];
  ours.what.must = ratio_bar(1.2, 2.0);
  EXPECT_EQ(bar_text(all, ours), "≥ 1.20 × sqlite-bare: met, stretch 2.00 not");
  ours.what.must = ratio_bar(3);
  EXPECT_EQ(bar_text(all, ours), "≥ 3.00 × sqlite-bare: short by 50%");
  // ergon's bar in the row of a peer, which is 1.5 times better here.
  ours.what.must = bar{.what = bar::kind::baseline_ratio_at_least, .value = 0.5};
  EXPECT_EQ(bar_text(all, ours), "sqlite-bare ≥ 0.50 × this: met");
  ours.what.must = bar{.what = bar::kind::baseline_ratio_at_least, .value = 2};
  EXPECT_EQ(bar_text(all, ours), "sqlite-bare ≥ 2.00 × this: short by 67%");
  ours.what.must = bar{.what = bar::kind::at_least, .value = 1'000'000};
  EXPECT_EQ(bar_text(all, ours), "≥ 1,000,000 jobs/s: short by 100%");
  ours.what.must = bar{.what = bar::kind::at_least, .value = 140};
  EXPECT_EQ(bar_text(all, ours), "≥ 140 jobs/s: met (lowest short by 14%)");
}

TEST(ResultsTest, ABarOnTimesIsAboutTheMedianAndTellsTheWorstRound) {
  results all{.suite = "queue"};
  all.rows.push_back(row("idle", "ergon", {0.004, 0.006, 0.02}));
  row_result& idle = all.rows[0];
  idle.what.unit = "s";
  idle.what.better = direction::lower;
  idle.what.must = bar{.what = bar::kind::at_most, .value = 0.010};
  EXPECT_EQ(bar_text(all, idle), "≤ 10 ms: met (worst too high by 100%)");
  idle.what.must = bar{.what = bar::kind::p99_ms_at_most, .value = 1};
  idle.latencies = {{.p50 = 0.1, .p95 = 0.2, .p99 = 1.5}, {.p50 = 0.1, .p95 = 0.2, .p99 = 1.5}};
  EXPECT_EQ(bar_text(all, idle), "p99 ≤ 1 ms: too high by 50%");
}

TEST(ResultsTest, WhereTheBaselineWinsTheNoteSaysWhy) {
  results all = two_rows();
  all.rows[1].rounds = {50.0, 60.0, 55.0};
  all.rows[1].what.why_slower = "It does less.";
  EXPECT_EQ(note_of(all, all.rows[1]), "Compared with sqlite-bare. It does less.");
}

TEST(ResultsTest, NumbersAreWrittenForPeople) {
  EXPECT_EQ(number_text(1234567.8), "1,234,568");
  EXPECT_EQ(number_text(999.4), "999");
  EXPECT_EQ(number_text(1000), "1,000");
  EXPECT_EQ(number_text(0.1234), "0.123");
  EXPECT_EQ(value_text(0.00052, "s"), "0.52 ms");
  EXPECT_EQ(value_text(250000, "jobs/s"), "250,000 jobs/s");
}

TEST(ResultsTest, ThePrettyFormReadsBackAsTheSameDocument) {
  const std::string text = pretty(to_json(two_rows()));
  EXPECT_EQ(pretty(boost::json::parse(text)), text);
}

}  // namespace
}  // namespace ergon::bench
