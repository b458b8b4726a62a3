// See tcp.hpp.
#include <ergon/runtime/tcp.hpp>

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/runtime/dns.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/spin_lock.hpp>
#include <ergon/runtime/task_group.hpp>

#include "runtime/address.hpp"
#include "runtime/named_timeout.hpp"
#include "runtime/owned_descriptor.hpp"
#include "runtime/socket.hpp"

namespace ergon {

namespace {

void set_options(int descriptor, const tcp_options& options) noexcept {
  auto const set = [descriptor](int level, int name, int value) { ::setsockopt(descriptor, level, name, &value, sizeof value); };
  if (options.no_delay) {
    set(IPPROTO_TCP, TCP_NODELAY, 1);
  }
  if (options.keep_alive > std::chrono::seconds::zero()) {
    int const seconds = static_cast<int>(std::min<std::int64_t>(options.keep_alive.count(), 32767));
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 3, 1));
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  }
}

detail::socket& socket_of(detail::stream_state& state) noexcept { return static_cast<detail::socket&>(state); }

using name_call = int(int, ::sockaddr*, ::socklen_t*);

endpoint endpoint_of(detail::stream_state& state, name_call* ask) {
  detail::system_address address;
  address.size = sizeof address.bytes;
  int failed = 0;
  bool const open = socket_of(state).with_descriptor(
      [&](int descriptor) { failed = ask(descriptor, address.get(), &address.size) == 0 ? 0 : errno; });
  if (!open) {
    throw error(errc::closed, state.name() + " has no address any more: it was closed on this side");
  }
  if (failed != 0) {
    throw error(errc::connection_lost, state.name() + " has no address any more: " + detail::system_text(failed));
  }
  return detail::to_endpoint(address.get()).value_or(endpoint{});
}

}  // namespace

endpoint tcp_stream::local_endpoint() const { return endpoint_of(state(), &::getsockname); }
endpoint tcp_stream::remote_endpoint() const { return endpoint_of(state(), &::getpeername); }

