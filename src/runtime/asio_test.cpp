// Asio's operations in tasks of ergon, and tasks of ergon in code that uses Asio.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect_pipe.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/readable_pipe.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/writable_pipe.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include <ergon/runtime/asio.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>

namespace ergon {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

/// A context with a thread that runs it.
struct context_thread {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> open{context.get_executor()};
  std::thread thread{[this] { context.run(); }};
  ~context_thread() {
    open.reset();
    context.stop();
    thread.join();
  }
};

/// What touches an object of Asio is done on its context.
template <class F>
void on(asio::io_context& context, F f) {
  std::promise<void> done;
  asio::post(context, [&] {
    f();
    done.set_value();
  });
  done.get_future().get();
}

TEST(AsioTest, ATaskWaitsForATimerOfAsioAndGoesOnInItsRuntime) {
  context_thread other;
  runtime rt{{.threads = 2}};
  rt.block_on([](asio::io_context& context, runtime& mine) -> task<void> {
    asio::steady_timer timer{context, 1ms};
    co_await timer.async_wait(use_ergon);
    EXPECT_EQ(runtime::current(), &mine);
    EXPECT_GE(asio::steady_timer::clock_type::now(), timer.expiry());
  }(other.context, rt));
}

TEST(AsioTest, ATaskReadsAndWritesThroughSocketsOfAsio) {
  context_thread other;
  runtime rt{{.threads = 2}};
  rt.block_on([](asio::io_context& context) -> task<void> {
    asio::ip::tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
    asio::ip::tcp::socket near{context};
    asio::ip::tcp::socket far{context};
    auto accepting = spawn([](asio::ip::tcp::acceptor& at, asio::ip::tcp::socket& into) -> task<void> {
      co_await at.async_accept(into, use_ergon);
    }(acceptor, far));
    co_await near.async_connect(acceptor.local_endpoint(), use_ergon);
    co_await accepting;
    std::string const said = "hello";
    EXPECT_EQ(co_await asio::async_write(near, asio::buffer(said), use_ergon), 5U);
    std::string heard(5, '\0');
    EXPECT_EQ(co_await asio::async_read(far, asio::buffer(heard), use_ergon), 5U);
    EXPECT_EQ(heard, said);
    near.close();
    auto const [failed, n] = co_await asio::async_read(far, asio::buffer(heard), asio::as_tuple(use_ergon));
    EXPECT_EQ(failed, asio::error::eof);
    EXPECT_EQ(n, 0U);
    try {
      // Into a socket that is open.
      co_await acceptor.async_accept(far, use_ergon);
      ADD_FAILURE();
    } catch (const boost::system::system_error& e) {
      EXPECT_EQ(e.code(), asio::error::already_open);
    }
  }(other.context));
}

TEST(AsioTest, ACancelOfTheTaskCancelsTheOperation) {
  context_thread other;
  runtime rt{{.threads = 2}};
  asio::steady_timer timer{other.context, 24h};
  for (int i = 0; i < 100; ++i) {
    auto waiting = rt.spawn([](asio::steady_timer& t) -> task<void> {
      auto const end = co_await as_result(t.async_wait(use_ergon));
      EXPECT_FALSE(end.has_value());
      EXPECT_EQ(end.error(), errc::cancelled);
    }(timer));
    if (i % 2 == 0) {
      rt.settle();
    }
    waiting.cancel();
    rt.settle();
    rt.block_on([](join_handle<>& h) -> task<void> { static_cast<void>(co_await as_result(h)); }(waiting));
  }
}

TEST(AsioTest, ATimeoutBoundsAnOperationOfAsio) {
  context_thread other;
  runtime rt{{.threads = 1}};
  asio::steady_timer timer{other.context, 24h};
  auto bounded = timeout(1ms, timer.async_wait(use_ergon));
  try {
    rt.block_on(std::move(bounded));
    ADD_FAILURE();
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::timed_out);
  }
}

