#include "bench/driver/report.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace ergon::bench {
namespace {

TEST(ReportTest, TheSectionOfASuiteIsReplacedAndTheRestOfThePageStays) {
  const std::string page = "# Page\n<!-- results of queue: begin -->\nold\n<!-- results of queue: end -->\nafter\n";
  EXPECT_EQ(with_section(page, "queue", "new\n"),
            "# Page\n<!-- results of queue: begin -->\nnew\n<!-- results of queue: end -->\nafter\n");
}

TEST(ReportTest, TheSectionOfASuiteThatThePageDoesNotHaveIsAddedAtItsEnd) {
  const std::string page = "# Page\n<!-- results of queue: begin -->\nold\n<!-- results of queue: end -->\n";
  EXPECT_EQ(with_section(page, "pool", "new\n"), page + "<!-- results of pool: begin -->\nnew\n<!-- results of pool: end -->\n");
}

TEST(ReportTest, APageWithOneOfTheTwoLinesIsLeftAlone) {
  EXPECT_THROW((void)with_section("<!-- results of queue: begin -->\n", "queue", "new\n"), std::runtime_error);
}

TEST(ReportTest, ColumnsLineUpByWhatIsSeenNotByBytes) {
  results all{.suite = "queue"};
  for (const auto* title : {"≥≥≥≥", "abcd"}) {
    row_result r{.what = {.key = title, .section = "Section", .title = title, .scenario = "e2e", .system = "ergon"},
                 .rounds = {1000.0}};
    r.what.unit = "jobs/s";
    all.rows.push_back(r);
  }
  const std::string table = table_text(all);
  const auto column = [&](std::string_view title) {
    const auto at = table.find(title);
    const std::string line = table.substr(at, table.find('\n', at) - at);
    return line.find("1,000 jobs/s") - (title.size() - 4);
  };
  EXPECT_EQ(column("≥≥≥≥"), column("abcd"));
}

TEST(ReportTest, AVoidRowShowsNoFigureAndSaysWhy) {
  results all{.suite = "queue"};
  row_result r{.what = {.key = "k", .section = "Section", .title = "a row", .scenario = "e2e", .system = "ergon"},
               .rounds = {12345.0}};
  r.failure = "two jobs were lost";
  all.rows.push_back(r);
  for (const std::string& text : {table_text(all), markdown_text(all)}) {
    EXPECT_EQ(text.find("12,345"), std::string::npos);
    EXPECT_NE(text.find("two jobs were lost"), std::string::npos);
  }
}

}  // namespace
}  // namespace ergon::bench
