// TLS over loopback, with certificates that the test signs itself.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/task_group.hpp>
#include <ergon/runtime/tls.hpp>
#include <ergon/runtime/unix_socket.hpp>

#include "runtime/socket_test_tools.hpp"
#include "servers/certificates.hpp"

namespace ergon {
namespace {

using namespace std::chrono_literals;

using test::identity;
using test::make_identity;

class TlsTest : public FolderTest {
 protected:
  TlsTest() {
    authority = make_identity({.name = "ergon test authority", .is_authority = true});
    write(authority, "ca");
    write(make_identity({.name = "server", .hosts = "DNS:localhost,IP:127.0.0.1"}, &authority), "server");
  }

  void write(const identity& what, const std::string& name) const { test::write(what, folder, name); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder / name; }
  [[nodiscard]] tls_context server(const std::string& name = "server", const std::string& clients = "") const {
    return tls_context::server(
        {.certificate_file = file(name + ".pem"), .key_file = file(name + ".key"), .client_ca_file = clients});
  }
  [[nodiscard]] tls_context client() const { return tls_context::client({.ca_file = file("ca.pem")}); }

  /// What the client is told when it shakes hands with a server that shows `name`.
  error refused(tls_context server_side, tls_context client_side, const std::string& host = "localhost") {
    runtime rt{{.threads = 2}};
    try {
      rt.block_on(attempt(std::move(server_side), std::move(client_side), host));
    } catch (const error& e) {
      return e;
    }
    ADD_FAILURE() << "it was accepted";
    return {errc::invalid_argument, ""};
  }
  static task<void> attempt(tls_context server_side, tls_context client_side, std::string host) {
    auto listener = tcp_listener::bind({});
    auto accepting = spawn([](tcp_listener& at, tls_context context) -> task<void> {
      auto far = co_await tls_stream::handshake(co_await at.accept(), std::move(context));
      std::array<std::byte, 1> byte;
      static_cast<void>(co_await far.read_some(byte));
    }(listener, std::move(server_side)));
    std::exception_ptr failure;
    try {
      auto carrier = co_await tcp_stream::connect(listener.local_endpoint());
      auto near = co_await tls_stream::handshake(std::move(carrier), std::move(client_side), host);
    } catch (...) {
      failure = std::current_exception();
    }
    bool other_failed = false;
    try {
      co_await accepting;
    } catch (const error&) {
      other_failed = true;
    }
    EXPECT_EQ(other_failed, failure != nullptr);
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
  }

  identity authority;
};

bool says(const error& e, const std::string& text) {
  bool const found = std::string{e.what()}.find(text) != std::string::npos;
  EXPECT_TRUE(found) << "\"" << text << "\" is not in: " << e.what();
  return found;
}

struct connection {
  tls_stream near;
  tls_stream far;
};
task<connection> make_connection(tls_context server_side, tls_context client_side) {
  auto listener = tcp_listener::bind({});
  auto near = spawn(tls_stream::connect("127.0.0.1", listener.local_endpoint().port, std::move(client_side), {.timeout = 1h}));
  auto far = co_await tls_stream::handshake(co_await listener.accept(), std::move(server_side));
  co_return connection{co_await near, std::move(far)};
}

TEST_F(TlsTest, CarriesBytesBothWaysAndAnnouncesTheEnd) {
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
      auto [near, far] = co_await make_connection(server_side, client_side);
      EXPECT_EQ(near.protocol(), "TLSv1.3");
      co_await near.write_all("ping");
      EXPECT_EQ(co_await read_text(far, 4), "ping");
      co_await far.write_all("pong");
      co_await far.shutdown_send();
      EXPECT_EQ(co_await read_text(near, 4), "pong");
      std::array<std::byte, 1> byte;
      EXPECT_EQ(co_await near.read_some(byte), 0U);
      co_await near.write_all("more");
      near.close();
      EXPECT_EQ(co_await read_text(far, 4), "more");
      EXPECT_EQ(co_await far.read_some(byte), 0U);
    }(server(), client()));
  }
}

