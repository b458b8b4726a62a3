// The compiled half of writing JSON: appends values and knows the path of the value it writes, for the error. Only
// specialisations of `json_value` use it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <ergon/base/export.hpp>
#include <ergon/codec/json_reader.hpp>

namespace ergon {

class ERGON_EXPORT json_writer {
 public:
  /// Appends to `out`. `name` begins the paths in error texts. Both must outlive the writer.
  json_writer(std::string& out, std::string_view name) noexcept : out_(&out), name_(name) {}
  json_writer(const json_writer&) = delete;
  json_writer& operator=(const json_writer&) = delete;

  /// JSON that is known to be right: punctuation, `"name":`, `null`.
  void literal(std::string_view json) { out_->append(json); }
  void literal(char json) { out_->push_back(json); }
  void boolean(bool value) { literal(value ? std::string_view{"true"} : std::string_view{"false"}); }
  void integer(std::int64_t value);
  void unsigned_integer(std::uint64_t value);
  /// The shortest text that reads back as the same number. Infinities and NaN throw `errc::bad_payload`: JSON has none.
  void real(double value);
  void real(float value);
  /// Throws `errc::bad_payload` for what is not UTF-8.
  void text(std::string_view value);

  /// A place inside an object or array, for the path; it must go in the reverse order of coming. Throws `errc::bad_payload`
  /// past the depth that can be read again.
  class scope {
   public:
    explicit scope(json_writer& writer) : writer_(&writer), above_(writer.top_) {
      if (++writer.depth_ > max_json_depth) writer.fail_too_deep();
      writer.top_ = this;
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      writer_->top_ = above_;
      --writer_->depth_;
    }
    /// What is written next is this field.
    void at(std::string_view field) noexcept { field_ = field; }
    /// What is written next is this element.
    void at(std::size_t element) noexcept {
      field_ = {};
      element_ = element;
    }

   private:
    friend class json_writer;
    json_writer* writer_;
    scope* above_;
    std::string_view field_;
    std::size_t element_ = 0;
  };

  /// Throws `errc::bad_payload` about the value that is being written.
  [[noreturn]] void fail(std::string_view why) const;

 private:
  [[noreturn]] void fail_too_deep();

  std::string* out_;
  std::string_view name_;
  scope* top_ = nullptr;
  std::size_t depth_ = 0;
};

}  // namespace ergon
