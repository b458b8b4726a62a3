// A small protocol over TCP and over a unix socket: the server and the client take a `byte_stream` and do not know which. Each line is
// answered with itself in capitals; a client that says nothing for too long is dropped.
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>

#include <ergon/base/error.hpp>
#include <ergon/runtime/byte_stream.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/tcp.hpp>
#include <ergon/runtime/unix_socket.hpp>

using namespace std::chrono_literals;

/// One line, without its end; nothing when the other side has ended.
ergon::task<std::string> read_line(ergon::byte_stream& from) {
  std::string line;
  char one = 0;
  // Byte by byte, to be short: a real protocol keeps a buffer.
  while (co_await from.read_some(std::as_writable_bytes(std::span{&one, 1}), {.timeout = 10s}) != 0 && one != '\n') line += one;
  co_return line;
}

ergon::task<void> serve(ergon::byte_stream peer) {
  try {
    for (;;) {
      std::string line = co_await read_line(peer);
      if (line.empty()) co_return;
      for (char& c : line) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      co_await peer.write_all(line + '\n');
    }
  } catch (const ergon::error& e) {
    std::cout << "a client is gone: " << e.what() << "\n";
  }
}

ergon::task<void> accept_all(ergon::tcp_listener& listener, ergon::task_group& group) {
  for (;;) group.spawn(serve(co_await listener.accept()));
}
ergon::task<void> accept_all(ergon::unix_listener& listener, ergon::task_group& group) {
  for (;;) group.spawn(serve(co_await listener.accept()));
}

ergon::task<std::string> ask(ergon::byte_stream server, std::string line) {
  co_await server.write_all(line + '\n');
  co_return co_await read_line(server);
}

ergon::task<void> show() {
  auto const path = std::filesystem::temp_directory_path() / ("ergon-example-" + std::to_string(::getpid()));
  auto over_tcp = ergon::tcp_listener::bind({.port = 0});
  auto over_unix = ergon::unix_listener::bind(path);
  std::uint16_t const port = over_tcp.local_endpoint().port;

  co_await ergon::with_group([&](ergon::task_group& group) -> ergon::task<void> {
    group.spawn(accept_all(over_tcp, group));
    group.spawn(accept_all(over_unix, group));

    std::cout << co_await ask(co_await ergon::tcp_stream::connect("localhost", port, {.timeout = 5s}), "over tcp") << "\n";
    std::cout << co_await ask(co_await ergon::unix_stream::connect(path), "over a unix socket") << "\n";
    // The listeners, and whoever is still served.
    group.cancel();
  });

  over_tcp.close();
  try {
    co_await ergon::tcp_stream::connect("127.0.0.1", port);
  } catch (const ergon::error& e) {
    std::cout << (e.reason() == ergon::errc::unavailable ? "refused, as it should be\n" : e.what());
  }
}

int main() {
  ergon::runtime rt{{.threads = 2}};
  rt.block_on(show());
}
