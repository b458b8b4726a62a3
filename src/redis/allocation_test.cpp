// What is warm allocates nothing. The whole test program counts its allocations here; sanitizers bring their own `operator new`.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <ergon/redis/command.hpp>
#include <ergon/redis/reply.hpp>
#include <ergon/redis/reply_parser.hpp>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ERGON_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ERGON_SANITIZED
#endif

#if !defined(ERGON_SANITIZED)
namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ergon::redis {
namespace {

TEST(AllocationTest, AWarmReplyAndParserAllocateNothing) {
  std::string bytes = "*1\r\n*2\r\n$1\r\ns\r\n*64\r\n";
  for (int i = 0; i < 64; ++i) {
    bytes += "*2\r\n$15\r\n1526984818136-0\r\n*2\r\n$1\r\nd\r\n$160\r\n" + std::string(160, 'x') + "\r\n";
  }
  bytes += "|1\r\n+ttl\r\n:1\r\n%2\r\n+a line of some length\r\n,1.5\r\n=7\r\ntxt:abc\r\n#t\r\n";
  reply_parser parser;
  reply now;
  std::size_t sum = 0;
  // Cuts differ from round to round, so that lines are cut as well.
  auto const round = [&](std::size_t piece) {
    std::span<const char> left{bytes};
    while (!left.empty()) {
      left = left.subspan(parser.feed(left.first(std::min(piece, left.size())), now));
      if (parser.whole()) {
        sum += now.root().size();
        now.clear();
      }
    }
  };
  for (std::size_t piece = 1; piece < 60; ++piece) round(piece);
  std::size_t const before = allocations.load();
  for (std::size_t piece = 1; piece < 60; ++piece) round(piece);
  round(bytes.size());
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(sum, 119U * 5U);
}

TEST(AllocationTest, WarmCommandsAllocateNothing) {
  commands all;
  std::string const key = "jobs:{a}:ready";
  std::string const body(160, 'x');
  auto const round = [&] {
    for (int i = 0; i < 64; ++i) all.add("XADD", key, "*", "d", body, "n", i);
    all.begin(3);
    all.arg("DEL");
    all.arg(key);
    all.arg(7);
    std::size_t const size = all.bytes().size();
    all.clear();
    return size;
  };
  std::size_t const size = round();
  std::size_t const before = allocations.load();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(round(), size);
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace ergon::redis
#endif
