#include "digest.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <span>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <ergon/base/text.hpp>
#include <ergon/queue/outcome.hpp>

namespace demo {
namespace {

class open_file {
 public:
  explicit open_file(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) refuse();
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { ::close(fd_); }

  /// Empty at the end.
  std::string_view read(std::span<char> into) {
    while (true) {
      const ssize_t got = ::read(fd_, into.data(), into.size());
      if (got >= 0) return {into.data(), static_cast<std::size_t>(got)};
      if (errno != EINTR) refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const { throw std::system_error(errno, std::generic_category(), ergon::quoted(path_, 4096)); }

  const std::string& path_;
  int fd_;
};

class sha256 {
 public:
  sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw std::runtime_error("SHA-256 is not to be had from OpenSSL");
  }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), sum.data(), &size);
    return fmt::format("{:02x}", fmt::join(sum.begin(), sum.begin() + size, ""));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

constexpr auto is_space = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view(" \t\n\v\f\r")) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

}  // namespace

std::string escape(std::string_view path) {
  std::string text;
  while (!path.empty()) {
    const std::size_t good = std::min(ergon::utf8_prefix(path), path.find('%'));
    text += path.substr(0, good);
    if (good >= path.size()) break;
    fmt::format_to(std::back_inserter(text), "%{:02X}", static_cast<unsigned char>(path[good]));
    path.remove_prefix(good + 1);
  }
  return text;
}

std::string unescape(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      path += static_cast<char>(byte);
      i += 2;
    } else {
      path += text[i];
    }
  }
  return path;
}

file_figures figures_of(const std::string& path) {
  open_file file(path);
  sha256 sum;
  file_figures figures;
  bool in_word = false;
  std::array<char, 64UL * 1024> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  for (std::string_view bytes = file.read(buffer); !bytes.empty(); bytes = file.read(buffer)) {
    sum.add(bytes);
    figures.bytes += bytes.size();
    figures.lines += static_cast<std::uint64_t>(std::ranges::count(bytes, '\n'));
    for (const char c : bytes) {
      const bool space = is_space[static_cast<unsigned char>(c)];
      figures.words += static_cast<std::uint64_t>(!space && !in_word);
      in_word = !space;
    }
  }
  figures.sha256 = sum.hex();
  return figures;
}

file_figures on_digest(const digest& job, ergon::job_context&) {
  try {
    return figures_of(unescape(job.path));
  } catch (const std::system_error& e) {
    throw ergon::fail(e.what());
  }
}

}  // namespace demo
