#include "broker/rules.hpp"

#include <gtest/gtest.h>

namespace ergon {
namespace {

using namespace std::chrono_literals;

TEST(RulesTest, AFailureIsForgivenAsOftenAsTheJobSays) {
  record job;
  job.max_retries = 2;
  std::string a;
  std::string b;
  EXPECT_FALSE(rules::count_failure(job, {}, "w", "one", a));
  EXPECT_FALSE(rules::count_failure(job, {}, "w", "two", b));
  EXPECT_TRUE(rules::count_failure(job, {}, "w", "three", a));
  EXPECT_EQ(job.failures, 3U);
  EXPECT_EQ(decode_failures(job.raw_errors).size(), 3U);
}

TEST(RulesTest, AJobWithoutRetriesDiesOfItsFirstFailure) {
  record job;
  job.max_retries = 0;
  std::string scratch;
  EXPECT_TRUE(rules::count_failure(job, {}, "w", "once", scratch));
}

TEST(RulesTest, AnErrorTextIsCutBetweenCharacters) {
  std::string text(rules::max_error_text - 1, 'x');
  text += "é and more";
  EXPECT_EQ(rules::cut_error(text).size(), rules::max_error_text - 1);
  EXPECT_EQ(rules::cut_error(std::string(5000, '\x80')).size(), rules::max_error_text - 3);
  EXPECT_EQ(rules::cut_error("short"), "short");
}

// Promise 4: losses in company prove little; two while it ran alone bury a job.
TEST(RulesTest, OnlyLossesOfAJobThatRanAloneBuryIt) {
  record job;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(rules::count_loss(job, false));
  EXPECT_TRUE(rules::is_suspect(job));
  EXPECT_FALSE(rules::count_loss(job, true));
  EXPECT_TRUE(rules::count_loss(job, true));
  EXPECT_NE(rules::loss_reason(job).find("52 times"), std::string::npos);
}

TEST(RulesTest, TwoLossesMakeASuspectAndAFailureClearsIt) {
  record job;
  EXPECT_FALSE(rules::count_loss(job, false));
  EXPECT_FALSE(rules::is_suspect(job));
  EXPECT_FALSE(rules::count_loss(job, false));
  EXPECT_TRUE(rules::is_suspect(job));
  EXPECT_FALSE(rules::count_loss(job, true));
  std::string scratch;
  EXPECT_FALSE(rules::count_failure(job, {}, "w", "by itself", scratch));
  EXPECT_FALSE(rules::is_suspect(job));
  EXPECT_EQ(job.marked_losses, 0U);
}

TEST(RulesTest, AnEndIsKeptAsLongAsSomebodyMayAsk) {
  record job;
  EXPECT_EQ(rules::kept_for(job_state::completed, job), 0ms);
  job.retention = 1h;
  job.keep_result = 2h;
  EXPECT_EQ(rules::kept_for(job_state::completed, job), 2h);
  EXPECT_EQ(rules::kept_for(job_state::dead, job), rules::dead_kept_for);
  EXPECT_EQ(rules::kept_for(job_state::cancelled, job), rules::gone_kept_for);
  job.keep_result = std::chrono::days{200};
  EXPECT_EQ(rules::kept_for(job_state::dead, job), std::chrono::days{200});
  EXPECT_EQ(rules::kept_for(job_state::ready, job), 0ms);
}

TEST(RulesTest, ANewLifeHasAFullBudgetAndRemembersTheErrors) {
  record job;
  job.max_retries = 0;
  std::string scratch;
  EXPECT_TRUE(rules::count_failure(job, {}, "w", "why", scratch));
  (void)rules::count_loss(job, true);
  job.ending = "why";
  rules::renew(job);
  EXPECT_EQ(job.failures, 0U);
  EXPECT_EQ(job.losses, 0U);
  EXPECT_EQ(job.marked_losses, 0U);
  EXPECT_FALSE(job.ending);
  EXPECT_EQ(decode_failures(job.raw_errors).at(0).error, "why");
}

}  // namespace
}  // namespace ergon
