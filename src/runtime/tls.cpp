// TLS as a filter of a socket: OpenSSL's state machine, under the socket's lock, with a BIO that makes the system calls and never waits.
#include <ergon/runtime/tls.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/runtime/sleep.hpp>

#include "runtime/named_timeout.hpp"
#include "runtime/socket.hpp"

namespace ergon {

namespace detail {

class tls_settings {
 public:
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context{nullptr, &::SSL_CTX_free};
  bool is_server = false;
  bool verify = true;
  std::string server_name;
};

namespace {

// So many bytes are moved before others get their turn.
constexpr std::size_t most_in_a_row = 64 * 1024;

// The oldest entry of the thread's list, which is emptied.
std::string openssl_text() {
  unsigned long const code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) {
    return "no reason is known";
  }
  if (ERR_SYSTEM_ERROR(code)) {
    return system_text(ERR_GET_REASON(code));
  }
  const char* const reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

std::string subject_of(X509* certificate) {
  std::unique_ptr<BIO, decltype(&::BIO_free)> const text{::BIO_new(::BIO_s_mem()), &::BIO_free};
  ::X509_NAME_print_ex(text.get(), ::X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* data = nullptr;
  auto const size = BIO_get_mem_data(text.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : "no name";
}

// The hosts that a certificate is for.
std::string hosts_of(X509* certificate) {
  std::string all;
  auto* const names = static_cast<GENERAL_NAMES*>(::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    std::string one;
    if (name->type == GEN_DNS) {
      const auto* const bytes = reinterpret_cast<const char*>(::ASN1_STRING_get0_data(name->d.dNSName));
      one.assign(bytes, static_cast<std::size_t>(::ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const unsigned char* const bytes = ::ASN1_STRING_get0_data(name->d.iPAddress);
      std::array<std::uint8_t, 16> address{};
      auto const size = static_cast<std::size_t>(::ASN1_STRING_length(name->d.iPAddress));
      std::copy_n(bytes, std::min(size, address.size()), address.begin());
      one = (size == 4 ? ip_address::v4({address[0], address[1], address[2], address[3]}) : ip_address::v6(address)).text();
    }
    if (!one.empty()) {
      all += (all.empty() ? "" : ", ") + one;
    }
  }
  ::GENERAL_NAMES_free(names);
  return all.empty() ? "none" : all;
}

class tls_filter final : public stream_filter {
 public:
  tls_filter(std::shared_ptr<const tls_settings> settings, const std::string& host);

  io_step perform(stream_operation& op, int descriptor) noexcept override;
  void closing(int descriptor) noexcept override;
  [[noreturn]] void fail(const stream_operation& op, const std::string& name) const override;

  [[nodiscard]] std::string protocol() const { return ::SSL_get_version(ssl_.get()); }

 private:
  struct failure {
    errc code = errc::connection_lost;
    std::string text;
  };

  static BIO_METHOD* method();
  static int on_write(BIO* bio, const char* from, int size);
  static int on_read(BIO* bio, char* into, int size);
  static long on_control(BIO* bio, int command, long, void*);
  static int on_verify(int accepted, X509_STORE_CTX* chain);

  // A reader and a writer may fail at the same time.
  [[nodiscard]] failure& failure_of(const stream_operation& op) noexcept { return failures_[reads(op) ? 0 : 1]; }
  static bool reads(const stream_operation& op) noexcept {
    return op.action == stream_action::read_some || op.action == stream_action::read_exact;
  }
  io_step move(stream_operation& op) noexcept;
  io_step ended(stream_operation& op, int result) noexcept;
  io_step failed(stream_operation& op, errc code, std::string text) noexcept;

  std::shared_ptr<const tls_settings> settings_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl_{nullptr, &::SSL_free};
  std::string host_;
  int descriptor_ = -1;
  /// Of the last system call; 0: the other side has ended its sending.
  int error_ = 0;
  bool at_end_ = false;
  bool shaken_ = false;
  bool broken_ = false;
  // Part of a record was sent, of bytes that the operation under way still holds; or held, if it was stopped.
  bool sends_record_ = false;
  std::string distrust_;
  std::array<failure, 2> failures_;
};

BIO_METHOD* tls_filter::method() {
  // Never freed: connections may end after the statics of a program.
  static BIO_METHOD* const only = [] {
    BIO_METHOD* const made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ergon socket");
    if (made == nullptr) {
      throw std::bad_alloc();
    }
    ::BIO_meth_set_write(made, &on_write);
    ::BIO_meth_set_read(made, &on_read);
    ::BIO_meth_set_ctrl(made, &on_control);
    return made;
  }();
  return only;
}

int tls_filter::on_write(BIO* bio, const char* from, int size) {
  auto& self = *static_cast<tls_filter*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ::ssize_t n = 0;
  do {
    n = ::send(self.descriptor_, from, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      BIO_set_retry_write(bio);
    } else {
      self.error_ = errno;
    }
  }
  return static_cast<int>(n);
}

int tls_filter::on_read(BIO* bio, char* into, int size) {
  auto& self = *static_cast<tls_filter*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ::ssize_t n = 0;
  do {
    n = ::recv(self.descriptor_, into, static_cast<std::size_t>(size), 0);
  } while (n < 0 && errno == EINTR);
  if (n == 0) {
    self.at_end_ = true;
  } else if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      BIO_set_retry_read(bio);
    } else {
      self.error_ = errno;
    }
  }
  return static_cast<int>(n);
}

long tls_filter::on_control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return static_cast<tls_filter*>(::BIO_get_data(bio))->at_end_ ? 1 : 0;
    default:
      return 0;
  }
}

int tls_filter::on_verify(int accepted, X509_STORE_CTX* chain) {
  if (accepted == 0) {
    auto* const ssl = static_cast<SSL*>(::X509_STORE_CTX_get_ex_data(chain, ::SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& self = *static_cast<tls_filter*>(SSL_get_app_data(ssl));
    int const why = ::X509_STORE_CTX_get_error(chain);
    X509* const of = ::X509_STORE_CTX_get_current_cert(chain);
    if (self.distrust_.empty()) {
      if (why == X509_V_ERR_HOSTNAME_MISMATCH || why == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        self.distrust_ =
            "its certificate is for other hosts than \"" + self.host_ + "\": " + (of != nullptr ? hosts_of(of) : "none");
      } else {
        self.distrust_ = std::string{::X509_verify_cert_error_string(why)} + " (certificate of \"" +
                         (of != nullptr ? subject_of(of) : "nobody") + "\")";
      }
    }
  }
  return accepted;
}

tls_filter::tls_filter(std::shared_ptr<const tls_settings> settings, const std::string& host)
    : settings_(std::move(settings)), host_(host) {
  ssl_.reset(::SSL_new(settings_->context.get()));
  BIO* const bio = ssl_ != nullptr ? ::BIO_new(method()) : nullptr;
  if (bio == nullptr) {
    throw std::bad_alloc();
  }
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  ::SSL_set_verify(ssl_.get(), ::SSL_CTX_get_verify_mode(settings_->context.get()), &on_verify);
  if (settings_->is_server) {
    ::SSL_set_accept_state(ssl_.get());
    return;
  }
  ::SSL_set_connect_state(ssl_.get());
  bool const is_address = ip_address::parse(host).has_value();
  if (!host.empty() && !is_address && SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) != 1) {
    throw error(errc::invalid_argument, "\"" + host + "\" is no host name that TLS can ask for: " + openssl_text());
  }
  if (settings_->verify) {
    bool const set = is_address ? ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl_.get()), host.c_str()) == 1
                                : ::SSL_set1_host(ssl_.get(), host.c_str()) == 1;
    if (!set) {
      throw error(errc::invalid_argument, "\"" + host + "\" is no host name that a certificate can be for");
    }
  }
}

io_step tls_filter::failed(stream_operation& op, errc code, std::string text) noexcept {
  op.failure = stream_operation::see_state;
  failure_of(op) = {code, std::move(text)};
  return io_step::ended;
}

io_step tls_filter::perform(stream_operation& op, int descriptor) noexcept {
  descriptor_ = descriptor;
  if (op.action == stream_action::write_all || op.action == stream_action::shutdown_send) {
    if (sends_record_ && !op.begun) {
      return failed(op, errc::connection_lost,
                    "an earlier write was stopped midway, and what follows it would not be understood");
    }
  }
  ::ERR_clear_error();
  error_ = 0;
  return move(op);
}

io_step tls_filter::move(stream_operation& op) noexcept {
  std::size_t moved = 0;
  switch (op.action) {
    case stream_action::read_some:
    case stream_action::read_exact:
      while (op.done < op.size) {
        std::size_t n = 0;
        int const result = ::SSL_read_ex(ssl_.get(), op.data + op.done, op.size - op.done, &n);
        if (result != 1) {
          // Part of a `read_some` is its end.
          return op.action == stream_action::read_some && op.done != 0 ? io_step::ended : ended(op, result);
        }
        op.done += n;
        moved += n;
        if (op.action == stream_action::read_some && ::SSL_pending(ssl_.get()) == 0) {
          break;
        }
        if (moved >= most_in_a_row && op.done < op.size) {
          return io_step::again;
        }
      }
      return io_step::ended;
    case stream_action::write_all:
      while (op.done < op.size) {
        std::size_t n = 0;
        int const result = ::SSL_write_ex(ssl_.get(), op.data + op.done, op.size - op.done, &n);
        if (result != 1) {
          return ended(op, result);
        }
        sends_record_ = false;
        op.done += n;
        moved += n;
        if (moved >= most_in_a_row && op.done < op.size) {
          return io_step::again;
        }
      }
      return io_step::ended;
    case stream_action::shutdown_send: {
      int const result = ::SSL_shutdown(ssl_.get());
      return result >= 0 ? io_step::ended : ended(op, result);
    }
    case stream_action::handshake: {
      int const result = ::SSL_do_handshake(ssl_.get());
      if (result == 1) {
        shaken_ = true;
        return io_step::ended;
      }
      return ended(op, result);
    }
    default:
      return io_step::ended;
  }
}

// What a call that did not succeed means.
io_step tls_filter::ended(stream_operation& op, int result) noexcept {
  switch (::SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return io_step::wants_read;
    case SSL_ERROR_WANT_WRITE:
      if (op.action == stream_action::write_all) {
        sends_record_ = op.begun = true;
      }
      return io_step::wants_write;
    case SSL_ERROR_ZERO_RETURN:
      if (op.action != stream_action::read_some) {
        op.failure = op.action == stream_action::read_exact ? stream_operation::ended_early : EPIPE;
      }
      return io_step::ended;
    default:
      break;
  }
  broken_ = true;
  bool const shakes = op.action == stream_action::handshake;
  errc const code = shakes ? errc::unavailable : errc::connection_lost;
  if (!distrust_.empty()) {
    return failed(op, errc::not_trusted, distrust_);
  }
  if (error_ != 0) {
    return failed(op, code, system_text(error_));
  }
  if (at_end_) {
    return failed(op, code,
                  shakes ? "the other side ended the connection"
                         : "the other side ended the connection without ending the TLS session: what came may be cut off");
  }
  return failed(op, code, openssl_text());
}

void tls_filter::closing(int descriptor) noexcept {
  if (shaken_ && !broken_ && !sends_record_) {
    descriptor_ = descriptor;
    ::ERR_clear_error();
    ::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
  }
}

void tls_filter::fail(const stream_operation& op, const std::string& name) const {
  const failure& why = failures_[reads(op) ? 0 : 1];
  const char* const what = op.action == stream_action::handshake ? "the TLS handshake with "
                           : reads(op)                           ? "reading from "
                                                                 : "writing to ";
  throw error(why.code, what + name + " failed: " + why.text);
}

std::shared_ptr<tls_settings> make_settings(const SSL_METHOD* method) {
  auto made = std::make_shared<tls_settings>();
  made->context.reset(::SSL_CTX_new(method));
  SSL_CTX* const context = made->context.get();
  if (context == nullptr) {
    throw error(errc::unavailable, "TLS cannot be used: " + openssl_text());
  }
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  // Nobody here resumes a session, and a client that only writes and closes would break the connection over unread tickets.
  ::SSL_CTX_set_num_tickets(context, 0);
  return made;
}

[[noreturn]] void refuse_file(const char* what, const std::string& file) {
  throw error(errc::invalid_argument, std::string{what} + " \"" + file + "\" cannot be used: " + openssl_text());
}

void use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (certificate.empty() != key.empty()) {
    throw error(errc::invalid_argument, "TLS needs certificate_file and key_file, both or none; only \"" +
                                            (certificate.empty() ? key : certificate) + "\" was given");
  }
  if (certificate.empty()) {
    return;
  }
  ::ERR_clear_error();
  if (::SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    refuse_file("the certificate", certificate);
  }
  if (::SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse_file("the key", key);
  }
  if (::SSL_CTX_check_private_key(context) != 1) {
    refuse_file("the certificate does not go with the key; the key", key);
  }
}

void trust(SSL_CTX* context, const std::string& file) {
  ::ERR_clear_error();
  if (::SSL_CTX_load_verify_file(context, file.c_str()) != 1) {
    refuse_file("the file of trusted certificates", file);
  }
}

}  // namespace
}  // namespace detail

