// Opening: what is refused, and how it is said (promise 9).
#include "broker/sqlite/database.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "broker/sqlite/schema.hpp"
#include "broker/sqlite/test_folder.hpp"

namespace ergon::sqlite {
namespace {

class DatabaseTest : public ::testing::Test {
 protected:
  /// The reason that opening is refused for, with its text in `said`.
  std::optional<errc> refusal(open_options options) {
    try {
      static_cast<void>(open(options));
    } catch (const error& e) {
      said = e.what();
      return e.reason();
    }
    return std::nullopt;
  }
  static void run(const std::string& file, const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  test_folder folder;
  std::string path = folder / "jobs.db";
  std::string said;
};

TEST_F(DatabaseTest, MakesAFileThatOnlyItsUserCanRead) {
  const auto db = open({.path = path});
  EXPECT_TRUE(has_schema(db.get()));
  EXPECT_EQ(query_integer(db.get(), "PRAGMA application_id"), application_id);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(DatabaseTest, GivesFreedPagesBack) {
  const auto db = open({.path = path});
  EXPECT_EQ(query_integer(db.get(), "PRAGMA auto_vacuum"), 2) << "incremental";
}

TEST_F(DatabaseTest, RefusesADirectory) {
  EXPECT_EQ(refusal({.path = folder.path()}), errc::not_a_store);
  EXPECT_NE(said.find("directory"), std::string::npos) << said;
}

TEST_F(DatabaseTest, RefusesAPathWhoseDirectoryDoesNotExist) {
  EXPECT_EQ(refusal({.path = folder / "nowhere/jobs.db"}), errc::unavailable);
  EXPECT_NE(said.find("nowhere"), std::string::npos) << said;
}

TEST_F(DatabaseTest, RefusesATextFile) {
  std::ofstream{path} << std::string(5000, 'x');
  EXPECT_EQ(refusal({.path = path}), errc::not_a_store);
  EXPECT_NE(said.find(path), std::string::npos) << said;
}

TEST_F(DatabaseTest, RefusesAPipe) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal({.path = path}), errc::not_a_store);
}

TEST_F(DatabaseTest, RefusesTheDatabaseOfAnotherProgramUnlessItIsOpenedAsHost) {
  run(path, "CREATE TABLE orders(id INTEGER PRIMARY KEY)");
  EXPECT_EQ(refusal({.path = path}), errc::not_a_store);
  EXPECT_NE(said.find("host=true"), std::string::npos) << said;

  const auto db = open({.path = path, .host = true});
  EXPECT_TRUE(has_schema(db.get()));
  EXPECT_EQ(query_integer(db.get(), "PRAGMA application_id"), 0) << "the file stays the other program's";
  EXPECT_EQ(query_integer(db.get(), "SELECT count(*) FROM orders"), 0);
}

TEST_F(DatabaseTest, RefusesAStoreOfANewerRelease) {
  static_cast<void>(open({.path = path}));
  run(path, "UPDATE ergon_meta SET value = 99 WHERE key = 'schema'");
  EXPECT_EQ(refusal({.path = path}), errc::newer_format);
  EXPECT_NE(said.find("99"), std::string::npos) << said;
}

TEST_F(DatabaseTest, SaysThatAReadOnlyFileIsReadOnly) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "nothing is read-only for root";
  }
  static_cast<void>(open({.path = path}));
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  EXPECT_EQ(refusal({.path = path}), errc::store_read_only);
}

TEST_F(DatabaseTest, SaysThatADamagedFileIsDamaged) {
  {
    static_cast<void>(open({.path = path}));
  }
  {
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(100);
    file << std::string(3000, '\x5a');
  }
  const auto why = refusal({.path = path});
  EXPECT_TRUE(why == errc::store_corrupt || why == errc::not_a_store) << said;
  EXPECT_NE(said.find(path), std::string::npos) << said;
}

TEST_F(DatabaseTest, StopsGrowingAtItsLimit) {
  const auto db = open({.path = path, .max_bytes = 512 * 1024});
  EXPECT_EQ(query_integer(db.get(), "PRAGMA max_page_count"), 128);
}

}  // namespace
}  // namespace ergon::sqlite