task<tcp_stream> tcp_stream::connect_one(endpoint to, tcp_options options, std::string name) {
  if (to.port == 0) {
    throw error(errc::invalid_argument, "connecting to " + name + ": port 0 is no port to connect to");
  }
  detail::owned_descriptor made{::socket(to.address.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (made.get() < 0) {
    detail::refuse("connecting to " + name + " failed", errno);
  }
  set_options(made.get(), options);
  detail::system_address const address{to};
  int failed = 0;
  if (::connect(made.get(), address.get(), address.size) != 0 && errno != EINTR) {
    failed = errno;
  }
  if (failed != 0 && failed != EINPROGRESS) {
    detail::refuse("connecting to " + name + " failed", failed);
  }
  tcp_stream stream{detail::stream_ref{new detail::socket(made.get(), true, "tcp " + name)}};
  made.release();
  co_await detail::write_operation{stream.state(), detail::stream_action::connect, {}};
  co_return stream;
}

namespace {

/// The attempts at the addresses of one host.
struct attempts {
  std::vector<endpoint> addresses;
  std::deque<event> failed;
  detail::spin_lock lock;
  std::optional<tcp_stream> connected;
  std::string answers;
  std::size_t left = 0;
};

// The families in turn, beginning with the first one's; the order within each stays.
std::vector<endpoint> in_turn(const std::vector<endpoint>& all) {
  std::vector<endpoint> sorted;
  std::vector<endpoint> others;
  std::vector<endpoint> firsts;
  for (const endpoint& each : all) {
    (each.address.is_v6() == all.front().address.is_v6() ? firsts : others).push_back(each);
  }
  for (std::size_t i = 0; i < std::max(firsts.size(), others.size()); ++i) {
    if (i < firsts.size()) {
      sorted.push_back(firsts[i]);
    }
    if (i < others.size()) {
      sorted.push_back(others[i]);
    }
  }
  return sorted;
}

task<void> until(event& happens) { co_await happens.wait(); }

}  // namespace

// `host` stands in messages, beside the address; empty where there is none.
task<tcp_stream> tcp_stream::connect_first(std::vector<endpoint> to, std::string host, tcp_connect_options options) {
  if (to.empty()) {
    throw error(errc::invalid_argument, "connecting to the first of no addresses: there must be at least one");
  }
  auto const named = [&](const endpoint& each) {
    return host.empty() ? each.text() : host + ':' + std::to_string(each.port) + " (" + each.text() + ')';
  };
  if (to.size() == 1) {
    co_return co_await connect_one(to.front(), options.stream, named(to.front()));
  }
  attempts all;
  all.addresses = std::move(to);
  all.failed.resize(all.addresses.size());
  all.left = all.addresses.size();
  event over;
  co_await with_group([&](task_group& group) -> task<void> {
    auto const attempt = [](attempts& in, event& done, std::size_t index, tcp_connect_options how,
                            std::string name) -> task<void> {
      if (index != 0) {
        // Its turn comes with the failure of the one before, or with time.
        static_cast<void>(co_await as_result(timeout(how.next_address_after, until(in.failed[index - 1]))));
      }
      std::string answer;
      try {
        tcp_stream stream = co_await connect_one(in.addresses[index], how.stream, std::move(name));
        std::lock_guard const guard(in.lock);
        if (!in.connected) {
          in.connected.emplace(std::move(stream));
        }
      } catch (const error& e) {
        answer = e.what();
      }
      bool last = false;
      {
        std::lock_guard const guard(in.lock);
        if (!answer.empty()) {
          in.answers += (in.answers.empty() ? "" : "; ") + answer;
        }
        last = --in.left == 0 || answer.empty();
      }
      in.failed[index].set();
      if (last) {
        done.set();
      }
    };
    for (std::size_t i = 0; i < all.addresses.size(); ++i) {
      group.spawn(attempt(all, over, i, options, named(all.addresses[i])), "connect");
    }
    co_await over.wait();
    group.cancel();
  });
  if (!all.connected) {
    throw error(errc::unavailable, all.answers);
  }
  co_return std::move(*all.connected);
}

task<tcp_stream> tcp_stream::connect_host(std::string host, std::uint16_t port, tcp_connect_options options) {
  if (port == 0) {
    throw error(errc::invalid_argument, "connecting to " + host + ":0: port 0 is no port to connect to");
  }
  auto found = in_turn(co_await resolve(host, port));
  bool const is_address = ip_address::parse(host).has_value();
  co_return co_await connect_first(std::move(found), is_address ? std::string{} : std::move(host), options);
}

task<tcp_stream> tcp_stream::connect(std::string host, std::uint16_t port, tcp_connect_options options) {
  std::string what = "connecting to " + host + ':' + std::to_string(port);
  return detail::named_timeout(options.timeout, std::move(what), connect_host(std::move(host), port, options));
}

task<tcp_stream> tcp_stream::connect_any(std::vector<endpoint> to, tcp_connect_options options) {
  std::string what = "connecting to the first of " + std::to_string(to.size()) + " addresses";
  return detail::named_timeout(options.timeout, std::move(what), connect_first(std::move(to), {}, options));
}

task<tcp_stream> tcp_stream::connect(endpoint to, tcp_connect_options options) {
  return connect(to.address.text(), to.port, options);
}

tcp_listener tcp_listener::bind(tcp_listen_options options) {
  endpoint const at{options.address, options.port};
  std::string const what = "listening at " + at.text() + " failed";
  detail::owned_descriptor made{::socket(at.address.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (made.get() < 0) {
    detail::refuse(what, errno);
  }
  // A port whose last connections are still fading out may be taken at once; one that somebody listens at may not.
  int const yes = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  detail::system_address const address{at};
  if (::bind(made.get(), address.get(), address.size) != 0 || ::listen(made.get(), options.backlog) != 0) {
    detail::refuse(what, errno);
  }
  auto* const socket = new detail::socket(made.get(), false, "tcp " + at.text());
  made.release();
  detail::stream_ref state{socket};
  socket->set_name("tcp " + endpoint_of(*socket, &::getsockname).text());
  return {std::move(state), options.stream};
}

endpoint tcp_listener::local_endpoint() const { return endpoint_of(*state_, &::getsockname); }

tcp_stream tcp_listener::accept_operation::await_resume() {
  detail::owned_descriptor taken{take()};
  set_options(taken.get(), options_);
  detail::system_address address;
  address.size = sizeof address.bytes;
  std::string name = "tcp, a peer that is gone";
  if (::getpeername(taken.get(), address.get(), &address.size) == 0) {
    name = "tcp " + detail::to_endpoint(address.get()).value_or(endpoint{}).text();
  }
  detail::stream_ref state{new detail::socket(taken.get(), true, std::move(name))};
  taken.release();
  return tcp_stream{std::move(state)};
}

}  // namespace ergon
