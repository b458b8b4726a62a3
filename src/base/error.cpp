// The error category of ergon and its one-line messages. Stateless; any thread.
#include <ergon/base/error.hpp>

#include <utility>

namespace ergon {
namespace {

class ergon_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "ergon"; }
  [[nodiscard]] std::string message(int value) const override { return text(static_cast<errc>(value)); }

 private:
  static const char* text(errc code) noexcept {
    switch (code) {
      case errc::invalid_argument:
        return "a value is out of its documented range";
      case errc::bad_url:
        return "the broker URL cannot be understood";
      case errc::unknown_scheme:
        return "this build knows no broker of that scheme";
      case errc::bad_payload:
        return "the payload does not fit its type";
      case errc::too_large:
        return "larger than the broker's limit";
      case errc::not_found:
        return "nothing has that name";
      case errc::wrong_state:
        return "the job's state does not allow it";
      case errc::lease_lost:
        return "the job belongs to another worker by now";
      case errc::no_result:
        return "the job keeps no result";
      case errc::job_failed:
        return "the job ended without success";
      case errc::duplicate_kind:
        return "the kind is taken already";
      case errc::store_full:
        return "the store is full";
      case errc::store_read_only:
        return "the store is read-only";
      case errc::store_corrupt:
        return "the store is damaged";
      case errc::not_a_store:
        return "the file is not an ergon store";
      case errc::newer_format:
        return "a newer release wrote the store";
      case errc::bad_file_system:
        return "the locks of this file system cannot be trusted";
      case errc::unavailable:
        return "the store or the server cannot be reached";
      case errc::busy:
        return "the store stayed locked by another holder";
      case errc::unknown_outcome:
        return "the operation may or may not have happened";
      case errc::closed:
        return "closed before the operation";
      case errc::cancelled:
        return "cancelled";
      case errc::timed_out:
        return "the time given for it ran out";
      case errc::not_supported:
        return "this broker or runtime cannot do that";
      case errc::deadlock:
        return "every task waits for what none of them will do";
      case errc::connection_lost:
        return "the other side ended the connection";
      case errc::not_trusted:
        return "the other side could not prove who it is";
      case errc::not_permitted:
        return "the server does not permit that to this user";
      case errc::rejected:
        return "the server answered with an error";
      case errc::bad_reply:
        return "the server's reply is not valid, or not what the command has";
    }
    return "unknown ergon error";
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const ergon_category category;
  return category;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

error::error(errc code, std::string text) : std::system_error(make_error_code(code)), text_(std::move(text)) {}
error::~error() = default;

}  // namespace ergon
