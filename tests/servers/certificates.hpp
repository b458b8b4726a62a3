// Keys and certificates that a test makes for itself, valid for an hour: an authority, and whom it vouches for.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <filesystem>
#include <memory>
#include <string>

namespace ergon::test {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<&::EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<&::X509_free>>;

struct identity {
  key_ptr key;
  certificate_ptr certificate;
};

struct identity_options {
  std::string name = {};
  /// `DNS:localhost,IP:127.0.0.1`
  std::string hosts = {};
  bool is_authority = false;
  /// Seconds from now.
  long from = -3600;
  long until = 3600;
};

/// Signed by `by`, or by itself. Throws `errc::invalid_argument` for hosts that OpenSSL does not understand.
[[nodiscard]] identity make_identity(const identity_options& what, const identity* by = nullptr);

struct identity_files {
  std::filesystem::path certificate;
  std::filesystem::path key;
};
/// Writes <name>.pem and <name>.key into the folder.
identity_files write(const identity& what, const std::filesystem::path& folder, const std::string& name);

/// What a test of TLS needs first: an authority, a server on 127.0.0.1 and localhost, and a client; as files in `folder`.
struct certificates {
  explicit certificates(const std::filesystem::path& folder);

  identity authority;
  identity_files ca;
  identity_files server;
  identity_files client;
};

}  // namespace ergon::test
