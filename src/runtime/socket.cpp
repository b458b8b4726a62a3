// See socket.hpp.
#include "runtime/socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include <ergon/base/error.hpp>

#include "runtime/scheduler.hpp"

namespace ergon::detail {

std::string system_text(int number) { return std::generic_category().message(number); }

void refuse(const std::string& what, int number) { throw error(errc::unavailable, what + ": " + system_text(number)); }

namespace {

// So many bytes are moved before the thread's other tasks, and others who want the lock, get their turn.
constexpr std::size_t most_in_a_row = 256 * std::size_t{1024};

bool would_block(int number) noexcept { return number == EAGAIN || number == EWOULDBLOCK; }

io_step failed(stream_operation& op, int number) noexcept {
  op.failure = number;
  return io_step::ended;
}

// The error of a connect that has ended, or would block.
io_step connect_result(stream_operation& op, int descriptor) noexcept {
  ::pollfd look{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (::poll(&look, 1, 0) == 0) {
    return io_step::wants_write;
  }
  int result = 0;
  ::socklen_t size = sizeof result;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &result, &size) != 0) {
    result = errno;
  }
  return failed(op, result);
}

// Of a connection that was gone before it was taken: the next one then.
bool was_gone(int number) noexcept {
  switch (number) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

const char* what_it_does(stream_action action) noexcept {
  switch (action) {
    case stream_action::read_some:
    case stream_action::read_exact:
      return "reading from ";
    case stream_action::write_all:
      return "writing to ";
    case stream_action::shutdown_send:
      return "ending the sending to ";
    case stream_action::accept:
      return "accepting at ";
    case stream_action::connect:
      return "connecting to ";
    case stream_action::handshake:
      return "the TLS handshake with ";
  }
  return "";
}

}  // namespace

socket::~socket() { close(); }

socket::side& socket::side_of(const stream_operation& op) noexcept {
  switch (op.action) {
    case stream_action::read_some:
    case stream_action::read_exact:
    case stream_action::accept:
      return sides_[0];
    default:
      return sides_[1];
  }
}

io_step socket::perform_plain(stream_operation& op) const noexcept {
  std::size_t const start = op.done;
  for (;;) {
    switch (op.action) {
      case stream_action::read_some:
      case stream_action::read_exact: {
        if (op.done == op.size) {
          return io_step::ended;
        }
        if (op.done - start >= most_in_a_row) {
          return io_step::again;
        }
        ::ssize_t const n = ::recv(descriptor_, op.data + op.done, op.size - op.done, 0);
        if (n > 0) {
          op.done += static_cast<std::size_t>(n);
          if (op.action == stream_action::read_some) {
            return io_step::ended;
          }
          continue;
        }
        if (n == 0) {
          return op.action == stream_action::read_some ? io_step::ended : failed(op, stream_operation::ended_early);
        }
        break;
      }
      case stream_action::write_all: {
        if (op.done == op.size) {
          return io_step::ended;
        }
        if (op.done - start >= most_in_a_row) {
          return io_step::again;
        }
        std::size_t const part = std::min(op.size - op.done, most_in_a_row);
        ::ssize_t const n = ::send(descriptor_, op.data + op.done, part, MSG_NOSIGNAL);
        if (n >= 0) {
          op.done += static_cast<std::size_t>(n);
          continue;
        }
        break;
      }
      case stream_action::shutdown_send:
        return failed(op, ::shutdown(descriptor_, SHUT_WR) == 0 ? 0 : errno);
      case stream_action::accept: {
        int const taken = ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (taken >= 0) {
          op.done = static_cast<std::size_t>(taken) + 1;
          return io_step::ended;
        }
        if (was_gone(errno)) {
          continue;
        }
        break;
      }
      case stream_action::connect:
        return connect_result(op, descriptor_);
      case stream_action::handshake:
        return io_step::ended;
    }
    if (errno == EINTR) {
      continue;
    }
    if (!would_block(errno)) {
      return failed(op, errno);
    }
    bool const writes = op.action == stream_action::write_all;
    return writes ? io_step::wants_write : io_step::wants_read;
  }
}

// Under the lock.
io_step socket::step(stream_operation& op) noexcept {
  if (closed_) {
    return failed(op, stream_operation::closed);
  }
  io_step const result = filter_ != nullptr ? filter_->perform(op, descriptor_) : perform_plain(op);
  op.unfinished = result == io_step::again;
  // A read that was not filled has taken everything; only the end does not announce itself once more.
  bool const took_all =
      op.action == stream_action::read_some && filter_ == nullptr && op.done != 0 && op.done < op.size && !ended_;
  if (result == io_step::wants_read || took_all) {
    sides_[0].exhausted = true;
  } else if (result == io_step::wants_write) {
    sides_[1].exhausted = true;
  }
  return result;
}

std::unique_lock<std::mutex> socket::lock_for(side& of) noexcept {
  std::unique_lock held(of.mutex);
  if (filter_ != nullptr && &of != &sides_[0]) {
    held.unlock();
    held = std::unique_lock(sides_[0].mutex);
  }
  return held;
}

bool socket::attempt(stream_operation& op) noexcept {
  side& in = side_of(op);
  bool const transfers = op.size != 0 || op.action == stream_action::accept;
  auto const held = lock_for(in);
  if (in.waiting != nullptr || (in.exhausted && filter_ == nullptr && transfers && !closed_)) {
    return false;
  }
  return step(op) == io_step::ended;
}

bool socket::enter(stream_operation& op) noexcept {
  side& in = side_of(op);
  for (;;) {
    {
      auto const held = lock_for(in);
      if (in.waiting != nullptr || closed_) {
        op.failure = closed_ ? stream_operation::closed : stream_operation::in_use;
        return false;
      }
      if (watched_ != nullptr) {
        // A change may have come since the attempt.
        if (!op.unfinished && (filter_ != nullptr || !in.exhausted) && step(op) == io_step::ended) {
          return false;
        }
        in.waiting = &op;
        op.entered();
        if (op.unfinished) {
          watched_->renew();
        }
        return true;
      }
    }
    if (!find_home(op)) {
      return false;
    }
  }
}

bool socket::find_home(stream_operation& op) noexcept {
  scheduler& runtime = op.waiter().home();
  std::size_t const home = runtime.choose_home(spread_);
  work* visit = nullptr;
  {
    std::scoped_lock const guard(sides_[0].mutex, sides_[1].mutex);
    if (watched_ != nullptr || closed_) {
      return true;
    }
    retain();
    try {
      io_driver& driver = runtime.driver(home);
      bool first = false;
      watched_ = driver.watch(descriptor_, *this, first);
      runs_on_ = &runtime;
      home_ = home;
      visit = first && !runtime.is_worker(home) ? driver.visit() : nullptr;
    } catch (const error&) {
      op.failure = stream_operation::not_here;
    } catch (const std::system_error& e) {
      op.failure = e.code().value();
    } catch (const std::bad_alloc&) {
      op.failure = ENOMEM;
    }
    if (op.failure != 0) {
      release();
      return false;
    }
  }
  if (visit != nullptr) {
    runtime.push_to(home, *visit);
  }
  return true;
}

void socket::look_out(std::chrono::nanoseconds span) noexcept {
  std::lock_guard const guard(sides_[0].mutex);
  if (runs_on_ != nullptr && !closed_) {
    runs_on_->look_out(home_, span);
  }
}

// What waits on one side goes on; the operation that has ended by that, or null. Under the lock.
stream_operation* socket::go_on(side& of) noexcept {
  if (of.waiting == nullptr) {
    return nullptr;
  }
  io_step const result = step(*of.waiting);
  if (result == io_step::ended) {
    return std::exchange(of.waiting, nullptr);
  }
  if (result == io_step::again) {
    watched_->renew();
  }
  return nullptr;
}

void socket::ready(io_change change) noexcept {
  std::array<bool, 2> const changed{change.readable, change.writable};
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (!changed[i]) {
      continue;
    }
    std::array<stream_operation*, 2> done{};
    {
      auto const held = lock_for(sides_[i]);
      sides_[i].exhausted = false;
      if (i == 0 && change.ended) {
        ended_ = true;
      }
      for (std::size_t j = 0; j < sides_.size(); ++j) {
        // With a filter what waits on one side may want the other.
        if (j == i || filter_ != nullptr) {
          done[j] = go_on(sides_[j]);
        }
      }
    }
    for (stream_operation* const op : done) {
      if (op != nullptr) {
        op->end();
      }
    }
  }
}