tls_context tls_context::client(tls_client_options options) {
  auto made = detail::make_settings(::TLS_client_method());
  SSL_CTX* const context = made->context.get();
  made->verify = options.verify;
  made->server_name = std::move(options.server_name);
  ::SSL_CTX_set_verify(context, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!options.ca_file.empty()) {
    detail::trust(context, options.ca_file);
  } else if (options.verify && ::SSL_CTX_set_default_verify_paths(context) != 1) {
    throw error(errc::unavailable, "the certificates that the system trusts cannot be found: " + detail::openssl_text());
  }
  detail::use_certificate(context, options.certificate_file, options.key_file);
  return tls_context{std::move(made)};
}

tls_context tls_context::server(tls_server_options options) {
  auto made = detail::make_settings(::TLS_server_method());
  SSL_CTX* const context = made->context.get();
  made->is_server = true;
  if (options.certificate_file.empty()) {
    throw error(errc::invalid_argument, "a TLS server needs a certificate: certificate_file is empty");
  }
  detail::use_certificate(context, options.certificate_file, options.key_file);
  made->verify = !options.client_ca_file.empty();
  if (made->verify) {
    detail::trust(context, options.client_ca_file);
    ::SSL_CTX_set_client_CA_list(context, ::SSL_load_client_CA_file(options.client_ca_file.c_str()));
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return tls_context{std::move(made)};
}

task<tls_stream> tls_stream::handshake(byte_stream over, tls_context context, std::string host, io_options options) {
  auto const& settings = context.settings_;
  auto* const socket = dynamic_cast<detail::socket*>(&*over.state_);
  if (socket == nullptr || socket->filter() != nullptr) {
    throw error(errc::invalid_argument, "TLS cannot be spoken over " + over.name() + ", only over a plain TCP or unix stream");
  }
  const std::string& name = !settings->server_name.empty() ? settings->server_name : host;
  if (!settings->is_server && settings->verify && name.empty()) {
    throw error(errc::invalid_argument,
                "the TLS handshake with " + over.name() +
                    " needs the name that the certificate must be for: give host, or tls_client_options::server_name");
  }
  socket->set_filter(std::make_unique<detail::tls_filter>(settings, name));
  socket->set_name("tls over " + socket->name());
  tls_stream stream{std::move(over.state_)};
  co_await detail::limited<detail::write_operation>{options.timeout, stream.state(), detail::stream_action::handshake,
                                                    std::span<const std::byte>{}};
  co_return stream;
}

task<tls_stream> tls_stream::connect_now(std::string host, std::uint16_t port, tls_context context, tcp_connect_options options) {
  auto carrier = co_await tcp_stream::connect(host, port, options);
  co_return co_await handshake(std::move(carrier), std::move(context), host);
}

task<tls_stream> tls_stream::connect(std::string host, std::uint16_t port, tls_context context, tcp_connect_options options) {
  auto const span = std::exchange(options.timeout, std::chrono::nanoseconds::max());
  std::string what = "connecting to " + host + ':' + std::to_string(port) + " with TLS";
  return detail::named_timeout(span, std::move(what), connect_now(std::move(host), port, std::move(context), options));
}

std::string tls_stream::protocol() const {
  return static_cast<detail::tls_filter&>(*static_cast<detail::socket&>(state()).filter()).protocol();
}

}  // namespace ergon
