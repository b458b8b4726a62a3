#include <ergon/redis/handshake.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/redis/error.hpp>

namespace ergon::redis {

namespace {

value said(value hello, std::string_view key) {
  if (const auto found = hello.find(key)) return *found;
  throw error{errc::bad_reply, fmt::format("the answer to HELLO says nothing of '{}': {}", key, hello.describe())};
}

}  // namespace

bool server_info::is_at_least(int major, int minor) const noexcept {
  int parts[2] = {0, 0};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& part : parts) {
    const auto [next, problem] = std::from_chars(at, end, part);
    if (problem != std::errc{}) break;
    at = next;
    if (at == end || *at != '.') break;
    ++at;
  }
  return parts[0] > major || (parts[0] == major && parts[1] >= minor);
}

handshake::handshake(const connection_options& options) : options_(&options) {
  ask(question::hello);
  ask_for_the_rest();
}

void handshake::ask(question what) {
  switch (what) {
    case question::hello:
      if (has_credentials()) {
        out_.add("HELLO", 3, "AUTH", options_->user.empty() ? "default" : options_->user, options_->password);
      } else {
        out_.add("HELLO", 3);
      }
      break;
    case question::auth:
      if (options_->user.empty()) {
        out_.add("AUTH", options_->password);
      } else {
        out_.add("AUTH", options_->user, options_->password);
      }
      break;
    case question::name:
      out_.add("CLIENT", "SETNAME", options_->client_name);
      break;
    case question::database:
      out_.add("SELECT", options_->database);
      break;
    case question::info:
      out_.add("INFO", "server");
      break;
    case question::ping:
      out_.add("PING");
      break;
    case question::client_id:
      out_.add("CLIENT", "ID");
      break;
    case question::role:
      out_.add("ROLE");
      break;
  }
  asked_[count_++] = what;
}

void handshake::ask_for_the_rest() {
  if (!options_->client_name.empty()) ask(question::name);
  if (options_->database != 0) ask(question::database);
  ask(question::info);
  ask(question::ping);
}

bool handshake::take(value answer) {
  const question what = asked_[answered_++];
  switch (what) {
    case question::hello:
      if (answer.is_error()) {
        // Redis 5 and before; a proxy in front of a newer one. HELLO came with Redis 6.
        const auto word = error_word(answer);
        if (word != "ERR" && word != "NOPROTO") raise(answer, "HELLO");
        greet_again_ = true;
      } else {
        server_.version = said(answer, "version").text();
        server_.role = said(answer, "role").text();
        server_.mode = said(answer, "mode").text();
        server_.client_id = said(answer, "id").integer();
        server_.resp = static_cast<int>(said(answer, "proto").integer());
      }
      break;
    case question::auth:
      raise(answer, "AUTH");
      break;
    case question::database:
      if (!greet_again_) raise(answer, fmt::format("SELECT {}", options_->database));
      break;
    case question::info:
      if (!answer.is_error()) read_info(answer.text());
      break;
    case question::ping:
      // Who may not ask that is answered all the same.
      if (!greet_again_ && error_word(answer) != "NOPERM") raise(answer, "PING");
      break;
    case question::client_id:
      if (!answer.is_error()) server_.client_id = answer.integer();
      break;
    case question::role:
      if (!answer.is_error() && answer.size() > 0) server_.role = answer[0].text();
      break;
    case question::name:
      // A name is for people: who may not set one works without.
      break;
  }
  if (answered_ < count_) return false;
  out_.clear();
  count_ = answered_ = 0;
  if (std::exchange(greet_again_, false)) {
    stage_ = stage::plain;
    server_.resp = 2;
    if (has_credentials()) ask(question::auth);
    ask_for_the_rest();
    ask(question::client_id);
    ask(question::role);
  } else {
    stage_ = stage::done;
  }
  return true;
}

void handshake::read_info(std::string_view text) {
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto key = line.substr(0, colon);
    const auto what = line.substr(colon + 1);
    if (key == "redis_version" && server_.version.empty()) server_.version = what;
    if (key == "run_id") server_.run_id = what;
    if (key == "redis_mode" && server_.mode.empty()) server_.mode = what;
  }
}

}  // namespace ergon::redis