TEST_F(TlsTest, OneReadsAndOneWritesMuchAtTheSameTime) {
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
      auto both = co_await make_connection(server_side, client_side);
      std::size_t const size = 12'000'000;
      std::string much;
      much.resize(size);
      for (std::size_t i = 0; i < much.size(); ++i) {
        much[i] = static_cast<char>(i * 31 + i / 253);
      }
      auto sends = [](byte_stream& to, const std::string& what) -> task<void> { co_await to.write_all(what); };
      auto reads = [](byte_stream& from, const std::string& what) -> task<void> {
        EXPECT_TRUE(co_await read_text(from, what.size()) == what);
      };
      co_await with_group([&](task_group& group) -> task<void> {
        for (tls_stream* const each : {&both.near, &both.far}) {
          group.spawn(sends(*each, much));
          group.spawn(reads(*each, much));
        }
        co_return;
      });
    }(server(), client()));
  }
}

TEST_F(TlsTest, ServesManyConnections) {
  runtime rt{{.threads = 4}};
  rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
    auto talk = [](tls_context one, tls_context other) -> task<void> {
      auto [near, far] = co_await make_connection(std::move(one), std::move(other));
      for (int i = 0; i < 20; ++i) {
        co_await near.write_all("12345678");
        co_await far.write_all(co_await read_text(far, 8));
        EXPECT_EQ(co_await read_text(near, 8), "12345678");
      }
    };
    co_await with_group([&](task_group& group) -> task<void> {
      for (int i = 0; i < 30; ++i) {
        group.spawn(talk(server_side, client_side));
      }
      co_return;
    });
  }(server(), client()));
}

TEST_F(TlsTest, RunsOverAUnixSocket) {
  runtime rt{{.threads = 1}};
  rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
    auto [one, other] = unix_stream::pair();
    auto near = spawn(tls_stream::handshake(std::move(one), client_side, "localhost"));
    auto far = co_await tls_stream::handshake(std::move(other), server_side);
    auto stream = co_await near;
    co_await stream.write_all("x");
    EXPECT_EQ(co_await read_text(far, 1), "x");
  }(server(), client()));
}

TEST_F(TlsTest, ACertificateForAnotherHostIsRefusedWithBothNames) {
  write(make_identity({.name = "other", .hosts = "DNS:db.example,IP:192.0.2.1"}, &authority), "other");
  error const e = refused(server("other"), client());
  EXPECT_EQ(e.reason(), errc::not_trusted);
  says(e, "\"localhost\"");
  says(e, "db.example, 192.0.2.1");
  error const f = refused(server("other"), client(), "127.0.0.1");
  EXPECT_EQ(f.reason(), errc::not_trusted);
  says(f, "\"127.0.0.1\"");
}

TEST_F(TlsTest, ASelfSignedCertificateIsRefused) {
  write(make_identity({.name = "myself", .hosts = "DNS:localhost"}), "myself");
  error const e = refused(server("myself"), client());
  EXPECT_EQ(e.reason(), errc::not_trusted);
  says(e, "self-signed certificate");
  says(e, "CN = myself");
}

TEST_F(TlsTest, ACertificateOfAnAuthorityThatNobodyKnowsIsRefused) {
  identity const stranger = make_identity({.name = "stranger", .is_authority = true});
  write(make_identity({.name = "foreign", .hosts = "DNS:localhost"}, &stranger), "foreign");
  error const e = refused(server("foreign"), client());
  EXPECT_EQ(e.reason(), errc::not_trusted);
  says(e, "issuer certificate");
}

TEST_F(TlsTest, AnExpiredCertificateIsRefused) {
  write(make_identity({.name = "old", .hosts = "DNS:localhost", .from = -7200, .until = -3600}, &authority), "old");
  error const e = refused(server("old"), client());
  EXPECT_EQ(e.reason(), errc::not_trusted);
  says(e, "expired");
}

