// TCP over the loopback interface: streams, listeners, their ends, and cancels and timeouts that race with them.
#include <gtest/gtest.h>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sim_runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/tcp.hpp>

#include "runtime/socket_test_tools.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) {
    ++count;
  }
  ::closedir(folder);
  return count;
}

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span{text}); }

/// More than both sides' buffers hold, from 16 on.
std::string megabytes(std::size_t count) { return std::string(count * 1'000'000, 'x'); }

task<std::string> read_to_end(byte_stream& from) {
  std::string all;
  std::string part(1000, '\0');
  while (std::size_t const n = co_await from.read_some(bytes_of(part))) {
    all.append(part, 0, n);
  }
  co_return all;
}

/// A connection of this process with itself.
struct connection {
  tcp_stream near;
  tcp_stream far;
};
task<connection> make_connection() {
  auto listener = tcp_listener::bind({});
  auto near = spawn(tcp_stream::connect(listener.local_endpoint()));
  auto far = co_await listener.accept();
  co_return connection{co_await near, std::move(far)};
}

/// Runs the task on runtimes with one thread and with four.
template <class Make>
void on_one_and_four_threads(Make make) {
  for (unsigned const threads : {1U, 4U}) {
    SCOPED_TRACE(threads);
    runtime rt{{.threads = threads}};
    rt.block_on(make());
  }
}

task<void> echo(tcp_stream peer) {
  std::array<std::byte, 512> buffer;
  while (std::size_t const n = co_await peer.read_some(buffer)) {
    co_await peer.write_all(std::span{buffer}.first(n));
  }
}

task<void> serve(tcp_listener& at) {
  for (;;) {
    static_cast<void>(spawn(echo(co_await at.accept())));
  }
}

TEST(TcpTest, CarriesBytesBothWaysUntilTheOtherSideEnds) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    co_await near.write_all("ping");
    EXPECT_EQ(co_await read_text(far, 4), "ping");
    co_await far.write_all("pong!");
    EXPECT_EQ(co_await read_text(near, 5), "pong!");
    near.close();
    EXPECT_EQ(co_await read_to_end(far), "");
    EXPECT_EQ(co_await read_to_end(far), "");
  });
}

TEST(TcpTest, KnowsItsEndpoints) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    EXPECT_EQ(near.local_endpoint(), far.remote_endpoint());
    EXPECT_EQ(near.remote_endpoint(), far.local_endpoint());
    EXPECT_EQ(near.name(), "tcp " + near.remote_endpoint().text());
    near.close();
    EXPECT_EQ(thrown_by([&] { static_cast<void>(near.local_endpoint()); }).reason(), errc::closed);
  }());
}

task<void> ping(std::uint16_t port, int rounds) {
  auto stream = co_await tcp_stream::connect("127.0.0.1", port);
  for (int i = 0; i < rounds; ++i) {
    std::string const said = "number " + std::to_string(i);
    co_await stream.write_all(said);
    std::string heard = co_await read_text(stream, said.size());
    if (heard != said) {
      throw std::runtime_error{"heard \"" + heard.append("\" for \"").append(said) + "\""};
    }
  }
}

TEST(TcpTest, ServesManyConnectionsAtOnce) {
  on_one_and_four_threads([]() -> task<void> {
    auto listener = tcp_listener::bind({});
    auto server = spawn(serve(listener));
    co_await with_group([&](task_group& group) -> task<void> {
      for (int i = 0; i < 200; ++i) {
        group.spawn(ping(listener.local_endpoint().port, 20));
      }
      co_return;
    });
    server.cancel();
    auto const end = co_await as_result(server);
    EXPECT_FALSE(end.has_value());
  });
}

TEST(TcpTest, ReadsWhatIsThereAndWaitsForExactlySoMuch) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    co_await near.write_all("abc");
    std::array<std::byte, 64> some{};
    std::size_t got = 0;
    while (got < 3) {
      got += co_await far.read_some(std::span{some}.subspan(got));
    }
    EXPECT_EQ(got, 3U);
    auto whole = spawn(read_text(far, 6));
    co_await near.write_all("de");
    co_await yield();
    EXPECT_FALSE(whole.done());
    co_await near.write_all("fghi");
    EXPECT_EQ(co_await whole, "defghi");
  });
}

