// What the tests of connections share: a client on a runtime of its own, and one-line questions.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/base/log.hpp>
#include <ergon/redis/client.hpp>
#include <ergon/redis/error.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task.hpp>

namespace ergon::test {

using namespace std::chrono_literals;

/// Asks one thing; gives the answer as text, an integer in digits, null as "null". Throws what the call throws, and `server_error`.
inline task<std::string> ask(redis::client& of, std::vector<std::string> words) {
  redis::commands asked;
  asked.begin(words.size());
  for (const std::string& word : words) asked.arg(word);
  redis::reply answer;
  co_await of.run(asked, answer);
  redis::raise(answer.root(), words.front());
  if (answer.root().type() == redis::reply_type::integer) co_return std::to_string(answer.root().integer());
  co_return answer.root().is_null() ? "null" : std::string{answer.root().text()};
}

/// Options with which a test sees the end of an outage soon.
inline redis::connection_options quick(std::string_view url) {
  auto options = redis::read_options(url);
  options.response_timeout = 300ms;
  options.patience = 10s;
  options.reconnect = {.base = 1ms, .factor = 2.0, .cap = 20ms};
  return options;
}

/// A client with its log.
struct scene {
  explicit scene(redis::connection_options options, unsigned threads = 2)
      : rt{{.threads = threads}}, redis{rt, std::move(options), logger{log, log_level::debug}} {}

  std::string ask(std::vector<std::string> words) { return rt.block_on(test::ask(redis, std::move(words))); }
  /// What it throws.
  std::error_code failure_of(std::vector<std::string> words, std::string* text = nullptr) {
    try {
      static_cast<void>(ask(std::move(words)));
    } catch (const error& e) {
      if (text != nullptr) *text = e.what();
      return e.code();
    }
    return {};
  }

  std::shared_ptr<memory_sink> log = std::make_shared<memory_sink>();
  runtime rt;
  redis::client redis;
};

}  // namespace ergon::test