TEST_F(TlsTest, WithoutVerificationAnyCertificateWillDo) {
  write(make_identity({.name = "myself", .hosts = "DNS:elsewhere"}), "myself");
  runtime rt{{.threads = 2}};
  rt.block_on(attempt(server("myself"), tls_context::client({.verify = false}), ""));
}

TEST_F(TlsTest, TheNameInTheOptionsGoesBeforeTheHost) {
  write(make_identity({.name = "other", .hosts = "DNS:db.example"}, &authority), "other");
  runtime rt{{.threads = 2}};
  rt.block_on(
      attempt(server("other"), tls_context::client({.ca_file = file("ca.pem"), .server_name = "db.example"}), "localhost"));
}

TEST_F(TlsTest, AClientThatMustShowItselfIsAcceptedWithItsCertificateOnly) {
  write(make_identity({.name = "a client"}, &authority), "client");
  runtime rt{{.threads = 2}};
  rt.block_on(attempt(
      server("server", file("ca.pem")),
      tls_context::client({.ca_file = file("ca.pem"), .certificate_file = file("client.pem"), .key_file = file("client.key")}),
      "localhost"));
  // With TLS 1.3 the client learns of it by its first read.
  rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
    auto listener = tcp_listener::bind({});
    auto accepting = spawn([](tcp_listener& at, tls_context context) -> task<void> {
      auto far = co_await tls_stream::handshake(co_await at.accept(), std::move(context));
    }(listener, std::move(server_side)));
    auto near = co_await tls_stream::connect("localhost", listener.local_endpoint().port, std::move(client_side));
    try {
      co_await read_text(near, 1);
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::connection_lost);
      says(e, "certificate");
    }
    try {
      co_await accepting;
      ADD_FAILURE();
    } catch (const error& e) {
      says(e, "peer did not return a certificate");
    }
  }(server("server", file("ca.pem")), client()));
}

TEST_F(TlsTest, AConnectionThatBreaksOffWithoutAnEndIsAnErrorForItsReader) {
  runtime rt{{.threads = 2}};
  rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
    auto listener = tcp_listener::bind({});
    auto between = tcp_listener::bind({});
    // A man in the middle who passes on what he gets, and hangs up when he is told.
    auto pass = [](tcp_stream& from, tcp_stream& to) -> task<void> {
      std::array<std::byte, 4096> buffer;
      while (std::size_t const n = co_await from.read_some(buffer)) {
        co_await to.write_all(std::span{buffer}.first(n));
      }
    };
    auto connecting = spawn(tls_stream::connect("127.0.0.1", between.local_endpoint().port, client_side));
    auto front = co_await between.accept();
    auto accepting = spawn([](tcp_listener& at, tls_context context) -> task<tls_stream> {
      co_return co_await tls_stream::handshake(co_await at.accept(), std::move(context));
    }(listener, server_side));
    auto back = co_await tcp_stream::connect(listener.local_endpoint());
    auto there = spawn(pass(front, back));
    auto again = spawn(pass(back, front));
    auto near = co_await connecting;
    auto far = co_await accepting;
    co_await far.write_all("half");
    EXPECT_EQ(co_await read_text(near, 4), "half");
    there.cancel();
    again.cancel();
    static_cast<void>(co_await as_result(there));
    static_cast<void>(co_await as_result(again));
    front.close();
    try {
      std::array<std::byte, 1> byte;
      static_cast<void>(co_await near.read_some(byte));
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::connection_lost);
      says(e, "cut off");
    }
  }(server(), client()));
}

TEST_F(TlsTest, WhoSpeaksNoTlsIsRefused) {
  runtime rt{{.threads = 2}};
  rt.block_on([](tls_context client_side) -> task<void> {
    auto listener = tcp_listener::bind({});
    auto plain = spawn([](tcp_listener& at) -> task<void> {
      auto far = co_await at.accept();
      co_await far.write_all("220 welcome to the wrong port\r\n");
      std::array<std::byte, 1000> buffer;
      static_cast<void>(co_await far.read_some(buffer));
    }(listener));
    try {
      co_await tls_stream::connect("localhost", listener.local_endpoint().port, client_side);
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::unavailable);
      says(e, "wrong version");
    }
    static_cast<void>(co_await as_result(plain));
  }(client()));
}

