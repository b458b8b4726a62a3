// Writing commands. Not thread-safe.
#include <ergon/redis/command.hpp>

#include <cstring>

#include <ergon/base/error.hpp>

#include "redis/buffer.hpp"

namespace ergon::redis {
namespace {

// A type's sign, a length and the end of the line.
constexpr std::size_t longest_head = 1 + 20 + 2;

char* write_end_of_line(char* at) noexcept {
  at[0] = '\r';
  at[1] = '\n';
  return at + 2;
}

char* write_head(char* at, char sign, std::size_t length) noexcept {
  *at++ = sign;
  return write_end_of_line(std::to_chars(at, at + 20, length).ptr);
}

}  // namespace

void commands::check_finished() const {
  if (lacking_ == 0) return;
  throw error{errc::invalid_argument, "a command was begun with " + std::to_string(wanted_) + " arguments and got " +
                                          std::to_string(wanted_ - lacking_) + ": call arg() once for each, the name included"};
}

void commands::begin(std::size_t arguments) {
  check_finished();
  if (arguments == 0) throw error{errc::invalid_argument, "a command of 0 arguments: it has at least its name"};
  std::size_t const before = bytes_.size();
  bytes_.resize_and_overwrite(before + longest_head, [&](char* data, std::size_t) noexcept {
    return static_cast<std::size_t>(write_head(data + before, '*', arguments) - data);
  });
  ++count_;
  wanted_ = arguments;
  lacking_ = arguments;
}

void commands::arg(std::string_view bytes) {
  if (lacking_ == 0) {
    throw error{errc::invalid_argument, "an argument too many: the command was begun with " + std::to_string(wanted_)};
  }
  std::size_t const before = bytes_.size();
  bytes_.resize_and_overwrite(before + longest_head + bytes.size() + 2, [&](char* data, std::size_t) noexcept {
    char* at = write_head(data + before, '$', bytes.size());
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    return static_cast<std::size_t>(write_end_of_line(at + bytes.size()) - data);
  });
  --lacking_;
}

std::string_view commands::bytes() const {
  check_finished();
  return bytes_;
}

void commands::clear(std::size_t keep_bytes) noexcept {
  empty_for_reuse(bytes_, keep_bytes);
  count_ = 0;
  wanted_ = 0;
  lacking_ = 0;
}

}  // namespace ergon::redis
