#include "servers/fault_proxy.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace ergon::test {

fault_proxy::fault_proxy(std::uint16_t upstream_port)
    : upstream_(upstream_port), thread_([this](std::vector<pollfd>& watched) { watch(watched); }, [this] { turn(); }) {}

std::string fault_proxy::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }

void fault_proxy::cut_after(direction way, std::uint64_t bytes, connections which) {
  change(way, which, [&](faults& f) { f.allowance = bytes; });
}

void fault_proxy::reset_all() {
  apply([&] {
    for (connection& c : open_) {
      reset(c.client);
      reset(c.server);
    }
  });
}

void fault_proxy::hang_up_all() {
  apply([&] {
    for (connection& c : open_) {
      hang_up(c.client);
      hang_up(c.server);
    }
  });
}

void fault_proxy::freeze(connections which) {
  apply([&] {
    if (which != connections::present) future_frozen_ = true;
    if (which == connections::future) return;
    for (connection& c : open_) c.frozen = true;
  });
}

void fault_proxy::thaw() {
  apply([&] {
    future_frozen_ = false;
    for (connection& c : open_) c.frozen = false;
  });
}

void fault_proxy::dribble(direction way, bool on, connections which) {
  change(way, which, [&](faults& f) { f.dribbles = on; });
}

void fault_proxy::inject(direction way, std::string bytes, connections which) {
  change(way, which, [&](faults& f) { f.injection += bytes; });
}

void fault_proxy::refuse(bool on) {
  apply([&] { refusing_ = on; });
}

void fault_proxy::heal() {
  apply([&] {
    refusing_ = future_frozen_ = false;
    future_to_server_ = future_to_client_ = {};
    for (connection& c : open_) {
      c.frozen = false;
      c.to_server.now = c.to_client.now = {};
    }
  });
}

// Asked between two turns: a client may see a byte before the turn that wrote it has ended.
fault_proxy::counters fault_proxy::counts() {
  counters now;
  apply([&] { now = counting_; });
  return now;
}

bool fault_proxy::wait_until(const std::function<bool(const counters&)>& holds, std::chrono::milliseconds patience) {
  // What is published may be older than what the caller has seen.
  apply([] {});
  std::unique_lock guard(lock_);
  return changed_.wait_for(guard, patience, [&] { return holds(published_); });
}

// Connections that wait to be accepted are present ones: who has connected before the call must not be taken for a future one.
void fault_proxy::apply(const std::function<void()>& f) {
  thread_.run([&] {
    accept_all();
    f();
    publish();
  });
}

void fault_proxy::change(direction way, connections which, const std::function<void(faults&)>& f) {
  apply([&] {
    if (which != connections::present) f(of_future(way));
    if (which == connections::future) return;
    for (connection& c : open_) f(c.of(way).now);
  });
}

void fault_proxy::watch(std::vector<pollfd>& watched) const {
  watched.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
  auto const add = [&](const descriptor& what, short events) {
    watched.push_back({.fd = what.get(), .events = events, .revents = 0});
  };
  for (const connection& c : open_) {
    if (c.frozen) continue;
    if (!c.connected) {
      add(c.server, POLLOUT);
      continue;
    }
    if (c.to_server.pending()) {
      add(c.server, POLLOUT);
    } else if (!c.to_server.from_ended) {
      add(c.client, POLLIN);
    }
    if (c.to_client.pending()) {
      add(c.client, POLLOUT);
    } else if (!c.to_client.from_ended) {
      add(c.server, POLLIN);
    }
  }
}

void fault_proxy::turn() {
  accept_all();
  for (connection& c : open_) {
    if (!c.frozen) advance(c);
  }
  publish();
}

void fault_proxy::accept_all() {
  while (descriptor client = listener_.accept()) {
    if (refusing_) {
      ++counting_.refused;
      hang_up(client);
      continue;
    }
    ++counting_.connections;
    connection& c = open_.emplace_back();
    c.client = std::move(client);
    c.server = begin_connect(upstream_);
    c.frozen = future_frozen_;
    c.to_server.now = future_to_server_;
    c.to_client.now = future_to_client_;
    if (!c.server) hang_up(c.client);
  }
}

void fault_proxy::advance(connection& c) {
  if (!c.client || !has_connected(c)) return;
  move(c, direction::to_server);
  if (c.client) move(c, direction::to_client);
  if (c.to_server.end_passed_on && c.to_client.end_passed_on) {
    c.client.close();
    c.server.close();
  }
}

bool fault_proxy::has_connected(connection& c) {
  if (c.connected) return true;
  pollfd one{.fd = c.server.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&one, 1, 0) <= 0) return false;
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(c.server.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) {
    hang_up(c.client);
    c.server.close();
    return false;
  }
  return c.connected = true;
}

void fault_proxy::move(connection& c, direction way) {
  flow& f = c.of(way);
  descriptor& from = way == direction::to_server ? c.client : c.server;
  descriptor& to = way == direction::to_server ? c.server : c.client;
  // Bounded, so that one connection's flood does not stop the others.
  for (int i = 0; i < 16; ++i) {
    if (f.pending()) {
      if (!write_pending(c, way)) return;
      continue;
    }
    if (f.from_ended) {
      if (!std::exchange(f.end_passed_on, true)) ::shutdown(to.get(), SHUT_WR);
      return;
    }
    f.buffer.resize(16'384);
    f.written = 0;
    transfer const came = read_now(from.get(), f.buffer.data(), f.buffer.size());
    f.buffer.resize(came.bytes);
    switch (came.what) {
      case transfer::state::moved:
        break;
      case transfer::state::would_block:
        return;
      case transfer::state::ended:
        f.from_ended = true;
        break;
      case transfer::state::failed:
        reset(c.client);
        reset(c.server);
        return;
    }
  }
}

bool fault_proxy::write_pending(connection& c, direction way) {
  flow& f = c.of(way);
  if (f.written == f.buffer.size()) {
    f.buffer = std::exchange(f.now.injection, {});
    f.written = 0;
  }
  auto const cut_if_used_up = [&] {
    if (f.now.allowance != 0U) return false;
    hang_up(c.client);
    hang_up(c.server);
    return true;
  };
  if (cut_if_used_up()) return false;
  std::size_t size = f.buffer.size() - f.written;
  if (f.now.dribbles) size = 1;
  if (f.now.allowance) size = std::min<std::uint64_t>(size, *f.now.allowance);
  descriptor& to = way == direction::to_server ? c.server : c.client;
  transfer const sent = write_now(to.get(), f.buffer.data() + f.written, size);
  if (sent.what == transfer::state::failed) {
    reset(c.client);
    reset(c.server);
    return false;
  }
  f.written += sent.bytes;
  (way == direction::to_server ? counting_.to_server : counting_.to_client) += sent.bytes;
  if (f.now.allowance) *f.now.allowance -= sent.bytes;
  return sent.what == transfer::state::moved && !cut_if_used_up() && !f.now.dribbles;
}

void fault_proxy::publish() {
  std::erase_if(open_, [](const connection& c) { return !c.client; });
  counting_.open = open_.size();
  std::lock_guard const guard(lock_);
  published_ = counting_;
  changed_.notify_all();
}

}  // namespace ergon::test
