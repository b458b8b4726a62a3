#include "servers/fake_server.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <ergon/base/error.hpp>

namespace ergon::test {
namespace {

std::string describe(const step& s) {
  switch (s.what) {
    case step::kind::expect:
      return "expect " + s.text;
    case step::kind::send:
      return "send " + printable(s.text);
    case step::kind::hang_up:
      return "hang up";
    case step::kind::reset:
      return "reset";
    case step::kind::hold:
      return "hold";
    case step::kind::expect_end:
      return "expect the end";
  }
  return "?";
}

}  // namespace

namespace steps {
step expect(command_words command) {
  std::string text = to_text(command);
  return {.what = step::kind::expect,
          .text = std::move(text),
          .accepts = [command = std::move(command)](const command_words& came) { return came == command; }};
}
step expect(std::string what, std::function<bool(const command_words&)> accepts) {
  return {.what = step::kind::expect, .text = std::move(what), .accepts = std::move(accepts)};
}
step expect_any() {
  return expect("any command", [](const command_words&) { return true; });
}
step send(std::string bytes) { return {.what = step::kind::send, .text = std::move(bytes)}; }
step send_in_pieces(std::string bytes, std::size_t size) {
  return {.what = step::kind::send, .text = std::move(bytes), .piece = size};
}
step hang_up() { return {.what = step::kind::hang_up}; }
step reset() { return {.what = step::kind::reset}; }
step hold() { return {.what = step::kind::hold}; }
step expect_end() { return {.what = step::kind::expect_end}; }
}  // namespace steps

fake_server::fake_server(std::vector<script> scripts, fake_server_options options)
    : options_(std::move(options)),
      scripts_(std::move(scripts)),
      settled_(scripts_.empty()),
      thread_([this](std::vector<pollfd>& watched) { watch(watched); }, [this] { turn(); }) {}

fake_server::~fake_server() {
  if (finished_) return;
  for (const std::string& problem : finish()) options_.on_problem(problem);
}

std::string fake_server::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }

void fake_server::serve(script next) {
  thread_.run([&] {
    // A script that others took stands in the list already: numbers of connections and scripts go together.
    scripts_.resize(std::max(scripts_.size(), connections()));
    scripts_.push_back(std::move(next));
    publish();
  });
}

void fake_server::release() {
  thread_.run([&] { ++permits_; });
}

void fake_server::release(std::size_t connection) {
  thread_.run([&] { ++permits_of_[connection]; });
}

std::vector<fake_server::seen> fake_server::commands() const {
  std::lock_guard const guard(lock_);
  return seen_;
}

std::size_t fake_server::connections() const {
  std::lock_guard const guard(lock_);
  return accepted_;
}

template <class Condition>
bool fake_server::wait_until(Condition holds) {
  std::unique_lock guard(lock_);
  return changed_.wait_for(guard, options_.patience, holds);
}

bool fake_server::wait_for_connections(std::size_t count) {
  return wait_until([&] { return accepted_ >= count; });
}

bool fake_server::wait_for_commands(std::size_t count) {
  return wait_until([&] { return seen_.size() >= count; });
}

bool fake_server::wait_for_holds(std::size_t count) {
  return wait_until([&] { return holds_ >= count; });
}

bool fake_server::wait_until_followed() {
  return wait_until([&] { return settled_; });
}

std::vector<std::string> fake_server::finish() {
  if (!finished_) {
    wait_until([&] { return settled_ || !problems_.empty(); });
    thread_.run([&] {
      // What has come meanwhile counts.
      turn();
      end_all();
    });
    thread_.stop();
    finished_ = true;
  }
  std::lock_guard const guard(lock_);
  return problems_;
}

void fake_server::end_all() {
  for (connection& c : connections_) {
    if (!c.followed()) report(c, c.holds() ? "nobody released it" : "the script was not followed to its end");
    c.socket.close();
  }
  std::lock_guard const guard(lock_);
  for (std::size_t i = accepted_; i < scripts_.size(); ++i) {
    problems_.push_back("fake server: connection " + std::to_string(i) + ": nobody connected");
  }
}

