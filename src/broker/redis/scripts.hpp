// The scripts of scripts/*.lua, as cmake/ErgonScripts.cmake puts them into the library: each is one transition, which the server carries out in
// one step. What a script takes and returns stands at its head.
#pragma once

#include <span>
#include <string_view>

namespace ergon::redis_store {

struct script {
  std::string_view name;
  /// What EVALSHA calls it by.
  std::string_view sha1;
  std::string_view text;
};

namespace scripts {

extern const script beat;
extern const script cancel;
extern const script counts;
extern const script enqueue;
extern const script finish;
extern const script held;
extern const script list;
extern const script look;
extern const script mark;
extern const script note;
extern const script open_queue;
extern const script promote;
extern const script register_queue;
extern const script remove;
extern const script retry;
extern const script run;
extern const script settle;
extern const script sweep;
extern const script take_over;
extern const script trim;

/// All of them.
extern const std::span<const script* const> all;

}  // namespace scripts

}  // namespace ergon::redis_store
