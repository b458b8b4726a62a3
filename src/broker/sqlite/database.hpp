// A connection to one SQLite file and its prepared statements: opening with every check, and errors that a person can act on.
// A connection belongs to whoever executes at the moment; nothing here is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include <ergon/base/error.hpp>

namespace ergon::sqlite {

/// What SQLite said, kept beside our own code: the committer treats a full disk unlike a damaged one.
class failure : public error {
 public:
  failure(errc code, int sqlite_code, std::string text) : error{code, std::move(text)}, sqlite_code_{sqlite_code} {}
  [[nodiscard]] int sqlite_code() const noexcept { return sqlite_code_; }

 private:
  int sqlite_code_;
};

/// Throws the `failure` for `code`, which is not SQLITE_OK. `doing` completes "cannot …".
[[noreturn]] void throw_failure(sqlite3* db, int code, std::string_view doing);

/// A prepared statement: `reset_and_bind`, then `step` until false (or `run`). It resets itself when it is done.
class statement {
 public:
  statement() = default;
  statement(sqlite3* db, std::string_view sql);

  template <class... Args>
  statement& operator()(const Args&... args) {
    int index = 0;
    (bind(++index, args), ...);
    return *this;
  }

  /// True with a row; false at the end, when the statement is reset.
  bool step();
  /// Runs to the end.
  void run() {
    while (step()) {
    }
  }
  /// Leaves the rest of the rows.
  void done() noexcept { sqlite3_reset(stmt_.get()); }

  [[nodiscard]] std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(stmt_.get(), column); }
  [[nodiscard]] double real(int column) const noexcept { return sqlite3_column_double(stmt_.get(), column); }
  [[nodiscard]] bool is_null(int column) const noexcept { return sqlite3_column_type(stmt_.get(), column) == SQLITE_NULL; }
  /// Good until the next step.
  [[nodiscard]] std::string_view bytes(int column) const noexcept {
    const void* data = sqlite3_column_blob(stmt_.get(), column);
    return {static_cast<const char*>(data),
            data == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(stmt_.get(), column))};
  }

 private:
  struct finalizer {
    void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
  };

  template <class Int>
    requires std::integral<Int>
  void bind(int index, Int value) {
    sqlite3_bind_int64(stmt_.get(), index, static_cast<std::int64_t>(value));
  }
  void bind(int index, double value) { sqlite3_bind_double(stmt_.get(), index, value); }
  void bind(int index, std::nullptr_t) { sqlite3_bind_null(stmt_.get(), index); }
  /// As text.
  void bind(int index, std::string_view value);
  void bind(int index, const std::string& value) { bind(index, std::string_view{value}); }
  void bind(int index, const char* value) { bind(index, std::string_view{value}); }
  /// As a blob.
  void bind(int index, std::span<const char> value);

  std::unique_ptr<sqlite3_stmt, finalizer> stmt_;
};

enum class synchronous : std::uint8_t {
  /// A power cut may take back the last transactions, never damage the store.
  normal,
  /// Every acknowledged transaction survives a power cut.
  full,
};

struct open_options {
  std::string path;
  synchronous sync = synchronous::normal;
  /// The file belongs to another program, in whose transactions jobs are put in.
  bool host = false;
  /// Refuse to grow beyond this; nought means no limit.
  std::uint64_t max_bytes = 0;
  bool read_only = false;
};

struct closer {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
using connection = std::unique_ptr<sqlite3, closer>;

/// Opens or makes the file and brings its schema up to date. Throws `errc::not_a_store`, `errc::bad_file_system`,
/// `errc::store_read_only`, `errc::newer_format`, `errc::store_corrupt`, `errc::unavailable`.
[[nodiscard]] connection open(const open_options& options);

void execute(sqlite3* db, const char* sql, std::string_view doing);
/// The first column of the first row, as an integer; nought without a row.
[[nodiscard]] std::int64_t query_integer(sqlite3* db, const char* sql);

/// True where the connection sees ergon's tables.
[[nodiscard]] bool has_schema(sqlite3* db);

}  // namespace ergon::sqlite
