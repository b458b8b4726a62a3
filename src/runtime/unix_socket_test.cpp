// Unix sockets: connections, the file that stands for a listener, and who may use it.
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/unix_socket.hpp>

#include "runtime/socket_test_tools.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

class UnixSocketTest : public FolderTest {
 protected:
  [[nodiscard]] std::string path() const { return folder / "socket"; }
};

task<void> talk(std::string path) {
  auto listener = unix_listener::bind(path);
  auto connecting = spawn(unix_stream::connect(path, {.timeout = 1h}));
  auto far = co_await listener.accept();
  auto near = co_await connecting;
  EXPECT_EQ(far.peer_user(), ::getuid());
  EXPECT_EQ(near.name(), "unix " + path);
  co_await near.write_all("ping");
  EXPECT_EQ(co_await read_text(far, 4), "ping");
  co_await far.write_all("pong");
  co_await far.shutdown_send();
  EXPECT_EQ(co_await read_text(near, 4), "pong");
  std::array<std::byte, 1> byte;
  EXPECT_EQ(co_await near.read_some(byte), 0U);
  auto waiting = spawn([](unix_listener& at) -> task<void> { co_await at.accept(); }(listener));
  co_await yield();
  listener.close();
  EXPECT_EQ((co_await as_result(waiting)).error(), errc::closed);
}

TEST_F(UnixSocketTest, CarriesBytesBothWays) {
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    rt.block_on(talk(path()));
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
}

TEST_F(UnixSocketTest, APairIsConnected) {
  runtime rt{{.threads = 1}};
  rt.block_on([]() -> task<void> {
    auto [one, other] = unix_stream::pair();
    auto reading = spawn(read_text(other, 2));
    co_await yield();
    co_await one.write_all("hi");
    EXPECT_EQ(co_await reading, "hi");
  }());
}

TEST_F(UnixSocketTest, OnlyItsUserMayConnectUnlessToldOtherwise) {
  struct ::stat found{};
  {
    auto const listener = unix_listener::bind(path());
    ASSERT_EQ(::stat(path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
  }
  auto const listener = unix_listener::bind(path(), {.mode = 0660});
  ASSERT_EQ(::stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0660U);
}

TEST_F(UnixSocketTest, ReplacesASocketThatNobodyListensAt) {
  // As a process that was killed leaves it.
  {
    auto left = unix_listener::bind(path());
    std::filesystem::rename(path(), folder / "kept");
  }
  std::filesystem::rename(folder / "kept", path());
  ASSERT_TRUE(std::filesystem::is_socket(path()));
  auto const again = unix_listener::bind(path());
  EXPECT_TRUE(std::filesystem::is_socket(path()));
}

TEST_F(UnixSocketTest, LeavesASocketThatSomebodyListensAt) {
  auto const first = unix_listener::bind(path());
  error const e = thrown_by([&] { static_cast<void>(unix_listener::bind(path())); });
  EXPECT_EQ(e.reason(), errc::unavailable);
  EXPECT_NE(std::string{e.what()}.find(path()), std::string::npos) << e.what();
  EXPECT_TRUE(std::filesystem::is_socket(path()));
}

TEST_F(UnixSocketTest, LeavesAFileThatIsNoSocket) {
  std::ofstream{path()} << "precious";
  error const e = thrown_by([&] { static_cast<void>(unix_listener::bind(path())); });
  EXPECT_EQ(e.reason(), errc::unavailable);
  std::string kept;
  std::ifstream{path()} >> kept;
  EXPECT_EQ(kept, "precious");
}

TEST_F(UnixSocketTest, RemovesOnlyItsOwnFile) {
  auto listener = unix_listener::bind(path());
  std::filesystem::remove(path());
  std::ofstream{path()} << "another's";
  listener.close();
  EXPECT_TRUE(std::filesystem::exists(path()));
  auto const moved = [&] {
    auto made = unix_listener::bind(path() + "2");
    unix_listener into;
    into = std::move(made);
    return into;
  }();
  EXPECT_TRUE(std::filesystem::exists(path() + "2"));
}

TEST_F(UnixSocketTest, WhoConnectsToNobodyIsToldThePath) {
  runtime rt{{.threads = 1}};
  error const e = thrown_by([&] { rt.block_on(unix_stream::connect(path())); });
  EXPECT_EQ(e.reason(), errc::unavailable);
  EXPECT_NE(std::string{e.what()}.find(path()), std::string::npos) << e.what();
  EXPECT_EQ(thrown_by([&] { rt.block_on(unix_stream::connect(std::string(200, 'x'))); }).reason(), errc::invalid_argument);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(unix_listener::bind("")); }).reason(), errc::invalid_argument);
}

TEST_F(UnixSocketTest, WaitsWhileTheListenersQueueIsFull) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  auto listener = unix_listener::bind(path(), {.backlog = 0});
  std::vector<join_handle<unix_stream>> connecting;
  for (int i = 0; i < 4; ++i) {
    connecting.push_back(rt.spawn(unix_stream::connect(path())));
  }
  auto late = rt.spawn(unix_stream::connect(path(), {.timeout = 10ms}));
  rt.settle();
  clock.advance(10ms);
  EXPECT_EQ(thrown_by([&] { rt.block_on([](join_handle<unix_stream>& h) -> task<void> { co_await h; }(late)); }).reason(),
            errc::timed_out);
  auto accepting = rt.spawn([](unix_listener& at) -> task<void> {
    for (int i = 0; i < 4; ++i) {
      co_await at.accept();
    }
  }(listener));
  while (!accepting.done()) {
    rt.settle();
    clock.advance(50ms);
  }
  for (auto& each : connecting) {
    EXPECT_TRUE(rt.block_on([](join_handle<unix_stream>& h) -> task<bool> { co_return static_cast<bool>(co_await h); }(each)));
  }
}

}  // namespace
}  // namespace ergon