TEST(TcpTest, AnEmptyBufferWaitsForNothing) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    EXPECT_EQ(co_await near.read_some({}), 0U);
    co_await near.write_all(std::span<const std::byte>{});
  }());
}

TEST(TcpTest, AWriterWaitsForASlowReader) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    std::string sent = megabytes(16);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] = static_cast<char>(i * 7 + i / 251);
    }
    auto writer = spawn([](tcp_stream& to, const std::string& what) -> task<void> { co_await to.write_all(what); }(near, sent));
    std::string got = co_await read_text(far, 1000);
    EXPECT_FALSE(writer.done());
    got += co_await read_text(far, sent.size() - 1000);
    co_await writer;
    EXPECT_TRUE(got == sent);
  });
}

TEST(TcpTest, EndsItsSendingAndGoesOnToRead) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    co_await near.write_all("question");
    co_await near.shutdown_send();
    EXPECT_EQ(co_await read_to_end(far), "question");
    co_await far.write_all("answer");
    far.close();
    EXPECT_EQ(co_await read_to_end(near), "answer");
  });
}

TEST(TcpTest, SaysAfterHowManyBytesTheOtherSideEnded) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    co_await near.write_all("abc");
    near.close();
    try {
      co_await read_text(far, 8);
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::connection_lost);
      EXPECT_NE(std::string{e.what()}.find("after 3 of 8 bytes"), std::string::npos) << e.what();
    }
  }());
}

void reset(tcp_stream& stream, int descriptor) {
  ::linger const at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  stream.close();
}

// The descriptor is nobody's business but the test's: found by its address.
int descriptor_of(const tcp_stream& stream) {
  endpoint const wanted = stream.local_endpoint();
  for (int i = 3; i < 1024; ++i) {
    ::sockaddr_in address{};
    ::socklen_t size = sizeof address;
    if (::getsockname(i, reinterpret_cast<::sockaddr*>(&address), &size) == 0 && address.sin_family == AF_INET &&
        ntohs(address.sin_port) == wanted.port && ::getpeername(i, reinterpret_cast<::sockaddr*>(&address), &size) == 0) {
      return i;
    }
  }
  return -1;
}

TEST(TcpTest, AResetByTheOtherSideIsAnErrorForReaderAndWriterAndNoSignal) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    auto reader = spawn(read_text(near, 1));
    co_await yield();
    reset(far, descriptor_of(far));
    try {
      co_await reader;
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::connection_lost);
      EXPECT_NE(std::string{e.what()}.find(near.name()), std::string::npos) << e.what();
    }
    for (int i = 0; i < 2; ++i) {
      try {
        co_await near.write_all("x");
        ADD_FAILURE();
      } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::connection_lost);
      }
    }
  });
}

TEST(TcpTest, ARefusedConnectionNamesHostAndPort) {
  on_one_and_four_threads([]() -> task<void> {
    std::uint16_t port = 0;
    {
      auto gone = tcp_listener::bind({});
      port = gone.local_endpoint().port;
    }
    for (std::string const host : {"127.0.0.1", "localhost"}) {
      try {
        co_await tcp_stream::connect(host, port);
        ADD_FAILURE();
      } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::unavailable);
        EXPECT_NE(std::string{e.what()}.find(host + ':' + std::to_string(port)), std::string::npos) << e.what();
        EXPECT_NE(std::string{e.what()}.find("refused"), std::string::npos) << e.what();
      }
    }
  });
}

TEST(TcpTest, ConnectsToAHostByName) {
  on_one_and_four_threads([]() -> task<void> {
    auto listener = tcp_listener::bind({});
    auto near = spawn(tcp_stream::connect("localhost", listener.local_endpoint().port, {.timeout = 1h}));
    auto far = co_await listener.accept();
    auto stream = co_await near;
    co_await stream.write_all("x");
    EXPECT_EQ(co_await read_text(far, 1), "x");
  });
}

