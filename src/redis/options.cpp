// Reads connection options out of URLs.
#include <ergon/redis/options.hpp>

#include <charconv>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>

namespace ergon::redis {

namespace {

constexpr std::uint32_t most_databases = 65'536;

std::uint32_t database_in(const url& from) {
  std::string_view text = from.path;
  if (text.empty() || text == "/") return 0;
  text.remove_prefix(1);
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size() || number >= most_databases) {
    throw error{errc::bad_url, fmt::format("the path of {} is {}; it must be / and the number of a database, from 0 to {}",
                                           from.shown, quoted(from.path), most_databases - 1)};
  }
  return number;
}

tls_client_options read_tls(option_reader& options) {
  return {.ca_file = options.take_text("tls_ca", ""),
          .certificate_file = options.take_text("tls_cert", ""),
          .key_file = options.take_text("tls_key", ""),
          .server_name = options.take_text("tls_name", ""),
          .verify = options.take_bool("tls_verify", true)};
}

}  // namespace

std::string connection_options::shown() const {
  if (!socket_path.empty()) return fmt::format("redis unix:{}", socket_path);
  const bool v6 = host.contains(':');
  return fmt::format("{} {}{}{}:{}", tls ? "rediss" : "redis", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

connection_options read_options(const url& from, option_reader& options) {
  connection_options read;
  read.user = from.user;
  read.password = from.password;
  if (from.scheme == "unix") {
    if (from.path.empty()) throw error{errc::bad_url, fmt::format("{} names no socket; write unix:/path/to/socket", from.shown)};
    read.socket_path = from.path;
    read.database = options.take_number<std::uint32_t>("db", 0, 0, most_databases - 1);
    read.user = options.take_text("user", read.user);
    read.password = options.take_text("password", read.password);
  } else if (from.scheme == "redis" || from.scheme == "rediss") {
    if (!from.host.empty()) read.host = from.host;
    read.port = from.port.value_or(read.port);
    read.database = database_in(from);
    if (from.scheme == "rediss") read.tls = read_tls(options);
  } else {
    throw error{errc::unknown_scheme, fmt::format("the scheme of {} is none of Redis's: redis, rediss, unix", from.shown)};
  }
  using namespace std::chrono_literals;
  read.client_name = options.take_text("client_name", read.client_name);
  read.connect_timeout = options.take_duration("connect_timeout", read.connect_timeout, 1ms, 1h);
  read.response_timeout = options.take_duration("response_timeout", read.response_timeout, 10ms, 1h);
  read.patience = options.take_duration("patience", read.patience, 0ms, 1h);
  read.look_out = options.take_duration("look_out", read.look_out, 0ms, 100ms);
  read.connections = options.take_number<std::uint32_t>("connections", read.connections, 1, 64);
  return read;
}

connection_options read_options(std::string_view from) {
  const url parsed = parse_url(from);
  option_reader options{parsed};
  auto read = read_options(parsed, options);
  options.done();
  return read;
}

}  // namespace ergon::redis
