#include "broker/sqlite/database.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "broker/sqlite/schema.hpp"

namespace ergon::sqlite {

namespace {

errc reason_of(int code) noexcept {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return errc::store_full;
    case SQLITE_READONLY:
      return errc::store_read_only;
    case SQLITE_CORRUPT:
      return errc::store_corrupt;
    case SQLITE_NOTADB:
      return errc::not_a_store;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return errc::busy;
    default:
      return errc::unavailable;
  }
}

std::string_view advice_for(errc reason) noexcept {
  switch (reason) {
    case errc::store_full:
      return "free space on its disk, or raise max_bytes; nothing of this operation was stored";
    case errc::store_read_only:
      return "give this user write permission on the file and its directory";
    case errc::store_corrupt:
      return "restore it from a backup, or recover what can be read with the sqlite3 program's .recover";
    case errc::not_a_store:
      return "name another file";
    case errc::busy:
      return "another program holds a write transaction on it for too long";
    default:
      return "check that its directory exists and is writable";
  }
}

struct file_system_name {
  unsigned long magic;
  const char* name;
};

/// Their byte-range locks or shared mappings do not hold between machines, or not at all.
constexpr std::array untrusted_file_systems{
    file_system_name{0x6969, "NFS"},      file_system_name{0x517B, "SMB"},      file_system_name{0xFF534D42, "CIFS"},
    file_system_name{0xFE534D42, "SMB2"}, file_system_name{0x65735546, "FUSE"}, file_system_name{0x01021997, "9p"},
    file_system_name{0x5346414F, "AFS"},  file_system_name{0x73757245, "Coda"}, file_system_name{0x00C36400, "Ceph"},
};

void check_file_system(const std::string& path) {
  const auto parent = std::filesystem::path{path}.parent_path();
  struct statfs info{};
  if (::statfs(parent.empty() ? "." : parent.c_str(), &info) != 0) {
    throw error{errc::unavailable, fmt::format("cannot open the store \"{}\": its directory \"{}\": {}", path,
                                               parent.empty() ? "." : parent.string(), std::strerror(errno))};
  }
  const auto magic = static_cast<unsigned long>(info.f_type) & 0xffffffffUL;
  for (const auto& fs : untrusted_file_systems) {
    if (fs.magic == magic) {
      throw error{errc::bad_file_system,
                  fmt::format("the store \"{}\" lies on {}, whose locks cannot be trusted between processes: put it on a "
                              "local disk (ext4, xfs, btrfs, tmpfs)",
                              path, fs.name)};
    }
  }
}

/// Makes a missing file with a mode that only its user can read. A file that exists is left alone: opening and closing it here
/// would drop the locks of another connection of this process.
void make_private(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      throw error{errc::not_a_store, fmt::format("the store \"{}\" is a directory: name a file in it", path)};
    }
    if (!S_ISREG(info.st_mode)) {
      throw error{errc::not_a_store, fmt::format("the store \"{}\" is no regular file: name another file", path)};
    }
    return;
  }
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ::close(fd);
  } else if (errno != EEXIST) {
    throw error{errno == EROFS || errno == EACCES ? errc::store_read_only : errc::unavailable,
                fmt::format("cannot make the store \"{}\": {}", path, std::strerror(errno))};
  }
}

}  // namespace

void throw_failure(sqlite3* db, int code, std::string_view doing) {
  const int extended = db != nullptr ? sqlite3_extended_errcode(db) : code;
  const char* file = db != nullptr ? sqlite3_db_filename(db, "main") : nullptr;
  const errc reason = reason_of(code);
  throw failure{reason, code,
                fmt::format("cannot {} the store \"{}\": {} (SQLite code {}); {}", doing, file != nullptr ? file : "",
                            db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code), extended, advice_for(reason))};
}

statement::statement(sqlite3* db, std::string_view sql) {
  sqlite3_stmt* stmt = nullptr;
  const int code = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
  if (code != SQLITE_OK) {
    throw_failure(db, code, "read");
  }
  stmt_.reset(stmt);
}

bool statement::step() {
  const int code = sqlite3_step(stmt_.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  sqlite3* db = sqlite3_db_handle(stmt_.get());
  if (code != SQLITE_DONE) {
    try {
      throw_failure(db, code, sqlite3_stmt_readonly(stmt_.get()) != 0 ? "read" : "write to");
    } catch (...) {
      sqlite3_reset(stmt_.get());
      throw;
    }
  }
  sqlite3_reset(stmt_.get());
  return false;
}

void statement::bind(int index, std::string_view value) {
  // A null pointer would bind NULL; a view may have one.
  sqlite3_bind_text64(stmt_.get(), index, value.data() != nullptr ? value.data() : "", value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void statement::bind(int index, std::span<const char> value) {
  sqlite3_bind_blob64(stmt_.get(), index, value.data() != nullptr ? value.data() : "", value.size(), SQLITE_STATIC);
}

void execute(sqlite3* db, const char* sql, std::string_view doing) {
  const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    throw_failure(db, code, doing);
  }
}

std::int64_t query_integer(sqlite3* db, const char* sql) {
  statement query{db, sql};
  std::int64_t value = 0;
  if (query.step()) {
    value = query.integer(0);
    query.done();
  }
  return value;
}

bool has_schema(sqlite3* db) {
  return query_integer(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ergon_meta'") != 0;
}

connection open(const open_options& options) {
  check_file_system(options.path);
  if (!options.read_only) {
    make_private(options.path);
  }
  sqlite3* raw = nullptr;
  const int flags =
      (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
  const int code = sqlite3_open_v2(options.path.c_str(), &raw, flags, nullptr);
  connection db{raw};
  if (code != SQLITE_OK) {
    throw_failure(db.get(), code, "open");
  }
  sqlite3_extended_result_codes(db.get(), 0);
  sqlite3_busy_timeout(db.get(), 10'000);
  if (options.read_only) {
    execute(db.get(), "PRAGMA cache_size = -4000; PRAGMA query_only = 1", "open");
    return db;
  }
  if (sqlite3_db_readonly(db.get(), "main") != 0) {
    throw error{errc::store_read_only,
                fmt::format("the store \"{}\" may be read but not written: {}", options.path, advice_for(errc::store_read_only))};
  }
  const bool ours = has_schema(db.get());
  if (!ours && query_integer(db.get(), "SELECT count(*) FROM sqlite_schema") != 0 && !options.host) {
    throw error{
        errc::not_a_store,
        fmt::format("\"{}\" is the database of another program: name another file, or add ?host=true to keep jobs in it for that "
                    "program's own transactions",
                    options.path)};
  }
  if (!ours && !options.host) {
    // Only possible before the first table.
    execute(db.get(), "PRAGMA auto_vacuum = INCREMENTAL", "make");
  }
  execute(db.get(), "PRAGMA journal_mode = WAL", "open");
  execute(db.get(),
          "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32000; PRAGMA wal_autocheckpoint = 4000;"
          "PRAGMA journal_size_limit = 67108864; PRAGMA foreign_keys = OFF; PRAGMA recursive_triggers = OFF",
          "open");
  execute(db.get(), options.sync == synchronous::full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", "open");
  if (options.max_bytes != 0) {
    const auto page = query_integer(db.get(), "PRAGMA page_size");
    execute(db.get(),
            fmt::format("PRAGMA max_page_count = {}",
                        std::max<std::uint64_t>(64, options.max_bytes / static_cast<std::uint64_t>(page)))
                .c_str(),
            "open");
  }
  migrate(db.get(), !options.host);
  return db;
}

}  // namespace ergon::sqlite