TEST(TcpTest, TheNextAddressIsTriedWhenTheFirstRefusesAndWhenItIsSilent) {
  manual_clock clock;
  runtime rt{{.threads = 2, .clock = &clock}};
  std::uint16_t refusing = 0;
  {
    auto gone = tcp_listener::bind({});
    refusing = gone.local_endpoint().port;
  }
  auto good = tcp_listener::bind({});
  endpoint const here = good.local_endpoint();
  endpoint const nobody{ip_address{}, refusing};
  EXPECT_EQ(rt.block_on(tcp_stream::connect_any({nobody, here})).remote_endpoint(), here);

  // Silent: its queue is full, and the system drops who comes.
  auto silent = tcp_listener::bind({.backlog = 0});
  std::vector<join_handle<tcp_stream>> crowd;
  for (int i = 0; i < 8; ++i) {
    crowd.push_back(rt.spawn(tcp_stream::connect(silent.local_endpoint())));
  }
  rt.settle();
  auto connecting = rt.spawn(tcp_stream::connect_any({silent.local_endpoint(), here}));
  rt.settle();
  EXPECT_FALSE(connecting.done());
  clock.advance(250ms);
  EXPECT_EQ(
      rt.block_on([](join_handle<tcp_stream>& h) -> task<tcp_stream> { co_return co_await h; }(connecting)).remote_endpoint(),
      here);

  // All fail: each says how.
  error const e = thrown_by([&] { rt.block_on(tcp_stream::connect_any({nobody, nobody})); });
  EXPECT_EQ(e.reason(), errc::unavailable);
  EXPECT_NE(std::string{e.what()}.find("; "), std::string::npos) << e.what();
  EXPECT_EQ(thrown_by([&] { rt.block_on(tcp_stream::connect_any({})); }).reason(), errc::invalid_argument);
}

TEST(TcpTest, APortThatIsTakenIsRefusedWithItsNumber) {
  auto first = tcp_listener::bind({});
  std::uint16_t const port = first.local_endpoint().port;
  error const e = thrown_by([&] { static_cast<void>(tcp_listener::bind({.port = port})); });
  EXPECT_EQ(e.reason(), errc::unavailable);
  EXPECT_NE(std::string{e.what()}.find("127.0.0.1:" + std::to_string(port)), std::string::npos) << e.what();
  first.close();
  static_cast<void>(tcp_listener::bind({.port = port}));
}

TEST(TcpTest, PortZeroIsNoPortToConnectTo) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(thrown_by([&] { rt.block_on(tcp_stream::connect("127.0.0.1", 0)); }).reason(), errc::invalid_argument);
}

// ── ends of waits

TEST(TcpTest, ACancelEndsAWaitForBytesAndTheStreamGoesOn) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    auto waits = [](tcp_stream& from) -> task<errc> {
      std::array<std::byte, 8> buffer;
      auto const got = co_await as_result(from.read_some(buffer));
      co_return got ? errc{} : static_cast<errc>(got.error().value());
    };
    for (int i = 0; i < 100; ++i) {
      auto reader = spawn(waits(far));
      co_await yield();
      reader.cancel();
      // Before its start a cancel stops the task itself.
      auto const end = co_await as_result(reader);
      EXPECT_EQ(end ? *end : errc::cancelled, errc::cancelled);
    }
    co_await near.write_all("still here");
    EXPECT_EQ(co_await read_text(far, 10), "still here");
  });
}

TEST(TcpTest, ACancelThatRacesWithBytesLosesNone) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    std::string got;
    auto one = [](tcp_stream& from, std::string& into) -> task<void> {
      std::array<char, 8> buffer;
      auto const n = co_await as_result(from.read_some(std::as_writable_bytes(std::span{buffer})));
      if (n) {
        into.append(buffer.data(), *n);
      }
    };
    std::string sent;
    for (int i = 0; i < 2000; ++i) {
      auto reader = spawn(one(far, got));
      if (i % 3 == 0) {
        co_await yield();
      }
      sent += static_cast<char>('a' + i % 26);
      co_await near.write_all(std::string_view{sent}.substr(sent.size() - 1));
      if (i % 2 == 0) {
        co_await yield();
      }
      reader.cancel();
      static_cast<void>(co_await as_result(reader));
    }
    near.close();
    got += co_await read_to_end(far);
    EXPECT_EQ(got, sent);
  });
}

