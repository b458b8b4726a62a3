// Any bytes, cut in different ways, are the same replies or the same error. The first byte of the input says how to cut the rest.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/redis/reply_parser.hpp>

namespace {

using ergon::redis::reply;
using ergon::redis::reply_parser;

struct reading {
  std::vector<reply> replies;
  // What was begun and has not ended.
  std::uint64_t taken = 0;
  std::string error;
};

void require(bool holds) {
  if (!holds) std::abort();
}

// Small, so that the fuzzer meets them.
constexpr ergon::redis::reply_limits limits{
    .depth = 5, .text = 600, .elements = 200, .line = 100, .total = 1500, .attribute_elements = 20, .attribute_bytes = 200};

// Pieces of `first` bytes, then each a bit longer, up to 17 and from one on again.
reading read(std::string_view bytes, std::size_t first) {
  reading out;
  reply_parser parser{limits};
  reply now;
  std::size_t piece = first;
  try {
    while (!bytes.empty()) {
      std::size_t const given = std::min(piece, bytes.size());
      std::size_t const taken = parser.feed(std::span{bytes.data(), given}, now);
      require(taken > 0 && taken <= given && (parser.whole() || taken == given));
      bytes.remove_prefix(taken);
      if (parser.whole()) {
        static_cast<void>(now.root().describe());
        out.replies.push_back(now);
        now.clear();
      }
      piece = piece >= 17 ? 1 : piece + 1;
      if (first > 17) piece = first;
    }
    out.taken = parser.offset();
  } catch (const ergon::error& caught) {
    require(caught.reason() == ergon::errc::bad_reply);
    out.error = caught.what();
    require(parser.broken());
  }
  return out;
}

// Reads every value in every way: none may crash, and none may throw anything but `ergon::error`.
void touch(const ergon::redis::value& one) {
  require(one.describe().size() <= 100);
  auto const tried = [](auto&& access) {
    try {
      static_cast<void>(access());
    } catch (const ergon::error& caught) {
      require(caught.reason() == ergon::errc::bad_reply);
    }
  };
  tried([&] { return one.integer(); });
  tried([&] { return one.real(); });
  tried([&] { return one.boolean(); });
  tried([&] { return one.text(); });
  tried([&] { return one.format(); });
  tried([&] { return one.find("k").has_value(); });
  if (!one.is_aggregate()) return;
  std::size_t count = 0;
  for (const auto& child : one) {
    touch(child);
    ++count;
  }
  require(count == one.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view const bytes{reinterpret_cast<const char*>(data) + 1, size - 1};
  reading const whole = read(bytes, bytes.size() + 18);
  reading const cut = read(bytes, data[0] % 18U + 1U);
  require(whole.error == cut.error && whole.taken == cut.taken && whole.replies == cut.replies);
  for (const auto& one : whole.replies) touch(one.root());
  return 0;
}
