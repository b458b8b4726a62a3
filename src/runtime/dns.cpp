// The threads that resolve names. They exist while there are names to resolve; a request belongs to its thread, which leaves the answer in
// a `oneshot` that nobody may be waiting for any more.
#include <ergon/runtime/dns.hpp>

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/oneshot.hpp>

#include "runtime/address.hpp"
#include "runtime/spared_thread.hpp"

namespace ergon {

namespace {

using answer = std::expected<std::vector<endpoint>, std::string>;

struct request {
  std::string host;
  std::uint16_t port = 0;
  oneshot_sender<answer> to;
};

answer look_up(const std::string& host, std::uint16_t port) {
  ::addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_ADDRCONFIG;
  ::addrinfo* found = nullptr;
  int result = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (result == EAI_NONAME || result == EAI_ADDRFAMILY) {
    // A machine with no address but its loopback has no configured family.
    wanted.ai_flags = 0;
    result = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  }
  if (result != 0) {
    return std::unexpected(result == EAI_SYSTEM ? std::generic_category().message(errno) : std::string{::gai_strerror(result)});
  }
  std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)> const owned{found, &::freeaddrinfo};
  std::vector<endpoint> all;
  for (const ::addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (auto one = detail::to_endpoint(at->ai_addr)) {
      one->port = port;
      if (std::find(all.begin(), all.end(), *one) == all.end()) {
        all.push_back(*one);
      }
    }
  }
  if (all.empty()) {
    return std::unexpected("it has no address");
  }
  return all;
}

class resolver {
 public:
  static resolver& instance() {
    // Never destroyed: a thread of it may be in a look-up when the process ends.
    static resolver* const only = new resolver;
    return *only;
  }

  void add(request wanted) {
    std::lock_guard const guard(mutex_);
    requests_.push_back(std::move(wanted));
    if (threads_ == most_threads) {
      return;
    }
    try {
      detail::start_spared_thread([this] { serve(); });
      ++threads_;
    } catch (const std::system_error&) {
      if (threads_ == 0) {
        requests_.pop_back();
        throw;
      }
    }
  }

 private:
  static constexpr unsigned most_threads = 8;

  void serve() {
    for (;;) {
      std::unique_lock guard(mutex_);
      if (requests_.empty()) {
        --threads_;
        return;
      }
      request next = std::move(requests_.front());
      requests_.pop_front();
      guard.unlock();
      if (next.to.closed()) {
        continue;
      }
      answer found = std::unexpected(std::string{"memory ran out"});
      try {
        found = look_up(next.host, next.port);
      } catch (const std::bad_alloc&) {
      }
      next.to.send(std::move(found));
    }
  }

  std::mutex mutex_;
  std::deque<request> requests_;
  unsigned threads_ = 0;
};

}  // namespace

task<std::vector<endpoint>> resolve(std::string host, std::uint16_t port) {
  if (host.empty() || host.find('\0') != std::string::npos) {
    throw error(errc::invalid_argument, "a host name must not be empty and hold no zero byte");
  }
  if (auto const address = ip_address::parse(host)) {
    co_return std::vector<endpoint>{{*address, port}};
  }
  auto [sender, receiver] = make_oneshot<answer>();
  resolver::instance().add({host, port, std::move(sender)});
  answer found = co_await receiver.receive();
  if (!found) {
    throw error(errc::unavailable, "the host \"" + host + "\" cannot be resolved: " + found.error());
  }
  co_return std::move(*found);
}

}  // namespace ergon
