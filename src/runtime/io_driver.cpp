// The driver on Boost.Asio: an `io_context` that its worker runs between its turns and sleeps in. Asio is seen by this file only.
//
// Other threads start waits and close descriptors while the worker runs the context, which Asio allows for different objects; the owner of
// a descriptor keeps them in order for one. A wait needs no memory of its own: there is one per direction, with a place beside it.
#include "runtime/io_driver.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstddef>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <ergon/runtime/root.hpp>

namespace ergon::detail {

namespace {

namespace asio = boost::asio;
using descriptor_type = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

// So many ends are taken in a row before the worker's tasks get their turn.
constexpr unsigned most_at_once = 256;

// Room for one operation of Asio at a time.
class place {
 public:
  void* take(std::size_t size) {
    if (size > sizeof bytes_ || std::exchange(taken_, true)) {
      return ::operator new(size);
    }
    return bytes_;
  }
  void give(void* memory) noexcept {
    if (memory == bytes_) {
      taken_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) std::byte bytes_[192];
  bool taken_ = false;
};

template <class T>
class place_allocator {
 public:
  using value_type = T;
  explicit place_allocator(place& in) noexcept : in_(&in) {}
  template <class U>
  explicit place_allocator(const place_allocator<U>& other) noexcept : in_(other.in_) {}
  T* allocate(std::size_t n) { return static_cast<T*>(in_->take(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { in_->give(memory); }
  friend bool operator==(const place_allocator&, const place_allocator&) = default;

 private:
  template <class U>
  friend class place_allocator;
  place* in_;
};

class asio_driver;

// What Asio keeps while it waits: calls one of the listener's two functions, once.
class on_ready {
 public:
  using allocator_type = place_allocator<void>;

  on_ready(asio_driver& driver, io_listener& listener, place& memory, direction way) noexcept
      : driver_(&driver), listener_(&listener), memory_(&memory), way_(way) {}
  on_ready(on_ready&& other) noexcept
      : driver_(other.driver_), listener_(std::exchange(other.listener_, nullptr)), memory_(other.memory_), way_(other.way_) {}
  on_ready& operator=(on_ready&&) = delete;
  ~on_ready();

  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type{*memory_}; }
  void operator()(const boost::system::error_code&) noexcept;

 private:
  asio_driver* driver_;
  io_listener* listener_;
  place* memory_;
  direction way_;
};

class asio_driver final : public io_driver {
 public:
  ~asio_driver() override {
    if (watched_.load(std::memory_order_acquire) != 0) {
      fatal("ergon: a socket outlives its runtime; close or destroy streams and listeners before the runtime ends");
    }
  }

  void poll() noexcept override {
    for (unsigned i = 0; i < most_at_once && context_.poll_one() != 0; ++i) {
    }
  }

  void wait(steady_time until) noexcept override {
    if (until != steady_time::max()) {
      wake_at(until);
    }
    if (context_.run_one() != 0) {
      poll();
    }
  }

  void interrupt() noexcept override {
    if (!interrupted_.exchange(true, std::memory_order_acq_rel)) {
      asio::post(context_, wake_up{this});
    }
  }

  std::unique_ptr<io_descriptor> watch(int descriptor, io_listener& listener) override;

  void drop_armed() noexcept { io_driver::drop_armed(); }
  bool add_armed() noexcept { return io_driver::add_armed(); }

 private:
  friend class asio_descriptor;

  struct wake_up {
    using allocator_type = place_allocator<void>;
    asio_driver* driver;
    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type{driver->wake_up_memory_}; }
    void operator()() const noexcept { driver->interrupted_.store(false, std::memory_order_release); }
  };

  struct time_passed {
    using allocator_type = place_allocator<void>;
    asio_driver* driver;
    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type{driver->alarm_memory_}; }
    void operator()(const boost::system::error_code&) const noexcept { driver->alarm_armed_ = false; }
  };

  // The context's own bound is in milliseconds; tasks sleep more exactly than that.
  void wake_at(steady_time until) noexcept {
    if (!alarm_) {
      int const made = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
      boost::system::error_code failed;
      alarm_.emplace(context_);
      if (made < 0 || alarm_->assign(made, failed)) {
        fatal("ergon: no descriptor is left for a worker's timer");
      }
    }
    if (!std::exchange(alarm_armed_, true)) {
      alarm_->async_wait(asio::posix::descriptor_base::wait_read, time_passed{this});
    }
    // Setting it takes back that it has expired.
    std::int64_t const at = std::max<std::int64_t>(until.time_since_epoch().count(), 1);
    ::itimerspec const spec{.it_interval = {}, .it_value = {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000}};
    ::timerfd_settime(alarm_->native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  std::atomic<std::size_t> watched_{0};
  std::atomic<bool> interrupted_{false};
  place wake_up_memory_;
  place alarm_memory_;
  bool alarm_armed_ = false;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> open_{context_.get_executor()};
  std::optional<descriptor_type> alarm_;
};

class asio_descriptor final : public io_descriptor {
 public:
  asio_descriptor(asio_driver& driver, int descriptor, io_listener& listener)
      : driver_(driver), listener_(listener), descriptor_(driver.context_, descriptor) {
    driver_.watched_.fetch_add(1, std::memory_order_relaxed);
  }

  bool arm(direction way) noexcept override {
    bool const first = driver_.add_armed();
    descriptor_.async_wait(
        way == direction::read ? asio::posix::descriptor_base::wait_read : asio::posix::descriptor_base::wait_write,
        on_ready{driver_, listener_, memory_[static_cast<std::size_t>(way)], way});
    return first;
  }

  void close() noexcept override {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    driver_.watched_.fetch_sub(1, std::memory_order_release);
  }

 private:
  asio_driver& driver_;
  io_listener& listener_;
  std::array<place, 2> memory_;
  descriptor_type descriptor_;
};

std::unique_ptr<io_descriptor> asio_driver::watch(int descriptor, io_listener& listener) {
  try {
    return std::make_unique<asio_descriptor>(*this, descriptor, listener);
  } catch (const boost::system::system_error& e) {
    throw std::system_error(e.code());
  }
}

on_ready::~on_ready() {
  if (listener_ != nullptr) {
    driver_->drop_armed();
    listener_->dropped(way_);
  }
}

void on_ready::operator()(const boost::system::error_code&) noexcept {
  driver_->drop_armed();
  std::exchange(listener_, nullptr)->ready(way_);
}

}  // namespace

std::unique_ptr<io_driver> make_io_driver() { return std::make_unique<asio_driver>(); }

}  // namespace ergon::detail