void fake_server::watch(std::vector<pollfd>& watched) const {
  watched.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
  for (const connection& c : connections_) {
    if (!c.socket || c.holds()) continue;
    bool const writes = !c.at_end() && c.steps[c.at].what == step::kind::send;
    watched.push_back({.fd = c.socket.get(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0});
  }
}

void fake_server::turn() {
  accept_all();
  for (connection& c : connections_) advance(c);
  publish();
}

void fake_server::accept_all() {
  while (descriptor socket = listener_.accept()) {
    std::size_t const number = connections_.size();
    connection& c = connections_.emplace_back(number, std::move(socket));
    {
      std::lock_guard const guard(lock_);
      ++accepted_;
    }
    if (number < scripts_.size()) {
      c.steps = scripts_[number];
    } else if (options_.others.has_value()) {
      c.steps = *options_.others;
    } else {
      report(c, "there is no script for it");
      hang_up(c.socket);
    }
  }
}

void fake_server::advance(connection& c) {
  while (c.socket && (c.at_end() ? expect_silence(c) : do_step(c))) {
  }
}

bool fake_server::do_step(connection& c) {
  const step& now = c.steps[c.at];
  switch (now.what) {
    case step::kind::expect:
      return do_expect(c, now);
    case step::kind::send:
      return do_send(c, now);
    case step::kind::hold:
      return do_hold(c);
    case step::kind::expect_end:
      return expect_silence(c);
    case step::kind::hang_up:
      hang_up(c.socket);
      break;
    case step::kind::reset:
      reset(c.socket);
      break;
  }
  // What may stand behind it was never to be done.
  c.at = c.steps.size();
  return false;
}

bool fake_server::do_expect(connection& c, const step& wanted) {
  command_words words;
  switch (next_command(c, words)) {
    case came::nothing:
      return false;
    case came::end:
      if (!c.failed) report(c, "the client ended the connection");
      c.socket.close();
      return false;
    case came::command:
      break;
  }
  if (!wanted.accepts(words)) {
    report(c, "there came " + to_text(words));
    hang_up(c.socket);
    return false;
  }
  ++c.at;
  return true;
}

bool fake_server::do_send(connection& c, const step& wanted) {
  while (c.sent < wanted.text.size()) {
    std::size_t const left = wanted.text.size() - c.sent;
    transfer const sent =
        write_now(c.socket.get(), wanted.text.data() + c.sent, wanted.piece == 0 ? left : std::min(left, wanted.piece));
    if (sent.what == transfer::state::would_block) return false;
    if (sent.what == transfer::state::failed) {
      report(c, "the client ended the connection, after " + std::to_string(c.sent) + " bytes");
      c.socket.close();
      return false;
    }
    c.sent += sent.bytes;
  }
  c.sent = 0;
  ++c.at;
  return true;
}

bool fake_server::do_hold(connection& c) {
  if (!std::exchange(c.counted_hold, true)) {
    std::lock_guard const guard(lock_);
    ++holds_;
  }
  auto const own = permits_of_.find(c.number);
  if (own != permits_of_.end() && own->second > 0) {
    --own->second;
  } else if (permits_ > 0) {
    --permits_;
  } else {
    return false;
  }
  c.counted_hold = false;
  ++c.at;
  return true;
}

bool fake_server::expect_silence(connection& c) {
  command_words words;
  switch (next_command(c, words)) {
    case came::nothing:
      break;
    case came::end:
      c.socket.close();
      c.at = c.steps.size();
      break;
    case came::command:
      report(c, "there came " + to_text(words));
      hang_up(c.socket);
      break;
  }
  return false;
}

fake_server::came fake_server::next_command(connection& c, command_words& words) {
  std::array<char, 16'384> part;
  for (;;) {
    try {
      if (std::optional<command_words> whole = take_command(c.unread)) {
        words = *std::move(whole);
        std::lock_guard const guard(lock_);
        seen_.push_back({c.number, words});
        return came::command;
      }
    } catch (const error& malformed) {
      report(c, malformed.what());
      return came::end;
    }
    transfer const now = read_now(c.socket.get(), part.data(), part.size());
    if (now.what == transfer::state::would_block) return came::nothing;
    if (now.what != transfer::state::moved) {
      if (!c.unread.empty()) report(c, "the client ended the connection inside of a command: " + printable(c.unread));
      return came::end;
    }
    c.unread.append(part.data(), now.bytes);
  }
}

void fake_server::report(connection& c, const std::string& what) {
  c.failed = true;
  std::string const where =
      c.at_end() ? "after its script" : "step " + std::to_string(c.at) + " (" + describe(c.steps[c.at]) + ")";
  std::lock_guard const guard(lock_);
  problems_.push_back("fake server: connection " + std::to_string(c.number) + ", " + where + ": " + what);
}

void fake_server::publish() {
  bool settled = connections_.size() >= scripts_.size();
  for (const connection& c : connections_) settled = settled && (c.followed() || c.holds());
  std::lock_guard const guard(lock_);
  settled_ = settled;
  changed_.notify_all();
}

}  // namespace ergon::test
