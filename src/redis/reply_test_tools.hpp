// For the tests of the codec: bytes → replies in one line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/redis/reply_parser.hpp>

namespace ergon::redis::testing {

/// What bytes come to when they are fed in pieces.
struct reading {
  std::vector<reply> replies;
  std::string error;
  bool midway = false;
};

/// `piece(n)` says how many bytes the n-th call of `feed` is given; at least one.
template <class Piece>
reading read_in_pieces(std::string_view bytes, const reply_limits& limits, Piece piece) {
  reading out;
  reply_parser parser{limits};
  reply now;
  try {
    for (std::size_t n = 0; !bytes.empty(); ++n) {
      std::size_t const given = std::min<std::size_t>(piece(n), bytes.size());
      bytes.remove_prefix(parser.feed(std::span{bytes.data(), given}, now));
      if (parser.whole()) {
        out.replies.push_back(now);
        now.clear();
      }
    }
    out.midway = parser.midway();
  } catch (const error& caught) {
    out.error = caught.reason() == errc::bad_reply ? caught.what() : std::string{"not bad_reply: "} + caught.what();
  }
  return out;
}

inline reading read_all(std::string_view bytes, const reply_limits& limits = {}) {
  return read_in_pieces(bytes, limits, [&](std::size_t) { return bytes.size(); });
}

/// The one reply that `bytes` are.
inline reply parsed(std::string_view bytes) {
  reply_parser parser;
  reply out;
  std::size_t const taken = parser.feed(std::span{bytes.data(), bytes.size()}, out);
  if (taken != bytes.size() || !parser.whole()) throw error{errc::invalid_argument, "the bytes are not one reply"};
  return out;
}

}  // namespace ergon::redis::testing
