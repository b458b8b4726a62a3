// The command as its user meets it: arguments in, text and exit code out, over a store in memory that the test holds.
#include "cli/app.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ergon/runtime/runtime.hpp>

#include "cli/json.hpp"

namespace ergon::cli {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct said {
  int code = 0;
  std::string out;
  std::string err;
};

class CliTest : public testing::Test {
 protected:
  CliTest()
      : clock_(std::make_unique<manual_clock>()),
        runtime_(std::make_unique<runtime>(runtime_options{.threads = 1, .clock = clock_.get()})) {
    // A name of its own: the store called `memory:` is the whole process's.
    const std::string url = std::string("memory:") + testing::UnitTest::GetInstance()->current_test_info()->name();
    store_ = open_broker(url, {.runtime = runtime_.get(), .clock = clock_.get()});
    around_.variable = [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    around_.in = &in_;
    around_.open = [this](const std::string& url) {
      opened_ = url;
      return store_;
    };
    variables_["ERGON_BROKER"] = "sqlite:jobs.db";
  }
  ~CliTest() override { store_.reset(); }

  said run(std::vector<const char*> words) {
    words.insert(words.begin(), "ergon");
    std::ostringstream out;
    std::ostringstream err;
    const int code = run_cli(words, out, err, around_);
    return {code, out.str(), err.str()};
  }
  /// Puts a job in by the command and gives its id.
  std::string put(std::vector<const char*> words) {
    words.insert(words.begin(), "enqueue");
    const said answer = run(std::move(words));
    EXPECT_EQ(answer.code, 0) << answer.err;
    return answer.out.substr(0, answer.out.size() - 1);
  }
  template <class T>
  T wait(task<T> operation) {
    return runtime_->block_on(std::move(operation));
  }
  job_info job(const std::string& id, const std::string& queue = "default") { return wait(store_->find(id, queue)).value(); }
  /// Takes the next job and ends it so.
  void work(verdict how, std::string_view text) {
    const auto me = wait(store_->join({.queues = {{"default", 1}}, .concurrency = 1}));
    delivery_batch batch;
    wait(me->fetch(1, batch));
    const settlement end{.lease = batch.jobs.at(0).lease, .how = how, .text = text};
    settled answer{};
    wait(me->settle({&end, 1}, {&answer, 1}));
    wait(me->leave());
  }

  std::unique_ptr<manual_clock> clock_;
  std::unique_ptr<runtime> runtime_;
  std::shared_ptr<broker> store_;
  std::map<std::string, std::string> variables_;
  std::istringstream in_;
  environment around_;
  std::optional<std::string> opened_;
};

// --- the command line

TEST_F(CliTest, HelpShowsVerbsExamplesAndExitCodes) {
  const said answer = run({"--help"});
  EXPECT_EQ(answer.code, exit_ok);
  EXPECT_THAT(answer.out, AllOf(HasSubstr("enqueue"), HasSubstr("job"), HasSubstr("Examples:"), HasSubstr("Exit codes:")));
  EXPECT_EQ(opened_, std::nullopt) << "help needs no store";
}

TEST_F(CliTest, EveryVerbHasHelpWithAnExample) {
  for (const std::vector<const char*>& verb : std::vector<std::vector<const char*>>{{"enqueue"},
                                                                                    {"job", "ls"},
                                                                                    {"job", "show"},
                                                                                    {"job", "run"},
                                                                                    {"job", "rm"},
                                                                                    {"job", "cancel"},
                                                                                    {"queue", "ls"},
                                                                                    {"queue", "stats"},
                                                                                    {"queue", "pause"},
                                                                                    {"queue", "resume"},
                                                                                    {"worker", "ls"}}) {
    std::vector<const char*> words = verb;
    words.push_back("--help");
    const said answer = run(words);
    EXPECT_EQ(answer.code, exit_ok) << verb.back();
    std::string usage = "Usage: ergon";
    for (const char* word : verb) usage += std::string(" ") + word;
    EXPECT_THAT(answer.out, AllOf(HasSubstr(usage), HasSubstr("Example"))) << verb.back();
  }
}

TEST_F(CliTest, TellsItsVersion) {
  const said answer = run({"--version"});
  EXPECT_EQ(answer.code, exit_ok);
  EXPECT_THAT(answer.out, ContainsRegex("^ergon [0-9]+\\.[0-9]+\\.[0-9]+\n$"));
}

TEST_F(CliTest, WithoutAVerbItShowsHelpAndFails) {
  const said answer = run({});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_THAT(answer.out, IsEmpty());
  EXPECT_THAT(answer.err, HasSubstr("Usage:"));
}

TEST_F(CliTest, AWrongCommandLineIsAUsageError) {
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"frobnicate"},
                                             {"job"},
                                             {"job", "show"},
                                             {"job", "ls", "--state", "sleeping"},
                                             {"job", "ls", "--limit", "-3"},
                                             {"queue", "stats", "default", "--hours", "0"},
                                             {"enqueue"},
                                             {"enqueue", "k", "--in", "5"},
                                             {"enqueue", "k", "--in", "-5m"},
                                             {"enqueue", "k", "--in", "100000d"},
                                             {"enqueue", "k", "--at", "tomorrow"},
                                             {"enqueue", "k", "--in", "5m", "--at", "2030-01-01T00:00:00Z"},
                                             {"enqueue", "k", "--max-retries", "-1"},
                                             {"enqueue", "k", "--payload", "{"},
                                             {"enqueue", "k", "--header", "novalue"},
                                             {"enqueue", "k", "--queue", "a b"},
                                             {"enqueue", "k\n"},
                                             {"enqueue", "k", "--frob"}}) {
    const said answer = run(words);
    EXPECT_EQ(answer.code, exit_usage) << testing::PrintToString(words);
    EXPECT_THAT(answer.err, StartsWith("ergon: ")) << testing::PrintToString(words);
    EXPECT_THAT(answer.out, IsEmpty()) << testing::PrintToString(words);
  }
  EXPECT_THAT(wait(store_->queues()), IsEmpty()) << "nothing was stored";
}

