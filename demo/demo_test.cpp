// The pieces of the demo, and the demo itself on a small tree: it must find what is wrong as surely as it says that all is right.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"
#include "digest.hpp"
#include "files.hpp"
#include "report.hpp"
#include "screen.hpp"

namespace demo {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class DemoTest : public testing::Test {
 protected:
  DemoTest() {
    std::string name = fs::temp_directory_path() / "ergon-demo-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~DemoTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view bytes) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.native();
  }

  fs::path folder_;
};

struct ended {
  int code = 0;
  std::string out;
  std::string err;
};

/// A run of the demo whose temporary files go to `scratch`.
class program {
 public:
  program(const fs::path& scratch, std::vector<std::string> words) : out_(scratch / "out"), err_(scratch / "err") {
    fs::create_directories(scratch / "tmp");
    words.insert(words.begin(), ERGON_DEMO);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setenv("TMPDIR", (scratch / "tmp").c_str(), 1);
    ::dup2(::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(ERGON_DEMO, argv.data());
    ::_exit(127);
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  ended wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), text_of(out_), text_of(err_)};
  }

 private:
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path out_;
  fs::path err_;
  pid_t pid_ = 0;
};

/// Processes that were started with this text in their environment.
std::size_t processes_with(const std::string& text) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ");
    const std::string variables((std::istreambuf_iterator<char>(file)), {});
    if (variables.contains(text)) ++count;
  }
  return count;
}

TEST_F(DemoTest, FiguresAreThoseOfSha256sumAndWc) {
  const file_figures figures = figures_of(write("a", "two words\n\n  and three more\tlast"));
  EXPECT_EQ(figures.sha256, "4b37faf8d67d1d1901b4d5a5eead3c959317258af80949f95d1e90e88fe6dcf4");
  EXPECT_EQ(figures.bytes, 32U);
  EXPECT_EQ(figures.lines, 2U);
  EXPECT_EQ(figures.words, 6U);
  EXPECT_EQ(figures_of(write("empty", "")).sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(DemoTest, AWordThatSpansTwoReadsIsOne) { EXPECT_EQ(figures_of(write("long", std::string(200'000, 'x'))).words, 1U); }

TEST_F(DemoTest, AFileThatCannotBeReadIsAnErrorThatNamesIt) {
  try {
    static_cast<void>(figures_of(folder_ / "missing"));
    FAIL() << "it was read";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("missing"), HasSubstr("No such file")));
  }
}

TEST_F(DemoTest, AnyFileNameSurvivesThePayload) {
  for (const std::string path : {"/plain", "/per%cent", "/\xFF\xC3", "/ü\n\x01", "%", "/100%41"})
    EXPECT_EQ(unescape(escape(path)), path);
  EXPECT_EQ(escape("/a%\xFF"), "/a%25%FF");
}

TEST_F(DemoTest, ChoosesRegularFilesOnceAndFollowsNoLink) {
  write("d/a", "1");
  write("d/e/b", "22");
  fs::create_symlink(folder_ / "d" / "a", folder_ / "d" / "link");
  fs::create_directory_symlink(folder_ / "d", folder_ / "d" / "loop");
  const selection chosen = select_files({folder_ / "d", folder_ / "d" / "e"}, 100);
  ASSERT_EQ(chosen.files.size(), 2U);
  EXPECT_EQ(chosen.bytes, 3U);
  EXPECT_EQ(chosen.left_out, 0U);
}

TEST_F(DemoTest, OfTooManyFilesAllPartsOfTheTreeHaveTheirShare) {
  for (char part : {'a', 'b', 'c', 'd'}) {
    for (int i = 0; i < 10; ++i) write(std::string("d/") + part + "/" + std::to_string(i), "x");
  }
  const selection chosen = select_files({folder_ / "d"}, 8);
  ASSERT_EQ(chosen.files.size(), 8U);
  EXPECT_EQ(chosen.left_out, 32U);
  EXPECT_THAT(chosen.files.back().path, HasSubstr("/d/d/"));
}

TEST_F(DemoTest, NoticesThatAFileHasChanged) {
  const std::string path = write("d/a", "1");
  const selection chosen = select_files({folder_ / "d"}, 1);
  EXPECT_FALSE(chosen.files.front().is_other_now());
  write("d/a", "22");
  EXPECT_TRUE(chosen.files.front().is_other_now());
  fs::remove(path);
  EXPECT_TRUE(chosen.files.front().is_other_now());
}

TEST_F(DemoTest, AsksSha256sumAboutOddNamesAndMissingFiles) {
  write("d/-n", "1");
  write("d/a\nb\\c", "1");
  selection chosen = select_files({folder_ / "d"}, 10);
  chosen.files.push_back({.path = folder_ / "missing"});
  std::uint64_t told = 0;
  const std::vector<std::string> sums = sums_of(chosen.files, 2, [&](std::uint64_t done) { told = done; });
  const std::string one = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
  EXPECT_EQ(sums, (std::vector<std::string>{one, one, ""}));
  EXPECT_EQ(told, 3U);
}

TEST_F(DemoTest, GroupsDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12345678), "12,345,678");
}

TEST_F(DemoTest, IsNotGoodUnlessTheKilledWorkerHeldLeases) {
  report r;
  r.redelivered = 1;
  EXPECT_FALSE(r.good());
  r.held = 1;
  EXPECT_TRUE(r.good());
  r.lost = 1;
  EXPECT_FALSE(r.good());
}

TEST_F(DemoTest, RunsOnASmallTreeAndLosesNothing) {
  const ended run = program(folder_, {"--dir", ERGON_SOURCES "/src", "--dir", ERGON_SOURCES "/include", "--json"}).wait();
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr(R"("lost":0,"mismatches":0)"), HasSubstr(R"("good":true)")));
  EXPECT_THAT(run.err, HasSubstr("takes its place"));
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp")) << "the temporary folder is left";
}

TEST_F(DemoTest, RefusesAMemoryBrokerWithTheReason) {
  const ended run = program(folder_, {"--dir", folder_, "--broker", "memory:"}).wait();
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("memory of one process"));
}

TEST_F(DemoTest, RefusesFoldersThatAreNoneAndFoldersWithoutFiles) {
  const ended missing = program(folder_, {"--dir", folder_ / "missing"}).wait();
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("is no folder"));
  fs::create_directory(folder_ / "nothing");
  EXPECT_EQ(program(folder_, {"--dir", folder_ / "nothing"}).wait().code, 1);
}

TEST_F(DemoTest, AfterAnInterruptNothingIsLeft) {
  program run(folder_, {"--dir", "/usr/include"});
  const auto has_workers = [&] {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "tmp", fs::directory_options::skip_permission_denied)) {
      if (entry.path().filename() == "worker-2.log") return true;
    }
    return false;
  };
  while (!has_workers() && ::waitpid(run.pid(), nullptr, WNOHANG) == 0) std::this_thread::yield();
  ::kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait().code, 130);
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
  EXPECT_EQ(processes_with("TMPDIR=" + (folder_ / "tmp").native()), 0U);
}

}  // namespace
}  // namespace demo
