// Loggers, the three sinks, the process's default.
#include <ergon/base/log.hpp>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/json_line.hpp"

namespace ergon {
namespace {

spdlog::level::level_enum spdlog_level(log_level level) noexcept {
  switch (level) {
    case log_level::debug:
      return spdlog::level::debug;
    case log_level::info:
      return spdlog::level::info;
    case log_level::warn:
      return spdlog::level::warn;
    case log_level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

class console_sink final : public log_sink {
 public:
  console_sink() {
    const char* no_color = std::getenv("NO_COLOR");
    const auto colors = no_color != nullptr && *no_color != '\0' ? spdlog::color_mode::never : spdlog::color_mode::automatic;
    backend_ = std::make_unique<spdlog::logger>("ergon", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colors));
    backend_->set_level(spdlog::level::trace);
    backend_->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v");
    backend_->flush_on(spdlog::level::trace);
  }

  void write(const log_record& record) noexcept override {
    try {
      const auto at =
          spdlog::log_clock::time_point{std::chrono::floor<spdlog::log_clock::duration>(record.at.time_since_epoch())};
      backend_->log(at, spdlog::source_loc{}, spdlog_level(record.level), console_line(record));
    } catch (...) {  // out of memory: there is nobody left to tell
    }
  }

 private:
  std::unique_ptr<spdlog::logger> backend_;
};

class json_sink final : public log_sink {
 public:
  void write(const log_record& record) noexcept override {
    try {
      const std::string line = json_line(record);
      std::lock_guard lock{mutex_};
      for (std::size_t done = 0; done < line.size();) {
        const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        done += static_cast<std::size_t>(n);
      }
    } catch (...) {  // out of memory: there is nobody left to tell
    }
  }

 private:
  std::mutex mutex_;
};

struct default_holder {
  std::mutex mutex;
  logger current = logger::console();
};

// Never destroyed: threads may still log while statics go.
default_holder& holder() {
  static auto* instance = new default_holder;
  return *instance;
}

}  // namespace

struct logger::bound {
  struct owned {
    std::string key;
    std::string value;
    bool is_number;
  };
  std::vector<owned> owned_fields;
  std::vector<log_field> views;

  bound(const bound* before, fields more) {
    if (before != nullptr) owned_fields = before->owned_fields;
    for (const log_field& field : more)
      owned_fields.push_back({std::string{field.key}, std::string{field.value}, field.is_number});
    for (const owned& field : owned_fields) {
      views.emplace_back(field.key, field.value);
      views.back().is_number = field.is_number;
    }
  }
};

std::string_view to_string(log_level level) noexcept {
  switch (level) {
    case log_level::debug:
      return "debug";
    case log_level::info:
      return "info";
    case log_level::warn:
      return "warn";
    case log_level::error:
      return "error";
  }
  return "unknown";
}

log_sink::~log_sink() = default;

logger::logger(std::shared_ptr<log_sink> sink, log_level level) : sink_(std::move(sink)), level_(level) {}

logger logger::console(log_level level) {
  static const auto sink = std::make_shared<console_sink>();
  return {sink, level};
}

logger logger::json(log_level level) {
  static const auto sink = std::make_shared<json_sink>();
  return {sink, level};
}

logger logger::at_level(log_level level) const {
  logger out = *this;
  out.level_ = level;
  return out;
}

logger logger::with(fields more) const {
  logger out = *this;
  if (sink_ != nullptr) out.bound_ = std::make_shared<const bound>(bound_.get(), more);
  return out;
}

void logger::emit(log_level level, std::string_view text, std::span<const log_field> more) const noexcept {
  const wall_time at = clock::system().wall();
  if (bound_ == nullptr) {
    sink_->write({at, level, text, more});
    return;
  }
  if (more.empty()) {
    sink_->write({at, level, text, bound_->views});
    return;
  }
  try {
    std::vector<log_field> all = bound_->views;
    all.insert(all.end(), more.begin(), more.end());
    sink_->write({at, level, text, all});
  } catch (...) {
    sink_->write({at, level, text, more});
  }
}

logger default_logger() {
  std::lock_guard lock{holder().mutex};
  return holder().current;
}

void set_default_logger(logger to) {
  std::lock_guard lock{holder().mutex};
  std::swap(holder().current, to);
}

memory_sink::memory_sink() = default;
memory_sink::~memory_sink() = default;

std::string memory_sink::entry::field(std::string_view key) const {
  for (std::size_t i = fields.size(); i-- > 0;) {
    if (fields[i].first == key) return fields[i].second;
  }
  return {};
}

void memory_sink::write(const log_record& record) noexcept {
  try {
    entry kept{record.at, record.level, std::string{record.text}, {}};
    for (const log_field& field : record.fields) kept.fields.emplace_back(field.key, field.value);
    std::lock_guard lock{mutex_};
    entries_.push_back(std::move(kept));
  } catch (...) {  // out of memory in a test: the test will miss the record
  }
}

std::vector<memory_sink::entry> memory_sink::entries() const {
  std::lock_guard lock{mutex_};
  return entries_;
}

bool memory_sink::contains(std::string_view part) const {
  std::lock_guard lock{mutex_};
  for (const entry& one : entries_) {
    if (one.text.find(part) != std::string::npos) return true;
  }
  return false;
}

void memory_sink::clear() {
  std::lock_guard lock{mutex_};
  entries_.clear();
}

}  // namespace ergon
