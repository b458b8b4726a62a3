// The logging front. What is written and where to is a `log_sink`; a `logger` is a handle that checks the level first and
// carries bound fields. Everything here may be used from any thread.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/base/export.hpp>

namespace ergon {

enum class log_level : std::uint8_t {
  /// What only somebody who looks for a defect wants to read.
  debug,
  /// The normal course: started, stopped, took over.
  info,
  /// Something went wrong and was made good: a lost lease, a retry, a reconnect.
  warn,
  /// Something went wrong and a person should look.
  error,
};

[[nodiscard]] ERGON_EXPORT std::string_view to_string(log_level level) noexcept;

/// A number as a field's value: `log.info("taken over", {{"jobs", log_number(n)}})`. Lives as long as the call.
class log_number {
 public:
  template <class Number>
    requires std::is_arithmetic_v<Number>
  explicit log_number(Number value) noexcept {
    if constexpr (std::same_as<Number, bool>) {
      for (char c : std::string_view{value ? "true" : "false"}) text_[size_++] = c;
    } else {
      size_ = static_cast<std::size_t>(std::to_chars(text_, text_ + sizeof text_, value).ptr - text_);
    }
  }
  [[nodiscard]] std::string_view text() const noexcept { return {text_, size_}; }

 private:
  char text_[32];
  std::size_t size_ = 0;
};

/// A named value of a record. Views: they must live until the call that they are given to returns.
struct log_field {
  std::string_view key;
  std::string_view value;
  /// The value is a number or a truth value: sinks need not quote it.
  bool is_number = false;

  constexpr log_field(std::string_view name, std::string_view text) noexcept : key(name), value(text) {}
  log_field(std::string_view name, const log_number& number) noexcept : key(name), value(number.text()), is_number(true) {}
};

/// What a sink gets. Views live until `write` returns.
struct log_record {
  wall_time at;
  log_level level = log_level::info;
  std::string_view text;
  std::span<const log_field> fields;
};

/// Where records go. `write` is called from many threads at once and must not call a logger of its own sink.
class ERGON_EXPORT log_sink {
 public:
  log_sink() = default;
  log_sink(const log_sink&) = delete;
  log_sink& operator=(const log_sink&) = delete;
  virtual ~log_sink();

  virtual void write(const log_record& record) noexcept = 0;
};

/// Cheap to copy. Default-constructed, it writes nothing. The level is checked before anything is formatted or copied; where
/// the text itself is costly, give a function that makes it. Never throws.
class ERGON_EXPORT logger {
 public:
  using fields = std::initializer_list<log_field>;

  logger() noexcept = default;
  logger(std::shared_ptr<log_sink> sink, log_level level);

  /// Text for people on stderr, in colours only on a terminal and without NO_COLOR in the environment.
  [[nodiscard]] static logger console(log_level level = log_level::info);
  /// A JSON object a line on stderr: `time`, `level`, `text`, and the fields as members (one that is called like those three
  /// gets a trailing `_`). What is not UTF-8 becomes U+FFFD.
  [[nodiscard]] static logger json(log_level level = log_level::info);
  [[nodiscard]] static logger null() noexcept { return {}; }

  [[nodiscard]] bool enabled(log_level level) const noexcept { return sink_ != nullptr && level >= level_; }
  [[nodiscard]] log_level level() const noexcept { return level_; }
  /// The same sink from another level on.
  [[nodiscard]] logger at_level(log_level level) const;
  /// The same sink with more bound fields; they are copied and come first in each record.
  [[nodiscard]] logger with(fields more) const;

  void log(log_level level, std::string_view text, fields more = {}) const noexcept {
    if (enabled(level)) emit(level, text, {more.begin(), more.size()});
  }
  void log(log_level level, std::string_view text, std::span<const log_field> more) const noexcept {
    if (enabled(level)) emit(level, text, more);
  }
  template <std::invocable MakeText>
  void log(log_level level, MakeText&& make_text, fields more = {}) const noexcept {
    if (enabled(level)) emit_made(level, std::forward<MakeText>(make_text), more);
  }

  template <class Text>
  void debug(Text&& text, fields more = {}) const noexcept {
    log(log_level::debug, std::forward<Text>(text), more);
  }
  template <class Text>
  void info(Text&& text, fields more = {}) const noexcept {
    log(log_level::info, std::forward<Text>(text), more);
  }
  template <class Text>
  void warn(Text&& text, fields more = {}) const noexcept {
    log(log_level::warn, std::forward<Text>(text), more);
  }
  template <class Text>
  void error(Text&& text, fields more = {}) const noexcept {
    log(log_level::error, std::forward<Text>(text), more);
  }

 private:
  struct bound;

  template <class MakeText>
  void emit_made(log_level level, MakeText&& make_text, fields more) const noexcept {
    try {
      const auto text = std::forward<MakeText>(make_text)();
      emit(level, text, {more.begin(), more.size()});
    } catch (...) {
      emit(level, "a log text could not be made", {more.begin(), more.size()});
    }
  }
  void emit(log_level level, std::string_view text, std::span<const log_field> more) const noexcept;

  std::shared_ptr<log_sink> sink_;
  std::shared_ptr<const bound> bound_;
  log_level level_ = log_level::info;
};

/// The process's logger: `logger::console()` until it is set. Parts take it where their options name none.
[[nodiscard]] ERGON_EXPORT logger default_logger();
ERGON_EXPORT void set_default_logger(logger to);

/// Keeps records, for tests.
class ERGON_EXPORT memory_sink final : public log_sink {
 public:
  struct entry {
    wall_time at;
    log_level level = log_level::info;
    std::string text;
    std::vector<std::pair<std::string, std::string>> fields;

    /// The value of the last field of that name; empty where there is none.
    [[nodiscard]] std::string field(std::string_view key) const;
  };

  memory_sink();
  ~memory_sink() override;

  void write(const log_record& record) noexcept override;
  [[nodiscard]] std::vector<entry> entries() const;
  /// True if a record's text contains `part`.
  [[nodiscard]] bool contains(std::string_view part) const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<entry> entries_;
};

}  // namespace ergon