TEST_F(CliTest, SharedOptionsMayStandBehindTheVerb) {
  EXPECT_THAT(run({"queue", "ls", "--json", "--broker", "sqlite:other.db"}).out, HasSubstr("\"queues\""));
  EXPECT_EQ(opened_, "sqlite:other.db");
}

TEST_F(CliTest, AnErrorOfTheStoreIsExitCodeOneAndABadUrlTwo) {
  around_.open = [](const std::string&) -> std::shared_ptr<broker> { throw error(errc::not_a_store, "no store"); };
  EXPECT_EQ(run({"queue", "ls"}).code, exit_failed);
  around_.open = [](const std::string&) -> std::shared_ptr<broker> { throw error(errc::bad_url, "bad"); };
  const said answer = run({"queue", "ls"});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_EQ(answer.err, "ergon: bad\n");
}

TEST_F(CliTest, SaysSoWhereStandardOutputCannotBeWritten) {
  std::ostringstream err;
  std::ofstream full("/dev/full");
  const std::vector<const char*> words{"ergon", "queue", "ls"};
  EXPECT_EQ(run_cli(words, full, err, around_), exit_failed);
  EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

// --- which store

TEST_F(CliTest, RefusesAMemoryStoreWithTheReason) {
  const said answer = run({"queue", "ls", "--broker", "memory:shop"});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_THAT(answer.err, HasSubstr("memory of one process"));
  EXPECT_EQ(opened_, std::nullopt);
}

TEST_F(CliTest, TheDefaultStoreLiesInAPrivateFolderUnderXdgData) {
  std::string folder = (std::filesystem::temp_directory_path() / "ergon cli%XXXXXX").native();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  variables_.erase("ERGON_BROKER");
  variables_["XDG_DATA_HOME"] = folder + "/data";
  EXPECT_EQ(run({"queue", "ls"}).code, exit_ok);
  struct stat status{};
  ASSERT_EQ(::stat((folder + "/data/ergon").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_THAT(*opened_, AllOf(StartsWith("sqlite:/"), HasSubstr("ergon cli%25"), EndsWith("/data/ergon/ergon.db")));
  std::filesystem::remove_all(folder);
}

TEST_F(CliTest, WithoutXdgDataTheDefaultStoreLiesUnderHome) {
  std::string home = (std::filesystem::temp_directory_path() / "ergon-cli-XXXXXX").native();
  ASSERT_NE(::mkdtemp(home.data()), nullptr);
  variables_ = {{"HOME", home}, {"XDG_DATA_HOME", "not/absolute"}};
  EXPECT_EQ(run({"queue", "ls"}).code, exit_ok);
  EXPECT_EQ(*opened_, "sqlite:" + home + "/.local/share/ergon/ergon.db");
  std::filesystem::remove_all(home);
}

TEST_F(CliTest, WithoutAnyHomeItAsksForABroker) {
  variables_.clear();
  const said answer = run({"queue", "ls"});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_THAT(answer.err, HasSubstr("--broker"));
}

// --- enqueue

TEST_F(CliTest, EnqueuePrintsTheIdAlone) {
  const said answer = run({"enqueue", "send_email", "--payload", R"({ "to" : "ada" })"});
  EXPECT_EQ(answer.code, exit_ok);
  EXPECT_THAT(answer.err, IsEmpty());
  const job_info stored = job(answer.out.substr(0, answer.out.size() - 1));
  EXPECT_EQ(stored.kind, "send_email");
  EXPECT_EQ(stored.payload, R"({"to":"ada"})") << "white space between tokens is dropped";
  EXPECT_EQ(stored.max_retries, 25U);
}

TEST_F(CliTest, APayloadMayLookLikeAnythingTheParserKnows) {
  EXPECT_EQ(job(put({"k", "--payload", "[1,2]"})).payload, "[1,2]");
  EXPECT_EQ(job(put({"k", "--payload", "-5"})).payload, "-5");
  EXPECT_EQ(job(put({"k", "--payload={}"})).payload, "{}");
  EXPECT_EQ(job(put({"k", "-p", "\"--raw\""})).payload, "\"--raw\"");
  EXPECT_EQ(job(put({"k"})).payload, "{}");
}

TEST_F(CliTest, TakesAPayloadFromStandardInput) {
  in_.str(" {\"n\": 1}\n");
  EXPECT_EQ(job(put({"k", "--payload", "-"})).payload, "{\"n\":1}");
}

TEST_F(CliTest, TakesAPayloadFromAFile) {
  const std::string path = std::filesystem::temp_directory_path() / ("ergon-cli-payload-" + std::to_string(::getpid()));
  std::ofstream(path) << "[true]\n";
  EXPECT_EQ(job(put({"k", "--payload", ("@" + path).c_str()})).payload, "[true]");
  std::filesystem::remove(path);
  const said answer = run({"enqueue", "k", "--payload", ("@" + path).c_str()});
  EXPECT_EQ(answer.code, exit_failed);
  EXPECT_THAT(answer.err, HasSubstr("cannot be read"));
}

TEST_F(CliTest, RawStoresBytesAsTheyAre) {
  in_.str(std::string("\0\xFF {\n", 5));
  EXPECT_EQ(job(put({"k", "--raw", "--payload", "-"})).payload, std::string("\0\xFF {\n", 5));
}

TEST_F(CliTest, RefusesAPayloadThatIsTooLargeWithoutReadingAllOfIt) {
  in_.str("\"" + std::string(store_->max_payload() + 1000, 'x') + "\"");
  const said answer = run({"enqueue", "k", "--payload", "-"});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_THAT(answer.err, HasSubstr(std::to_string(store_->max_payload())));
}

TEST_F(CliTest, EnqueueTakesEveryOptionOfAJob) {
  const std::string id =
      put({"report", "--queue",     "slow", "--id",          "r-1", "--in",         "1h30m",      "--max-retries",
           "3",      "--timeout",   "90s",  "--deadline",    "2d",  "--unique-key", "north",      "--unique-for",
           "10m",    "--retention", "1d",   "--keep-result", "2h",  "--header",     "tenant=a=b", "--header",
           "trace="});
  const job_info stored = job(id, "slow");
  EXPECT_EQ(stored.queue, "slow");
  EXPECT_EQ(stored.state, job_state::scheduled);
  EXPECT_EQ(stored.max_retries, 3U);
  EXPECT_EQ(stored.timeout, 90s);
  EXPECT_EQ(stored.deadline, clock_->wall() + 48h);
  EXPECT_EQ(stored.due, clock_->wall() + 90min);
  EXPECT_EQ(stored.retention, 24h);
  EXPECT_EQ(stored.keep_result, 2h);
  EXPECT_EQ(stored.headers, (std::vector<std::pair<std::string, std::string>>{{"tenant", "a=b"}, {"trace", ""}}));
  EXPECT_EQ(job("r-1", "slow").id, id) << "found by its own id as well";
}

TEST_F(CliTest, EnqueueAtATime) {
  EXPECT_EQ(job(put({"k", "--at", "2031-06-01T10:00:00+02:00"})).due,
            wall_time{std::chrono::sys_days{std::chrono::year{2031} / 6 / 1}} + 8h);
}

TEST_F(CliTest, AnIdThatIsTakenGivesItsHolderAndSaysSo) {
  const std::string first = put({"k", "--id", "once"});
  const said again = run({"enqueue", "k", "--id", "once"});
  EXPECT_EQ(again.code, exit_ok);
  EXPECT_EQ(again.out, first + "\n");
  EXPECT_THAT(again.err, HasSubstr("nothing was stored"));
  EXPECT_EQ(run({"--json", "enqueue", "k", "--id", "once"}).out, "{\"id\":\"" + first + "\",\"created\":false}\n");
}

// --- job

TEST_F(CliTest, ListsJobsInATable) {
  const std::string id = put({"send_email"});
  clock_->advance(75s);
  const said answer = run({"job", "ls"});
  EXPECT_EQ(answer.code, exit_ok);
  EXPECT_THAT(answer.out, StartsWith("ID"));
  EXPECT_THAT(answer.out, ContainsRegex(id + "  default  send_email  ready +0/25 +1m15s"));
}

TEST_F(CliTest, FiltersTheList) {
  const std::string a = put({"a"});
  const std::string b = put({"b", "--queue", "q"});
  const std::string later = put({"a", "--in", "1h"});
  EXPECT_THAT(run({"job", "ls", "--kind", "a"}).out, AllOf(HasSubstr(a), HasSubstr(later), Not(HasSubstr(b))));
  EXPECT_THAT(run({"job", "ls", "--queue", "q"}).out, AllOf(HasSubstr(b), Not(HasSubstr(a))));
  EXPECT_THAT(run({"job", "ls", "--state", "scheduled"}).out, AllOf(HasSubstr(later), HasSubstr("in 1h"), Not(HasSubstr(b))));
}

TEST_F(CliTest, PagesThroughAListWithoutLossOrRepetition) {
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) ids.push_back(put({"k"}));
  std::vector<std::string> seen;
  std::string cursor;
  do {
    std::vector<const char*> words{"job", "ls", "--limit", "3"};
    if (!cursor.empty()) words.insert(words.end(), {"--cursor", cursor.c_str()});
    const said page = run(words);
    std::istringstream lines(page.out);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) seen.push_back(line.substr(0, line.find(' ')));
    const std::size_t at = page.err.find("--cursor ");
    cursor = at == std::string::npos ? "" : page.err.substr(at + 9, page.err.size() - at - 10);
  } while (!cursor.empty());
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(ids));
  EXPECT_THAT(run({"job", "ls", "--limit", "0"}).err, IsEmpty()) << "nought means all";
}