TEST(AsioTest, AResultThatCameBeforeTheCancelIsKept) {
  context_thread other;
  runtime rt{{.threads = 1}};
  asio::readable_pipe out{other.context};
  asio::writable_pipe in{other.context};
  asio::connect_pipe(out, in);
  std::size_t sent = 0;
  std::size_t got = 0;
  for (int i = 0; i < 300; ++i) {
    auto reading = rt.spawn([](asio::readable_pipe& from, std::size_t& count) -> task<void> {
      char byte = 0;
      auto const n = co_await as_result(from.async_read_some(asio::buffer(&byte, 1), use_ergon));
      count += n ? *n : 0;
    }(out, got));
    on(other.context, [&] { sent += asio::write(in, asio::buffer("x", 1)); });
    reading.cancel();
    rt.block_on([](join_handle<>& h) -> task<void> { static_cast<void>(co_await as_result(h)); }(reading));
  }
  on(other.context, [&] { in.close(); });
  boost::system::error_code end;
  std::array<char, 512> buffer;
  on(other.context, [&] { got += asio::read(out, asio::buffer(buffer), end); });
  EXPECT_EQ(got, sent);
}

TEST(AsioTest, AContextThatIsDestroyedEndsTheWaitWithClosed) {
  auto context = std::make_unique<asio::io_context>();
  runtime rt{{.threads = 1}};
  auto timer = std::make_unique<asio::steady_timer>(*context, 24h);
  auto waiting = rt.spawn([](asio::steady_timer& t) -> task<void> { co_await t.async_wait(use_ergon); }(*timer));
  rt.settle();
  // Its end stands in a context that nobody runs any more.
  timer.reset();
  context.reset();
  EXPECT_EQ(rt.block_on([](join_handle<>& h) -> task<errc> {
    auto const end = co_await as_result(h);
    co_return static_cast<errc>(end.error().value());
  }(waiting)),
            errc::closed);
}

task<int> answer() {
  co_await yield();
  co_return 42;
}
task<void> fails() {
  co_await yield();
  throw std::runtime_error{"no"};
}

TEST(AsioTest, AsioStartsATaskAndIsToldItsValue) {
  context_thread other;
  runtime rt{{.threads = 2}};
  EXPECT_EQ(spawn_from_asio(other.context.get_executor(), rt, answer(), asio::use_future).get(), 42);
  EXPECT_THROW(spawn_from_asio(other.context.get_executor(), rt, fails(), asio::use_future).get(), std::runtime_error);

  auto const both = asio::co_spawn(
      other.context,
      [](runtime& in) -> asio::awaitable<int> {
        auto const here = std::this_thread::get_id();
        int const n = co_await spawn_from_asio(co_await asio::this_coro::executor, in, answer(), asio::use_awaitable);
        EXPECT_EQ(std::this_thread::get_id(), here);
        co_return n + 1;
      }(rt),
      asio::use_future);
  EXPECT_EQ(const_cast<std::future<int>&>(both).get(), 43);
}

TEST(AsioTest, AContextStaysBusyUntilTheTaskHasEnded) {
  runtime rt{{.threads = 1}};
  asio::io_context context;
  event gate;
  int told = 0;
  spawn_from_asio(
      context.get_executor(), rt,
      [](event& until) -> task<int> {
        co_await until.wait();
        co_return 7;
      }(gate),
      [&](const std::exception_ptr& failure, int n) { told = failure == nullptr ? n : -1; });
  EXPECT_EQ(context.poll(), 0U);
  gate.set();
  context.run();
  EXPECT_EQ(told, 7);
}

TEST(AsioTest, ACancelOfTheOperationCancelsTheTask) {
  context_thread other;
  runtime rt{{.threads = 1}};
  event never;
  asio::cancellation_signal signal;
  std::promise<errc> told;
  spawn_from_asio(
      other.context.get_executor(), rt, [](event& until) -> task<void> { co_await until.wait(); }(never),
      asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& failure) {
        try {
          std::rethrow_exception(failure);
        } catch (const error& e) {
          told.set_value(e.reason());
        }
      }));
  rt.settle();
  on(other.context, [&] { signal.emit(asio::cancellation_type::terminal); });
  EXPECT_EQ(told.get_future().get(), errc::cancelled);
}

TEST(AsioTest, AShutdownOfTheRuntimeTellsAsioTheEnd) {
  context_thread other;
  std::future<void> end;
  event never;
  {
    runtime rt{{.threads = 1}};
    end = spawn_from_asio(
        other.context.get_executor(), rt, [](event& until) -> task<void> { co_await until.wait(); }(never), asio::use_future);
  }
  EXPECT_THROW(end.get(), error);
}

}  // namespace
}  // namespace ergon
