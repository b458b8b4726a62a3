// The program itself, on a SQLite store in a folder of the test: what one process puts in, another finds.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace ergon::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class CliProgramTest : public testing::Test {
 protected:
  CliProgramTest() {
    std::string name = fs::temp_directory_path() / "ergon-cli-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CliProgramTest() override { fs::remove_all(folder_); }

  struct said {
    int code = 0;
    /// Standard output and standard error.
    std::string text;
  };
  /// `words` are for the shell.
  said run(const std::string& words, const std::string& behind = "2>&1") {
    const std::string line =
        "env -u ERGON_BROKER XDG_DATA_HOME='" + folder_.native() + "' '" ERGON_COMMAND "' " + words + " " + behind;
    said answer;
    FILE* output = ::popen(line.c_str(), "r");
    char piece[4096];
    while (const std::size_t got = std::fread(piece, 1, sizeof piece, output)) answer.text.append(piece, got);
    answer.code = WEXITSTATUS(::pclose(output));
    return answer;
  }

  fs::path folder_;
};

TEST_F(CliProgramTest, WhatOneProcessPutsInAnotherFinds) {
  const said put = run(R"(enqueue send_email --payload '{"to": "ada"}')");
  ASSERT_EQ(put.code, 0) << put.text;
  const std::string id = put.text.substr(0, put.text.size() - 1);
  EXPECT_THAT(run("job ls").text, AllOf(StartsWith("ID"), HasSubstr(id)));
  EXPECT_THAT(run("job show " + id + " --json").text, HasSubstr(R"("payload":{"to":"ada"})"));
  EXPECT_EQ(run("job cancel " + id).text, id + "  cancelled, was ready\n");
  EXPECT_EQ(run("job cancel " + id).code, 1);
  EXPECT_TRUE(fs::exists(folder_ / "ergon" / "ergon.db"));
}

TEST_F(CliProgramTest, ReadsAPayloadFromStandardInput) {
  std::ofstream(folder_ / "payload") << "not json";
  const std::string from = "2>&1 < '" + (folder_ / "payload").native() + "'";
  const said raw = run("enqueue k --raw --payload -", from);
  EXPECT_EQ(raw.code, 0) << raw.text;
  EXPECT_THAT(run("job show " + raw.text.substr(0, raw.text.size() - 1)).text, HasSubstr("not json"));
  EXPECT_EQ(run("enqueue k --payload -", from).code, 2);
  EXPECT_THAT(run("enqueue k --payload -", "2>&1 < /dev/null").text, AllOf(StartsWith("ergon: "), HasSubstr("it is empty")));
}

TEST_F(CliProgramTest, AFolderIsNoStore) {
  const said answer = run("queue ls --broker 'sqlite:" + folder_.native() + "'");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, AllOf(StartsWith("ergon: "), HasSubstr("directory")));
}

TEST_F(CliProgramTest, ANonexistentSchemeIsAUsageError) {
  const said answer = run("queue ls --broker carrier-pigeon:north");
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.text, AllOf(StartsWith("ergon: "), HasSubstr("carrier-pigeon")));
}

TEST_F(CliProgramTest, PrintsNoColoursIntoAPipe) {
  run("enqueue k");
  EXPECT_THAT(run("job ls").text, testing::Not(HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace ergon::cli
