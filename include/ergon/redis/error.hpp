// What a server answers where it refuses a command.
#pragma once

#include <string>
#include <string_view>

#include <ergon/base/error.hpp>
#include <ergon/base/export.hpp>
#include <ergon/redis/reply.hpp>

namespace ergon::redis {

/// What an error's text means, by its first word: `store_full` (OOM), `store_read_only` (READONLY, MISCONF), `not_permitted` (NOAUTH, WRONGPASS,
/// NOPERM), `unavailable` (LOADING, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, BUSY), `rejected` for all others.
[[nodiscard]] ERGON_EXPORT errc meaning_of(std::string_view server_text) noexcept;

/// Its text is the server's, behind what was asked.
class ERGON_EXPORT server_error : public error {
 public:
  /// `asked` names the command for people: `XADD jobs`.
  server_error(std::string_view asked, std::string_view server_text);
  ~server_error() override;

  /// The first word of the server's text: `NOSCRIPT`.
  [[nodiscard]] std::string_view word() const noexcept { return word_; }

 private:
  std::string word_;
};

/// The first word of an error reply; empty for every other.
[[nodiscard]] ERGON_EXPORT std::string_view error_word(value of) noexcept;
/// Throws `server_error` if the reply is an error.
ERGON_EXPORT void raise(value of, std::string_view asked);

}  // namespace ergon::redis
