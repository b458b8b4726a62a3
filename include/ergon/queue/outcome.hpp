// How a handler says that its attempt ended other than by a plain return or an exception: to try again after a time of its
// choice, to give up for good, to call the job off. An `outcome` may be returned (`task<outcome>`, `task<outcome_of<T>>`) or
// thrown from any depth (`throw ergon::fail("no such file")`); both mean the same. A value; any thread.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <ergon/base/export.hpp>

namespace ergon {

/// The verdict on an attempt. It beats the kind's retry policy; only a job that was cancelled from outside is beyond it. As an
/// exception it shows its text.
class ERGON_EXPORT outcome : public std::exception {
 public:
  enum class how : std::uint8_t {
    /// Done.
    success,
    /// Failed, counted, next attempt after `delay()`; once `max_retries` is used up the job is dead.
    retry,
    /// Dead at once, whatever is left of `max_retries`.
    fail,
    /// Called off: terminal, and neither a success nor a failure.
    cancel,
  };

  /// Success without a result.
  outcome() noexcept = default;
  outcome(how verdict, std::string text, std::chrono::nanoseconds delay = {}) noexcept
      : text_(std::move(text)), delay_(delay), verdict_(verdict) {}
  outcome(const outcome&) = default;
  outcome(outcome&&) noexcept = default;
  outcome& operator=(const outcome&) = default;
  outcome& operator=(outcome&&) noexcept = default;
  ~outcome() override;

  [[nodiscard]] how verdict() const noexcept { return verdict_; }
  [[nodiscard]] bool succeeded() const noexcept { return verdict_ == how::success; }
  /// The encoded result of a success (empty where nobody waits for it), else the reason.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::chrono::nanoseconds delay() const noexcept { return delay_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
  std::chrono::nanoseconds delay_{0};
  how verdict_ = how::success;
};

/// The attempt is over and counted as failed; the next begins after `delay` (nought to ten years), whatever the retry policy says.
[[nodiscard]] ERGON_EXPORT outcome retry_in(std::chrono::nanoseconds delay,
                                            std::string reason = "the handler asked for another attempt");
/// To the dead letters at once: another attempt would not help.
[[nodiscard]] ERGON_EXPORT outcome fail(std::string reason);
/// The job has become pointless: it ends as cancelled.
[[nodiscard]] ERGON_EXPORT outcome cancelled(std::string reason);

/// A result, or an outcome that has none. Returned by handlers that give a result and also know when to give up.
template <class Result>
class outcome_of {
 public:
  using result_type = Result;

  // NOLINTBEGIN(google-explicit-constructor): a handler returns either.
  template <class Value = Result>
    requires(std::constructible_from<Result, Value> && !std::same_as<std::remove_cvref_t<Value>, outcome_of> &&
             !std::same_as<std::remove_cvref_t<Value>, outcome>)
  outcome_of(Value&& result) : value_(std::in_place_index<0>, std::forward<Value>(result)) {}
  outcome_of(outcome verdict) : value_(std::in_place_index<1>, std::move(verdict)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_result() const noexcept { return value_.index() == 0; }
  [[nodiscard]] const Result& result() const { return std::get<0>(value_); }
  [[nodiscard]] outcome& verdict() { return std::get<1>(value_); }

 private:
  std::variant<Result, outcome> value_;
};

}  // namespace ergon
