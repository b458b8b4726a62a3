#include "servers/certificates.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>

#include <ergon/base/error.hpp>

namespace ergon::test {
namespace {

void add_extension(X509* to, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* const made = ::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (made == nullptr) throw error(errc::invalid_argument, "the test kit: OpenSSL makes no extension of \"" + value + "\"");
  ::X509_add_ext(to, made, -1);
  ::X509_EXTENSION_free(made);
}

template <class Put>
void put_into(const std::filesystem::path& file, Put put) {
  std::FILE* const open = std::fopen(file.c_str(), "w");
  if (open == nullptr) throw error(errc::unavailable, "the test kit: cannot write " + file.string());
  put(open);
  std::fclose(open);
}

}  // namespace

identity make_identity(const identity_options& what, const identity* by) {
  identity made{key_ptr{EVP_EC_gen("P-256")}, certificate_ptr{::X509_new()}};
  X509* const x = made.certificate.get();
  ::X509_set_version(x, X509_VERSION_3);
  static std::atomic<long> serial{1};
  ::ASN1_INTEGER_set(::X509_get_serialNumber(x), serial++);
  ::X509_gmtime_adj(X509_getm_notBefore(x), what.from);
  ::X509_gmtime_adj(X509_getm_notAfter(x), what.until);
  ::X509_set_pubkey(x, made.key.get());
  X509_NAME* const name = ::X509_get_subject_name(x);
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(what.name.c_str()), -1, -1, 0);
  X509* const issuer = by != nullptr ? by->certificate.get() : x;
  ::X509_set_issuer_name(x, ::X509_get_subject_name(issuer));
  if (what.is_authority) add_extension(x, issuer, NID_basic_constraints, "critical,CA:TRUE");
  if (!what.hosts.empty()) add_extension(x, issuer, NID_subject_alt_name, what.hosts);
  ::X509_sign(x, by != nullptr ? by->key.get() : made.key.get(), ::EVP_sha256());
  return made;
}

identity_files write(const identity& what, const std::filesystem::path& folder, const std::string& name) {
  identity_files files{.certificate = folder / (name + ".pem"), .key = folder / (name + ".key")};
  put_into(files.certificate, [&](std::FILE* to) { ::PEM_write_X509(to, what.certificate.get()); });
  put_into(files.key, [&](std::FILE* to) { ::PEM_write_PrivateKey(to, what.key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  return files;
}

certificates::certificates(const std::filesystem::path& folder)
    : authority(make_identity({.name = "ergon test authority", .is_authority = true})),
      ca(write(authority, folder, "ca")),
      server(write(make_identity({.name = "server", .hosts = "DNS:localhost,IP:127.0.0.1"}, &authority), folder, "server")),
      client(write(make_identity({.name = "client"}, &authority), folder, "client")) {}

}  // namespace ergon::test