TEST(TcpTest, ACancelEndsAcceptWriteAndConnect) {
  on_one_and_four_threads([]() -> task<void> {
    auto listener = tcp_listener::bind({.backlog = 0});
    auto accepting = spawn([](tcp_listener& at) -> task<void> { co_await at.accept(); }(listener));
    auto [near, far] = co_await make_connection();
    std::string const much = megabytes(16);
    auto writing = spawn([](tcp_stream& to, const std::string& what) -> task<void> { co_await to.write_all(what); }(near, much));
    for (int i = 0; i < 10; ++i) {
      co_await yield();
    }
    EXPECT_FALSE(accepting.done());
    EXPECT_FALSE(writing.done());
    accepting.cancel();
    writing.cancel();
    EXPECT_FALSE((co_await as_result(accepting)).has_value());
    EXPECT_FALSE((co_await as_result(writing)).has_value());

    // Its queue is full sooner or later, and then who connects waits.
    std::vector<join_handle<tcp_stream>> connecting;
    for (int i = 0; i < 8; ++i) {
      connecting.push_back(spawn(tcp_stream::connect(listener.local_endpoint())));
    }
    for (auto& each : connecting) {
      each.cancel();
      static_cast<void>(co_await as_result(each));
      EXPECT_TRUE(each.done());
    }
  });
}

TEST(TcpTest, ATimeoutEndsAReadAnAcceptAndAWrite) {
  for (unsigned const threads : {1U, 4U}) {
    manual_clock clock;
    runtime rt{{.threads = threads, .clock = &clock}};
    auto listener = tcp_listener::bind({});
    connection both = rt.block_on(make_connection());
    auto reader = rt.spawn([](tcp_stream& from) -> task<errc> {
      std::array<std::byte, 8> buffer;
      auto const got = co_await as_result(from.read_some(buffer, {.timeout = 5s}));
      co_return got ? errc{} : static_cast<errc>(got.error().value());
    }(both.far));
    std::string const much = megabytes(16);
    auto writer = rt.spawn([](tcp_stream& to, const std::string& what) -> task<std::string> {
      try {
        co_await to.write_all(what, {.timeout = 5s});
      } catch (const error& e) {
        co_return e.what();
      }
      co_return "";
    }(both.far, much));
    auto acceptor = rt.spawn([](tcp_listener& at) -> task<void> { co_await at.accept({.timeout = 5s}); }(listener));
    rt.settle();
    clock.advance(4999ms);
    rt.settle();
    EXPECT_FALSE(reader.done() || writer.done() || acceptor.done());
    clock.advance(1ms);
    EXPECT_EQ(rt.block_on([](join_handle<errc>& h) -> task<errc> { co_return co_await h; }(reader)), errc::timed_out);
    std::string const text = rt.block_on([](join_handle<std::string>& h) -> task<std::string> { co_return co_await h; }(writer));
    EXPECT_NE(text.find("timeout"), std::string::npos) << text;
    EXPECT_EQ(thrown_by([&] { rt.block_on([](join_handle<>& h) -> task<void> { co_await h; }(acceptor)); }).reason(),
              errc::timed_out);
  }
}

TEST(TcpTest, ATimeoutThatRacesWithBytesAndCancelsEndsEachWaitOnce) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    std::size_t got = 0;
    std::size_t sent = 0;
    auto one = [](tcp_stream& from, int micros, std::size_t& count) -> task<void> {
      std::array<std::byte, 8> buffer;
      auto const n = co_await as_result(from.read_some(buffer, {.timeout = std::chrono::microseconds{micros}}));
      count += n ? *n : 0;
    };
    for (int i = 0; i < 3000; ++i) {
      auto reader = spawn(one(far, i % 40, got));
      if (i % 2 == 0) {
        co_await near.write_all("x");
        ++sent;
      } else {
        co_await yield();
      }
      if (i % 3 == 0) {
        reader.cancel();
      }
      static_cast<void>(co_await as_result(reader));
    }
    near.close();
    got += (co_await read_to_end(far)).size();
    EXPECT_EQ(got, sent);
  });
}