TEST_F(CliTest, TheDocumentOfAJobHasStableNames) {
  const std::string id = put({"k", "--payload", R"({"n": 12345678901234567890123})", "--keep-result", "1h"});
  EXPECT_EQ(
      run({"job", "show", id.c_str(), "--json"}).out,
      R"({"id":")" + id +
          R"(","queue":"default","kind":"k","state":"ready","failures":0,"losses":0,"max_retries":25,)"
          R"("enqueued_at":"2030-01-01T00:00:00Z","due":null,"ended_at":null,"deadline":null,"timeout_ms":1800000,)"
          R"("retention_ms":0,"keep_result_ms":3600000,"unique_key":null,"worker":null,"progress":null,"note":"","headers":[],)"
          R"("payload":{"n":12345678901234567890123},"errors":[]})"
          "\n");
  EXPECT_THAT(run({"job", "ls", "--json"}).out, AllOf(StartsWith("{\"jobs\":[{\"id\":\"" + id), EndsWith("],\"next\":null}\n")));
}

TEST_F(CliTest, APayloadThatIsNoJsonIsShownAsTextOrDigits) {
  const std::string text = put({"k", "--raw", "--payload", "not json"});
  EXPECT_THAT(run({"job", "show", text.c_str(), "--json"}).out, HasSubstr(R"("payload_text":"not json")"));
  in_.str("\xFF\x01");
  const std::string bytes = put({"k", "--raw", "--payload", "-"});
  EXPECT_THAT(run({"job", "show", bytes.c_str(), "--json"}).out, HasSubstr(R"("payload_hex":"ff01")"));
  EXPECT_THAT(run({"job", "show", bytes.c_str()}).out, HasSubstr("\\xFF\\x01"));
}

