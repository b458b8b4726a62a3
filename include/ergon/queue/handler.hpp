// From a function to a handler: the payload's and the result's type come from its signature. The templates here only turn bytes
// into the payload and the result into bytes; everything else about a job happens behind `detail::job_handler`.
//
// A handler is any of
//   task<R> f(const Payload&);                 R f(const Payload&);
//   task<R> f(const Payload&, job_context&);   R f(const Payload&, job_context&);
// a function or an object with one call operator (a lambda that captures, too: the worker keeps it). R is void, a type that the
// codec knows, `outcome` or `outcome_of<T>`. It is called by several threads at once where the runtime has several.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/queue/job_context.hpp>
#include <ergon/queue/outcome.hpp>
#include <ergon/queue/payload.hpp>
#include <ergon/queue/retry_policy.hpp>
#include <ergon/runtime/blocking.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon {

/// Where a plain function (one that returns no task) is called.
enum class run_on : std::uint8_t {
  /// On the pool of blocking calls: it may take its time.
  pool,
  /// On the runtime itself, without changing threads: for what never blocks and takes microseconds.
  runtime,
};

struct handler_options {
  /// The kind that it takes, instead of the payload type's own.
  std::string kind = {};
  /// Further kinds that it takes, beside the payload type's `kind_aliases`: old names during a deploy.
  std::vector<std::string> aliases = {};
  /// Instead of the worker's.
  retry_policy retry = {};
  /// Only for plain functions.
  run_on where = run_on::pool;
  /// A payload with fields that the type does not have is refused.
  bool strict = false;
};

namespace detail {

/// How an attempt ended, as the handler's adapter saw it. Lies in the attempt, not in a frame: what a plain function did is known
/// also where the wait for it was stopped.
struct attempt_end {
  enum class how : std::uint8_t { open, success, verdict, threw, bad_payload };
  how what = how::open;
  /// The result of a success, the reason why the payload does not fit.
  std::string text;
  ergon::outcome verdict;
  std::exception_ptr thrown;
};

/// A handler without its types. Owned by the worker.
class ERGON_EXPORT job_handler {
 public:
  job_handler() = default;
  job_handler(const job_handler&) = delete;
  job_handler& operator=(const job_handler&) = delete;
  virtual ~job_handler();

  /// Decodes, calls, encodes. `end` is fresh. What a coroutine throws passes through.
  virtual task<void> run(job_context& context, attempt_end& end) = 0;
  /// It was a plain function, and so saw nothing of a cancel unless it took the stop token.
  [[nodiscard]] virtual bool is_plain() const noexcept = 0;
};

template <class Signature>
struct signature_of;
template <class Returned, class Payload>
struct signature_of<Returned(Payload)> {
  using returned = Returned;
  using payload = std::remove_cvref_t<Payload>;
  static constexpr bool takes_context = false;
  static_assert(!std::is_lvalue_reference_v<Payload> || std::is_const_v<std::remove_reference_t<Payload>>,
                "ergon: a handler takes its payload by const reference or by value");
};
template <class Returned, class Payload, class Context>
struct signature_of<Returned(Payload, Context)> : signature_of<Returned(Payload)> {
  static constexpr bool takes_context = true;
  static_assert(std::is_same_v<Context, job_context&>, "ergon: a handler's second parameter is ergon::job_context&");
};

template <class Callable>
struct callable {
  static_assert(
      requires { &Callable::operator(); },
      "ergon: a handler is a function, or an object with one call operator that is neither a template nor overloaded: "
      "task<R> or R from (const Payload&) or (const Payload&, ergon::job_context&)");
  using signature = typename callable<decltype(&Callable::operator())>::signature;
};
template <class R, class... A>
struct callable<R (*)(A...)> {
  using signature = R(A...);
};
template <class R, class... A>
struct callable<R (*)(A...) noexcept> {
  using signature = R(A...);
};
template <class C, class R, class... A>
struct callable<R (C::*)(A...)> {
  using signature = R(A...);
};
template <class C, class R, class... A>
struct callable<R (C::*)(A...) const> {
  using signature = R(A...);
};
template <class C, class R, class... A>
struct callable<R (C::*)(A...) noexcept> {
  using signature = R(A...);
};
template <class C, class R, class... A>
struct callable<R (C::*)(A...) const noexcept> {
  using signature = R(A...);
};

template <class T>
struct awaited {
  using type = T;
};
template <class T>
struct awaited<task<T>> {
  using type = T;
};

template <class T>
inline constexpr bool is_outcome_of = false;
template <class T>
inline constexpr bool is_outcome_of<outcome_of<T>> = true;

/// Says in `end` what the handler returned.
template <class Result>
void conclude(attempt_end& end, Result&& result, bool keeps_result) {
  using plain = std::remove_cvref_t<Result>;
  if constexpr (std::is_same_v<plain, ergon::outcome>) {
    end.what = attempt_end::how::verdict;
    end.verdict = std::forward<Result>(result);
  } else if constexpr (is_outcome_of<plain>) {
    if (result.has_result()) {
      conclude(end, result.result(), keeps_result);
    } else {
      conclude(end, std::move(result.verdict()), keeps_result);
    }
  } else {
    if (keeps_result) encode_result(result, end.text);
    end.what = attempt_end::how::success;
  }
}

template <class F>
class typed_handler final : public job_handler {
  using signature = signature_of<typename callable<F>::signature>;
  using payload_type = typename signature::payload;
  using returned = typename signature::returned;
  using result_type = typename awaited<returned>::type;
  static constexpr bool is_coroutine = detail::is_task<returned>;

 public:
  using payload = payload_type;

  typed_handler(F f, run_on where, bool strict) : f_(std::move(f)), where_(where), strict_(strict) {}

  [[nodiscard]] bool is_plain() const noexcept override { return !is_coroutine; }

  task<void> run(job_context& context, attempt_end& end) override {
    std::optional<payload_type> decoded;
    if (!decode_payload(context.payload(), strict_, decoded, end.text)) {
      end.what = attempt_end::how::bad_payload;
      co_return;
    }
    const payload_type& payload = *decoded;
    if constexpr (is_coroutine) {
      if constexpr (std::is_void_v<result_type>) {
        co_await call(payload, context);
        end.what = attempt_end::how::success;
      } else {
        conclude(end, co_await call(payload, context), context.keeps_result());
      }
    } else {
      if (where_ == run_on::runtime) {
        call_plain(payload, context, end);
      } else {
        co_await blocking([this, &payload, &context, &end] { call_plain(payload, context, end); });
      }
    }
  }

 private:
  returned call(const payload_type& payload, job_context& context) {
    if constexpr (signature::takes_context) {
      return f_(payload, context);
    } else {
      return f_(payload);
    }
  }
  void call_plain(const payload_type& payload, job_context& context, attempt_end& end) noexcept {
    try {
      if constexpr (std::is_void_v<result_type>) {
        call(payload, context);
        end.what = attempt_end::how::success;
      } else {
        conclude(end, call(payload, context), context.keeps_result());
      }
    } catch (...) {
      end.thrown = std::current_exception();
      end.what = attempt_end::how::threw;
    }
  }

  F f_;
  run_on where_;
  bool strict_;
};

}  // namespace detail
}  // namespace ergon