TEST(TcpTest, CloseEndsWhatWaitsWithClosed) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    auto listener = tcp_listener::bind({});
    auto accepting = spawn([](tcp_listener& at) -> task<void> { co_await at.accept(); }(listener));
    auto reading = spawn(read_text(near, 1));
    std::string const much = megabytes(16);
    auto writing = spawn([](tcp_stream& to, const std::string& what) -> task<void> { co_await to.write_all(what); }(near, much));
    for (int i = 0; i < 10; ++i) {
      co_await yield();
    }
    near.close();
    listener.close();
    EXPECT_EQ((co_await as_result(accepting)).error(), errc::closed);
    EXPECT_EQ((co_await as_result(reading)).error(), errc::closed);
    EXPECT_EQ((co_await as_result(writing)).error(), errc::closed);
    EXPECT_EQ((co_await as_result(near.write_all("x"))).error(), errc::closed);
    EXPECT_EQ((co_await as_result(listener.accept())).error(), errc::closed);
    near.close();
  });
}

TEST(TcpTest, AHandleThatIsGoneEndsTheWait) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    auto reading = spawn(read_text(near, 1));
    co_await yield();
    co_await yield();
    {
      tcp_stream const gone = std::move(near);
    }
    EXPECT_EQ((co_await as_result(reading)).error(), errc::closed);
  });
}

TEST(TcpTest, AnEmptyHandleThrowsClosed) {
  runtime rt{{.threads = 1}};
  EXPECT_EQ(thrown_by([&] { rt.block_on([]() -> task<void> { co_await tcp_stream{}.write_all("x"); }()); }).reason(),
            errc::closed);
  EXPECT_FALSE(tcp_stream{});
}

TEST(TcpTest, ASecondReaderIsRefused) {
  on_one_and_four_threads([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    auto reads = [](tcp_stream& from) -> task<errc> {
      try {
        std::array<std::byte, 1> byte;
        static_cast<void>(co_await from.read_some(byte));
      } catch (const error& e) {
        co_return e.reason();
      }
      co_return errc{};
    };
    auto first = spawn(reads(near));
    auto second = spawn(reads(near));
    // Whichever came second.
    while (!first.done() && !second.done()) {
      co_await yield();
    }
    co_await far.write_all("x");
    errc const one = co_await first;
    errc const other = co_await second;
    EXPECT_TRUE((one == errc{} && other == errc::invalid_argument) || (one == errc::invalid_argument && other == errc{}));
  });
}

// ── the runtime around it

TEST(TcpTest, AShutdownEndsEveryWaitAndLeaksNoDescriptor) {
  {
    runtime const warm{{.threads = 1}};
  }
  std::size_t const before = open_descriptors();
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    auto listener = tcp_listener::bind({});
    auto server = rt.spawn([](tcp_listener at) -> task<void> {
      for (;;) {
        static_cast<void>(spawn(echo(co_await at.accept())));
      }
    }(std::move(listener)));
    rt.block_on([](std::uint16_t) -> task<void> {
      for (int i = 0; i < 50; ++i) {
        auto both = co_await make_connection();
        static_cast<void>(spawn(echo(std::move(both.far))));
        static_cast<void>(spawn(echo(std::move(both.near))));
      }
    }(0));
    EXPECT_EQ(rt.shutdown(1h), 0U);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TcpTest, ADroppedAcceptLeaksNoDescriptor) {
  std::size_t const before = open_descriptors();
  {
    runtime rt{{.threads = 4}};
    rt.block_on([]() -> task<void> {
      auto listener = tcp_listener::bind({});
      for (int i = 0; i < 200; ++i) {
        auto accepting = spawn([](tcp_listener& at) -> task<void> { co_await at.accept(); }(listener));
        auto near = co_await tcp_stream::connect(listener.local_endpoint());
        accepting.cancel();
        static_cast<void>(co_await as_result(accepting));
      }
    }());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TcpTest, AConnectionThatAlwaysHasBytesLeavesOthersTheirTurn) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    std::atomic<bool> stop{false};
    std::size_t reads = 0;
    auto flood = spawn([](tcp_stream& to, std::atomic<bool>& end) -> task<void> {
      std::string const block(1000, 'x');
      while (!end) {
        co_await to.write_all(block);
      }
      to.close();
    }(near, stop));
    auto drain = spawn([](tcp_stream& from, std::size_t& count) -> task<void> {
      std::array<std::byte, 100> some;
      while (co_await from.read_some(some) != 0) {
        ++count;
      }
    }(far, reads));
    std::size_t turns = 0;
    bool rang = false;
    auto ring = spawn([](bool& done) -> task<void> {
      co_await sleep_for(1ns);
      done = true;
    }(rang));
    // Each pass is a turn of the one thread: in a hundred of them everybody has had some.
    while (turns < 200) {
      co_await yield();
      ++turns;
    }
    EXPECT_TRUE(rang);
    EXPECT_GT(reads, 0U);
    stop = true;
    co_await flood;
    co_await drain;
    co_await ring;
  }());
}

