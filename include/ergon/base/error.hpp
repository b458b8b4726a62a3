// The one error type of ergon. What a caller meets in the normal course is a value (`enqueued::created`); what stops an
// operation is an `ergon::error`: a code to branch on and a text that names the thing, its value and what would be right.
#pragma once

#include <string>
#include <system_error>

#include <ergon/base/export.hpp>

namespace ergon {

/// Why an operation stopped. `docs/errors.md` says for each what to do.
enum class errc {
  /// A value lies outside the range that its documentation states.
  invalid_argument = 1,
  /// A broker URL cannot be parsed, or holds an option that the scheme does not know.
  bad_url,
  /// The scheme of a broker URL is none that this build knows.
  unknown_scheme,
  /// Bytes do not fit the type that they should become; the text names the field path.
  bad_payload,
  /// A payload, result or header is larger than the broker's stated limit.
  too_large,
  /// No job, queue or worker has that name.
  not_found,
  /// The job is in a state that does not allow the operation (running it, when it runs already).
  wrong_state,
  /// Another worker owns the job by now, or it was cancelled: nothing was changed.
  lease_lost,
  /// The job does not keep a result: it was enqueued without `keep_result`.
  no_result,
  /// The job that was waited for ended without success; the text holds its last error.
  job_failed,
  /// A kind is already taken by another type, or has two handlers.
  duplicate_kind,
  /// The disk or the memory limit of the store is exhausted: nothing of this operation was stored.
  store_full,
  /// The store may be read but not written.
  store_read_only,
  /// The store's content is damaged.
  store_corrupt,
  /// The file exists and is not an ergon store (another program's database, a directory, a text file).
  not_a_store,
  /// The store was written by a newer release than this one can read.
  newer_format,
  /// The file lies on a file system whose locks cannot be trusted (NFS, SMB, FUSE, 9p).
  bad_file_system,
  /// The store or the server cannot be opened or reached.
  unavailable,
  /// Another holder kept the store locked for longer than the busy timeout.
  busy,
  /// The operation may or may not have happened: the connection ended before its answer.
  unknown_outcome,
  /// The object was closed or shut down before the operation.
  closed,
  /// The operation was cancelled.
  cancelled,
  /// The time given for the operation ran out.
  timed_out,
  /// This broker, or this kind of runtime, cannot do that.
  not_supported,
  /// Every task waits for what none of them will do any more; a simulation sees that.
  deadlock,
  /// The other side of a connection, or the network to it, ended it before this side was done.
  connection_lost,
  /// The other side of a TLS connection could not prove who it is.
  not_trusted,
  /// The server does not accept the user or the password, or does not permit the command to this user.
  not_permitted,
  /// The server answered a command with an error that has no reason of its own here; the text holds it.
  rejected,
  /// What came from the server is no valid reply, or not the reply that the command has.
  bad_reply,
};

ERGON_EXPORT const std::error_category& error_category() noexcept;
ERGON_EXPORT std::error_code make_error_code(errc code) noexcept;

/// Thrown by every part of ergon. `what()` is the text alone, ready to be shown to a person.
class ERGON_EXPORT error : public std::system_error {
 public:
  error(errc code, std::string text);
  ~error() override;

  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] errc reason() const noexcept { return static_cast<errc>(code().value()); }

 private:
  std::string text_;
};

}  // namespace ergon

template <>
struct std::is_error_code_enum<ergon::errc> : std::true_type {};