TEST_F(CliTest, ShowsAFailedJobWithItsErrorAndNoEscapeSequenceOfIt) {
  const std::string id = put({"k", "--payload", R"({"to": ["ada"]})"});
  work(verdict::bury, "smtp said \x1b[2J no");
  const said answer = run({"job", "show", id.c_str()});
  EXPECT_THAT(answer.out,
              AllOf(HasSubstr("state       dead"), HasSubstr("smtp said \\x1B[2J no"), HasSubstr("  {\n    \"to\": [\n")));
  EXPECT_THAT(run({"job", "ls", "--state", "dead"}).out, HasSubstr("smtp said"));
}

TEST_F(CliTest, ShowsTheResultOfACompletedJob) {
  const std::string id = put({"k", "--keep-result", "1h"});
  work(verdict::complete, R"({"sum": 3})");
  EXPECT_THAT(run({"job", "show", id.c_str(), "--json"}).out, HasSubstr(R"("result":{"sum":3})"));
  EXPECT_THAT(run({"job", "show", id.c_str()}).out, AllOf(HasSubstr("result\n"), HasSubstr("\"sum\": 3")));
}

TEST_F(CliTest, AJobThatIsNotKnownIsExitCodeOne) {
  const said answer = run({"job", "show", "nothing-here"});
  EXPECT_EQ(answer.code, exit_failed);
  EXPECT_THAT(answer.err, AllOf(StartsWith("ergon: "), HasSubstr("nothing-here")));
}