TEST_F(TlsTest, ASilentServerRunsIntoTheTimeout) {
  manual_clock clock;
  runtime rt{{.threads = 1, .clock = &clock}};
  auto listener = tcp_listener::bind({});
  auto connecting = rt.spawn(tls_stream::connect("127.0.0.1", listener.local_endpoint().port, client(), {.timeout = 5s}));
  rt.settle();
  clock.advance(5s);
  try {
    rt.block_on([](join_handle<tls_stream>& h) -> task<void> { co_await h; }(connecting));
    ADD_FAILURE();
  } catch (const error& e) {
    EXPECT_EQ(e.reason(), errc::timed_out);
    says(e, "127.0.0.1:");
  }
}

TEST_F(TlsTest, AWriteThatWasStoppedMidwayBreaksTheSending) {
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
      auto [near, far] = co_await make_connection(server_side, client_side);
      std::string const much(1'000'000, 'x');
      auto writes = [](byte_stream& to, const std::string& what) -> task<std::string> {
        try {
          co_await to.write_all(what);
        } catch (const error& e) {
          EXPECT_EQ(e.reason(), errc::connection_lost);
          co_return e.what();
        }
        co_return "";
      };
      // Nobody reads: when what lies between is full, one is stopped in the middle of a record, and the next one is told.
      std::string told;
      while (told.empty()) {
        auto writing = spawn(writes(near, much));
        for (int i = 0; i < 100; ++i) {
          co_await yield();
        }
        writing.cancel();
        told = (co_await as_result(writing)).value_or("");
      }
      EXPECT_NE(told.find("stopped midway"), std::string::npos) << told;
    }(server(), client()));
  }
}

TEST_F(TlsTest, ACancelEndsAReadAndCloseEndsBoth) {
  for (unsigned const threads : {1U, 4U}) {
    runtime rt{{.threads = threads}};
    rt.block_on([](tls_context server_side, tls_context client_side) -> task<void> {
      auto [near, far] = co_await make_connection(server_side, client_side);
      auto reading = spawn(read_text(near, 1));
      co_await yield();
      reading.cancel();
      EXPECT_FALSE((co_await as_result(reading)).has_value());
      co_await far.write_all("z");
      EXPECT_EQ(co_await read_text(near, 1), "z");
      auto again = spawn(read_text(near, 1));
      co_await yield();
      near.close();
      EXPECT_EQ((co_await as_result(again)).error(), errc::closed);
    }(server(), client()));
  }
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  std::ofstream{file("garbage.pem")} << "no certificate";
  for (const std::string& name : {file("nowhere.pem"), file("garbage.pem")}) {
    try {
      static_cast<void>(tls_context::client({.ca_file = name}));
      ADD_FAILURE();
    } catch (const error& e) {
      EXPECT_EQ(e.reason(), errc::invalid_argument);
      says(e, name);
    }
  }
  EXPECT_THROW(static_cast<void>(tls_context::client({.certificate_file = file("server.pem")})), error);
  EXPECT_THROW(static_cast<void>(tls_context::server({})), error);
  EXPECT_THROW(static_cast<void>(tls_context::server({.certificate_file = file("server.pem"), .key_file = file("ca.key")})),
               error);
  error const e = [&]() -> error {
    runtime rt{{.threads = 1}};
    try {
      auto [one, other] = unix_stream::pair();
      rt.block_on(tls_stream::handshake(std::move(one), client()));
    } catch (const error& thrown) {
      return thrown;
    }
    return {errc::closed, ""};
  }();
  EXPECT_EQ(e.reason(), errc::invalid_argument);
}

}  // namespace
}  // namespace ergon
