#include "cli/table.hpp"

#include <sstream>

#include <gtest/gtest.h>

namespace ergon::cli {
namespace {

std::string printed(const table& rows, const style& how = {}) {
  std::ostringstream out;
  rows.print(out, how);
  return out.str();
}

TEST(CliTableTest, AlignsWordsToTheLeftAndNumbersToTheRight) {
  table rows{{"NAME"}, {"READY", align::right}, {"REMARK"}};
  rows.add({{"größer"}, {"7"}, {"paused"}});
  rows.add({{"世界"}, {"1234567"}, {""}});
  EXPECT_EQ(printed(rows),
            "NAME      READY  REMARK\n"
            "größer        7  paused\n"
            "世界    1234567\n");
}

TEST(CliTableTest, PrintsItsHeadingsWhereThereIsNothingElse) {
  EXPECT_EQ(printed(table{{"ID"}, {"AGE", align::right}}), "ID  AGE\n");
}

TEST(CliTableTest, CutsTheLastColumnAtTheEdgeOfATerminalOnly) {
  table rows{{"ID"}, {"REMARK"}};
  rows.add({{"1"}, {"a remark that goes on and on"}});
  EXPECT_EQ(printed(rows, {.width = 20}), "ID  REMARK\n1   a remark that g…\n");
  EXPECT_EQ(printed(rows), "ID  REMARK\n1   a remark that goes on and on\n");
}

TEST(CliTableTest, ColoursDoNotShiftColumns) {
  table rows{{"STATE"}, {"N", align::right}};
  rows.add({{"dead", hue::red}, {"1"}});
  EXPECT_EQ(printed(rows, {.colour = true}), "\x1b[1mSTATE\x1b[0m  \x1b[1mN\x1b[0m\n\x1b[31mdead\x1b[0m   1\n");
}

TEST(CliTableTest, ACellCannotBreakTheLineOrTheTerminal) {
  table rows{{"ID"}};
  rows.add({{"a\n\x1b[2Jb"}});
  EXPECT_EQ(printed(rows), "ID\na\\n\\x1B[2Jb\n");
}

}  // namespace
}  // namespace ergon::cli