TEST_F(CliTest, RunMakesADeadJobReadyUnderItsNewId) {
  const std::string id = put({"k"});
  work(verdict::bury, "no");
  const said answer = run({"--json", "job", "run", id.c_str()});
  EXPECT_EQ(answer.code, exit_ok);
  const std::size_t at = answer.out.find("\"new_id\":\"") + 10;
  const std::string life = answer.out.substr(at, answer.out.find('"', at) - at);
  EXPECT_EQ(job(life).state, job_state::ready);
  EXPECT_EQ(job(life).failures, 0U);
}

TEST_F(CliTest, GoesOnAfterAJobThatFailsAndSaysWhich) {
  const std::string good = put({"k"});
  const said answer = run({"--json", "job", "cancel", "missing", good.c_str()});
  EXPECT_EQ(answer.code, exit_failed);
  EXPECT_THAT(answer.out,
              StartsWith("{\"jobs\":[{\"id\":\"" + good + "\",\"was\":\"ready\"}],\"failed\":[{\"id\":\"missing\",\"error\":\""));
  EXPECT_THAT(answer.err, HasSubstr("missing"));
  EXPECT_EQ(job(good).state, job_state::cancelled);
}

TEST_F(CliTest, RemoveForgetsAJobByItsOwnId) {
  put({"k", "--id", "mine", "--queue", "q"});
  EXPECT_EQ(run({"job", "rm", "mine", "--queue", "q"}).out, "mine  removed\n");
  const said again = run({"job", "run", "mine"});
  EXPECT_EQ(again.code, exit_failed) << "in the queue that was not named there never was such a job";
}

