// When a failed job is tried again: the default, and a policy of one's own.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <vector>

#include <ergon/queue/queue.hpp>
#include <ergon/queue/testing.hpp>

using namespace std::chrono_literals;

struct fetch_page {
  std::string url;
};
BOOST_DESCRIBE_STRUCT(fetch_page, (), (url))

struct sync_stock {
  int warehouse = 0;
};
BOOST_DESCRIBE_STRUCT(sync_stock, (), (warehouse))

int main() {
  ergon::test_kit kit;
  const auto start = kit.clock().wall();
  std::vector<std::chrono::seconds> pages;
  std::vector<std::chrono::seconds> stock;
  const auto since = [&] { return std::chrono::round<std::chrono::seconds>(kit.clock().wall() - start); };

  // Without jitter, to have the same output each time; leave the jitter in where many jobs may fail together.
  kit.handle(
      [&](const fetch_page&) -> ergon::task<void> {
        pages.push_back(since());
        throw std::runtime_error("503");
        co_return;
      },
      {.retry = ergon::exponential_backoff({.base = 10s, .factor = 2, .cap = 1min, .jitter = false})});

  // A policy sees how often it failed, and why.
  kit.handle(
      [&](const sync_stock&, ergon::job_context& ctx) -> ergon::task<void> {
        stock.push_back(since());
        throw std::runtime_error(ctx.attempt() == 1 ? "locked" : "no such warehouse");
        co_return;
      },
      {.retry = [](std::uint32_t failures, std::string_view error) -> std::chrono::nanoseconds {
        return error == "locked" ? std::chrono::nanoseconds{1s} : std::chrono::nanoseconds{failures * 1min};
      }});

  const auto page = kit.enqueue(fetch_page{.url = "https://example.org"}, {.max_retries = 4});
  const auto sync = kit.enqueue(sync_stock{.warehouse = 7}, {.max_retries = 2});
  kit.advance(256s);

  const auto print = [](const char* what, const std::vector<std::chrono::seconds>& at) {
    std::cout << what << ":";
    for (const auto t : at) std::cout << " " << t.count() << "s";
    std::cout << "\n";
  };
  print("pages", pages);
  print("stock", stock);
  for (const ergon::failure& failure : kit.job(page).errors) std::cout << "  " << failure.error << "\n";
  return kit.state(page) == ergon::job_state::dead && kit.state(sync) == ergon::job_state::dead && pages.size() == 5 &&
                 stock.size() == 3
             ? 0
             : 1;
}
