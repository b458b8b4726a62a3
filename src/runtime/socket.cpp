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

namespace {

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

direction socket::way_of(const stream_operation& op) noexcept {
  switch (op.action) {
    case stream_action::read_some:
    case stream_action::read_exact:
    case stream_action::accept:
      return direction::read;
    default:
      return direction::write;
  }
}

io_step socket::perform_plain(stream_operation& op, side& in) const noexcept {
  for (;;) {
    switch (op.action) {
      case stream_action::read_some:
      case stream_action::read_exact: {
        if (op.done == op.size) {
          return io_step::ended;
        }
        ::ssize_t const n = ::recv(descriptor_, op.data + op.done, op.size - op.done, 0);
        if (n > 0) {
          op.done += static_cast<std::size_t>(n);
          in.exhausted = op.done < op.size;
          if (op.action == stream_action::read_some || op.done == op.size) {
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
        ::ssize_t const n = ::send(descriptor_, op.data + op.done, op.size - op.done, MSG_NOSIGNAL);
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
          op.done = static_cast<std::size_t>(taken);
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
    in.exhausted = true;
    return way_of(op) == direction::read ? io_step::wants_read : io_step::wants_write;
  }
}

io_step socket::perform(stream_operation& op, side& in) noexcept {
  if (closed_) {
    return failed(op, stream_operation::closed);
  }
  return filter_ != nullptr ? filter_->perform(op, descriptor_) : perform_plain(op, in);
}

bool socket::attempt(stream_operation& op) noexcept {
  direction const way = way_of(op);
  side& in = side_of(way);
  for (;;) {
    std::lock_guard const guard(mutex_of(way));
    if (in.waiting != nullptr || (in.exhausted && op.size != 0 && !closed_)) {
      return false;
    }
    switch (perform(op, in)) {
      case io_step::ended:
        return true;
      case io_step::again:
        continue;
      case io_step::wants_read:
      case io_step::wants_write:
        return false;
    }
  }
}

bool socket::enter(stream_operation& op) noexcept {
  direction const way = way_of(op);
  side& in = side_of(way);
  for (;;) {
    {
      std::lock_guard const guard(mutex_of(way));
      if (in.waiting != nullptr) {
        op.failure = stream_operation::in_use;
        return false;
      }
      if (closed_) {
        op.failure = stream_operation::closed;
        return false;
      }
      if (watched_ != nullptr) {
        // It was tried without the lock since; a filter may want either direction.
        if (filter_ != nullptr) {
          io_step const step = perform(op, in);
          if (step == io_step::ended) {
            return false;
          }
          if (step == io_step::again) {
            continue;
          }
          in.waiting = &op;
          op.entered();
          arm(step == io_step::wants_read ? direction::read : direction::write);
          return true;
        }
        in.waiting = &op;
        op.entered();
        arm(way);
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
  std::scoped_lock const guard(sides_[0].mutex, sides_[1].mutex);
  if (watched_ != nullptr || closed_) {
    return true;
  }
  try {
    std::size_t const home = runtime.choose_home(spread_);
    io_driver& driver = runtime.driver(home);
    watched_ = driver.watch(descriptor_, *this);
    runs_on_ = &runtime;
    home_ = home;
    driver_ = &driver;
    return true;
  } catch (const std::system_error& e) {
    op.failure = e.code().value();
  } catch (const std::bad_alloc&) {
    op.failure = ENOMEM;
  }
  return false;
}

// Under the lock.
void socket::arm(direction way) noexcept {
  side& in = side_of(way);
  if (std::exchange(in.armed, true)) {
    return;
  }
  retain();
  if (watched_->arm(way) && !runs_on_->is_worker(home_)) {
    if (work* const visit = driver_->visit()) {
      runs_on_->push_to(home_, *visit);
    }
  }
}

void socket::ready(direction way) noexcept {
  std::array<stream_operation*, 2> ended{};
  bool told = true;
  bool again = false;
  do {
    again = false;
    std::lock_guard const guard(mutex_of(way));
    if (std::exchange(told, false)) {
      side_of(way).armed = false;
      side_of(way).exhausted = false;
    }
    // With a filter each operation may have waited for either direction.
    for (direction const each : {direction::read, direction::write}) {
      side& in = side_of(each);
      if ((each != way && filter_ == nullptr) || in.waiting == nullptr) {
        continue;
      }
      switch (perform(*in.waiting, in)) {
        case io_step::ended:
          ended[static_cast<std::size_t>(each)] = std::exchange(in.waiting, nullptr);
          break;
        case io_step::again:
          again = true;
          break;
        case io_step::wants_read:
          arm(direction::read);
          break;
        case io_step::wants_write:
          arm(direction::write);
          break;
      }
    }
  } while (again);
  for (stream_operation* const op : ended) {
    if (op != nullptr) {
      op->end();
    }
  }
  release();
}

void socket::dropped(direction) noexcept { release(); }

bool socket::leave(stream_operation& op) noexcept {
  direction const way = way_of(op);
  std::lock_guard const guard(mutex_of(way));
  side& in = side_of(way);
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
      watched_->close();
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

void stream_ref::refuse() {
  throw error(errc::closed, "this stream or listener has no connection: it was moved from, or never given one");
}

}  // namespace ergon::detail