TEST_F(CliTest, AJobThatRunsCannotBeRemoved) {
  const std::string id = put({"k"});
  const auto me = wait(store_->join({.queues = {{"default", 1}}, .concurrency = 1}));
  delivery_batch batch;
  wait(me->fetch(1, batch));
  const said answer = run({"job", "rm", id.c_str()});
  EXPECT_EQ(answer.code, exit_failed);
  EXPECT_THAT(answer.err, StartsWith("ergon: "));
  wait(me->leave());
}

// --- queue, worker

TEST_F(CliTest, ListsQueuesByName) {
  put({"k", "--queue", "b"});
  put({"k", "--queue", "a", "--in", "1h"});
  clock_->advance(10s);
  const said answer = run({"queue", "ls"});
  EXPECT_THAT(answer.out, ContainsRegex("a +0 +1 .* -\nb +1 +0 .* 10s\n"));
  EXPECT_THAT(
      run({"queue", "ls", "--json"}).out,
      HasSubstr(R"({"name":"b","paused":false,"ready":1,"scheduled":0,"retry":0,"waiting":0,"active":0,"completed":0,"dead":0,)"
                R"("cancelled":0,"discarded":0,"latency_ms":10000})"));
}

TEST_F(CliTest, PausesAndResumesAQueue) {
  put({"k"});
  EXPECT_EQ(run({"queue", "pause", "default"}).code, exit_ok);
  EXPECT_THAT(run({"queue", "ls"}).out, HasSubstr("paused\n"));
  EXPECT_EQ(run({"queue", "resume", "default", "--json"}).out, "{\"queue\":\"default\",\"paused\":false}\n");
  EXPECT_THAT(run({"queue", "ls"}).out, Not(HasSubstr("paused")));
  EXPECT_EQ(run({"queue", "pause", "unknown"}).code, exit_failed);
}

TEST_F(CliTest, CountsWhatHappenedByTheHour) {
  put({"k"});
  work(verdict::complete, "");
  const said answer = run({"queue", "stats", "default", "--json"});
  EXPECT_EQ(answer.code, exit_ok);
  EXPECT_THAT(answer.out,
              AllOf(StartsWith(R"({"queue":"default","hours":[{"hour":"2030-01-01T00:00:00Z","enqueued":1,"completed":1,)"),
                    HasSubstr(R"("total":{"enqueued":1,"completed":1,)")));
  EXPECT_THAT(run({"queue", "stats", "default"}).out, ContainsRegex("HOUR.*\n2030-01-01T00:00:00Z +1 +1 .*\ntotal +1 +1 "));
  EXPECT_EQ(run({"queue", "stats", "unknown"}).code, exit_failed);
}

TEST_F(CliTest, ListsWorkersAndWhatTheyHold) {
  const std::string id = put({"k"});
  const auto me = wait(store_->join({.queues = {{"default", 3}}, .concurrency = 8}));
  delivery_batch batch;
  wait(me->fetch(1, batch));
  EXPECT_THAT(run({"worker", "ls"}).out, ContainsRegex("WORKER.*\n" + me->id() + " .* +1 +8 .* default×3\n"));
  EXPECT_THAT(run({"worker", "ls", "--json"}).out,
              AllOf(StartsWith("{\"workers\":[{\"id\":\"" + me->id()), HasSubstr(R"("leased":1)"),
                    HasSubstr(R"("running":[{"id":")" + id + R"(","queue":"default","kind":"k"}])")));
  wait(me->leave());
}

// --- colours

TEST_F(CliTest, ColoursOnlyOnATerminalAndNotWithNoColor) {
  put({"k"});
  EXPECT_THAT(run({"job", "ls"}).out, Not(HasSubstr("\x1b[")));
  around_.terminal = true;
  EXPECT_THAT(run({"job", "ls"}).out, HasSubstr("\x1b["));
  EXPECT_THAT(run({"job", "ls", "--json"}).out, Not(HasSubstr("\x1b[")));
  variables_["NO_COLOR"] = "1";
  EXPECT_THAT(run({"job", "ls"}).out, Not(HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace ergon::cli