TEST(TcpTest, AHugeTransferLeavesOthersTheirTurn) {
  // Sender and receiver keep each other going on two threads; the rest of the program goes on.
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    std::string const much = megabytes(256);
    std::string got(much.size(), '\0');
    std::atomic<bool> over{false};
    auto sends = spawn([](tcp_stream& to, const std::string& what) -> task<void> { co_await to.write_all(what); }(near, much));
    auto reads = spawn([](tcp_stream& from, std::string& into, std::atomic<bool>& end) -> task<void> {
      co_await from.read_exact(bytes_of(into));
      end = true;
    }(far, got, over));
    std::size_t turns = 0;
    while (!over) {
      co_await yield();
      ++turns;
    }
    EXPECT_GT(turns, 100U);
    co_await sends;
    co_await reads;
    EXPECT_TRUE(got == much);
  }());
}

TEST(TcpTest, AStreamServesTasksOnAnyWorker) {
  runtime rt{{.threads = 2}};
  rt.block_on([]() -> task<void> {
    auto [near, far] = co_await make_connection();
    for (int i = 0; i < 500; ++i) {
      auto other = spawn([](tcp_stream& from) -> task<std::string> { co_return co_await read_text(from, 3); }(far));
      co_await near.write_all("abc");
      EXPECT_EQ(co_await other, "abc");
    }
  }());
}

TEST(TcpTest, ASimulatedRuntimeRefusesToWaitForASocket) {
  sim_runtime sim{1};
  auto listener = tcp_listener::bind({});
  error const e = thrown_by([&] { sim.block_on([](tcp_listener& at) -> task<void> { co_await at.accept(); }(listener)); });
  EXPECT_EQ(e.reason(), errc::not_supported);
  EXPECT_NE(std::string{e.what()}.find("simulated"), std::string::npos) << e.what();
}

TEST(TcpDeathTest, ASocketThatOutlivesItsRuntimeEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        connection kept;
        runtime rt{{.threads = 1}};
        kept = rt.block_on(make_connection());
        auto waits = rt.spawn(read_text(kept.near, 1));
        rt.settle();
      },
      "outlives its runtime");
}

TEST(EndpointTest, ReadsAndWritesAddresses) {
  for (const char* const text : {"127.0.0.1", "0.0.0.0", "255.1.2.3", "::1", "::", "2001:db8::7"}) {
    auto const address = ip_address::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const char* const text : {"", "localhost", "1.2.3", "1.2.3.256", ":::", "127.0.0.1 ", "fe80::1%nosuch0"}) {
    EXPECT_FALSE(ip_address::parse(text)) << text;
  }
  for (const char* const text : {"127.0.0.1:80", "[::1]:65535", "0.0.0.0:0"}) {
    auto const end = endpoint::parse(text);
    ASSERT_TRUE(end) << text;
    EXPECT_EQ(end->text(), text);
  }
  for (const char* const text : {"127.0.0.1", "::1:80", "127.0.0.1:65536", "127.0.0.1:", "[127.0.0.1]:1", "a:1"}) {
    EXPECT_FALSE(endpoint::parse(text)) << text;
  }
  EXPECT_TRUE(ip_address::parse("127.9.9.9")->is_loopback());
  EXPECT_FALSE(ip_address::any_v6().is_loopback());
  EXPECT_EQ(ip_address{}, ip_address::loopback_v4());
}

}  // namespace
}  // namespace ergon