bool socket::leave(stream_operation& op) noexcept {
  side& in = side_of(op);
  auto const held = lock_for(in);
  if (in.waiting != &op) {
    return false;
  }
  in.waiting = nullptr;
  return true;
}

void socket::close() noexcept {
  std::array<stream_operation*, 2> ended{};
  {
    std::scoped_lock const guard(sides_[0].mutex, sides_[1].mutex);
    if (std::exchange(closed_, true)) {
      return;
    }
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      ended[i] = std::exchange(sides_[i].waiting, nullptr);
    }
    if (filter_ != nullptr) {
      filter_->closing(descriptor_);
    }
    if (watched_ != nullptr) {
      watched_->close(runs_on_->is_worker(home_));
    } else {
      ::close(descriptor_);
    }
  }
  for (stream_operation* const op : ended) {
    if (op != nullptr) {
      op->failure = stream_operation::closed;
      op->end();
    }
  }
}

void socket::set_filter(std::unique_ptr<stream_filter> filter) noexcept {
  std::scoped_lock const guard(sides_[0].mutex, sides_[1].mutex);
  filter_ = std::move(filter);
}

void socket::fail(const stream_operation& op) const {
  std::string const what = what_it_does(op.action) + name_;
  switch (op.failure) {
    case stream_operation::closed:
      throw error(errc::closed, what + " is over: it was closed on this side");
    case stream_operation::timed_out:
      throw error(errc::timed_out, what + " did not end within its timeout");
    case stream_operation::in_use:
      throw error(errc::invalid_argument,
                  what + ": another task does so at this moment; one may read and one may write at the same time");
    case stream_operation::not_here:
      throw error(errc::not_supported, what + ": " + std::string{no_sockets_here});
    case stream_operation::ended_early:
      throw error(errc::connection_lost, what + ": the other side ended its sending after " + std::to_string(op.done) + " of " +
                                             std::to_string(op.size) + " bytes");
    case stream_operation::see_state:
      filter_->fail(op, name_);
    default:
      break;
  }
  errc code = errc::connection_lost;
  switch (op.action) {
    case stream_action::connect:
    case stream_action::accept:
      code = errc::unavailable;
      break;
    default:
      break;
  }
  throw error(code, what + " failed: " + system_text(op.failure));
}

// `done` is the descriptor and one; nought when it was taken.
accept_wait::~accept_wait() {
  if (failure == 0 && done != 0) {
    ::close(static_cast<int>(done) - 1);
  }
}

int accept_wait::take() {
  check();
  return static_cast<int>(std::exchange(done, 0)) - 1;
}

void stream_ref::refuse() {
  throw error(errc::closed, "this stream or listener has no connection: it was moved from, or never given one");
}

}  // namespace ergon::detail
