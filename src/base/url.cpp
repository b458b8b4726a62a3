// Broker URLs. The authority (`user:password@host:port`) is Boost.URL's to judge; scheme, path and options are split here,
// because RFC 3986 refuses what people have in file names, and because an error must name the part.
#include <ergon/base/url.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/url/authority_view.hpp>
#include <boost/url/decode_view.hpp>
#include <boost/url/parse.hpp>
#include <charconv>

#include <ergon/base/error.hpp>
#include <ergon/base/size.hpp>
#include <ergon/base/text.hpp>

namespace ergon {
namespace {

constexpr std::string_view right_urls = "memory:, sqlite:jobs.db, sqlite:/var/lib/app/jobs.db or redis://host:6379/0 is right";

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_secret(std::string_view option) {
  constexpr std::array<std::string_view, 6> names = {"password", "passwd", "pw", "secret", "token", "auth"};
  return std::ranges::find(names, option) != names.end();
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// One call of parse_url: the text, and the parts as they become known.
class url_parser {
 public:
  explicit url_parser(std::string_view text) : text_(text) { out_.shown = redact(text); }

  url parse() && {
    read_scheme();
    std::string_view left = text_.substr(out_.scheme.size() + 1);
    if (const std::size_t fragment = left.find('#'); fragment != std::string_view::npos) {
      fail(position(left.substr(fragment)), "a '#' must be written %23: broker URLs have no fragment");
    }
    std::string_view query;
    bool has_query = false;
    if (const std::size_t mark = left.find('?'); mark != std::string_view::npos) {
      query = left.substr(mark + 1);
      left = left.substr(0, mark);
      has_query = true;
    }
    if (left.starts_with("//")) {
      const std::size_t end = std::min(left.find('/', 2), left.size());
      read_authority(left.substr(2, end - 2));
      left = left.substr(end);
    }
    out_.path = decoded("path", left);
    check_embedded();
    if (has_query) read_options(query);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view why) const {
    throw error{errc::bad_url, fmt::format("broker URL {}, at {}: {}", quoted(out_.shown, 200), at, why)};
  }

  [[nodiscard]] std::size_t position(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }

  void read_scheme() {
    if (text_.empty()) fail(0, fmt::format("it is empty; {}", right_urls));
    const std::size_t colon = text_.find(':');
    const std::string_view scheme = text_.substr(0, colon);
    const auto is_scheme_byte = [](char c) { return is_alpha(c) || is_digit(c) || c == '+' || c == '-' || c == '.'; };
    const bool legal = !scheme.empty() && is_alpha(scheme.front()) && std::ranges::all_of(scheme, is_scheme_byte);
    if (colon == std::string_view::npos || !legal) {
      fail(0, fmt::format("it does not begin with a scheme; {}", right_urls));
    }
    for (char c : scheme) out_.scheme += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  void read_authority(std::string_view part) {
    const auto parsed = boost::urls::parse_authority({part.data(), part.size()});
    if (!parsed) {
      // The port and the percent signs are what people get wrong; the rest is told as it is.
      const std::size_t at = part.rfind('@');
      const std::string_view place = at == std::string_view::npos ? part : part.substr(at + 1);
      const std::size_t colon = place.rfind(':');
      if (colon != std::string_view::npos && place.find(']', colon) == std::string_view::npos &&
          !std::ranges::all_of(place.substr(colon + 1), is_digit)) {
        fail(position(place) + colon + 1, "the port must be a number from 1 to 65535");
      }
      fail(position(part),
           "this must be user:password@host:port, where other characters than letters, digits and -._~!$&'()*+,;= are "
           "percent-encoded (@ is %40, / is %2F, a space is %20), and an IPv6 address stands in brackets");
    }
    const auto text_of = [](auto encoded) { return std::string{encoded.data(), encoded.size()}; };
    out_.user = decoded("user", part, text_of(parsed->encoded_user()));
    out_.password = decoded("password", part, text_of(parsed->encoded_password()));
    if (parsed->has_port()) {
      const std::string digits = text_of(parsed->port());
      unsigned port = 0;
      const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
      if (failure != std::errc{} || end != digits.data() + digits.size() || port == 0 || port > 65535) {
        fail(position(part) + part.size() - digits.size(), "the port must be a number from 1 to 65535");
      }
      out_.port = static_cast<std::uint16_t>(port);
    }
    out_.host = decoded("host", part, text_of(parsed->encoded_host()));
    if (out_.host.starts_with('[') && out_.host.ends_with(']')) out_.host = out_.host.substr(1, out_.host.size() - 2);
  }

  // What only the two embedded schemes get wrong, said where the position is still known.
  void check_embedded() {
    const std::size_t after_scheme = out_.scheme.size() + 1;
    const bool has_authority = text_.substr(after_scheme).starts_with("//");
    if (out_.scheme == "sqlite") {
      const bool bare = out_.user.empty() && out_.password.empty() && !out_.port;
      if (has_authority && (!bare || (!out_.host.empty() && out_.host != "localhost"))) {
        fail(after_scheme, "after // comes a host, and sqlite has none; sqlite:dir/jobs.db or sqlite:///dir/jobs.db is right");
      }
      out_.host.clear();
      if (out_.path.empty()) fail(text_.size(), "the path of the database is missing; sqlite:jobs.db is right");
    }
    if (out_.scheme == "memory") {
      if (has_authority || out_.path.starts_with('/')) {
        fail(after_scheme, "a memory broker has a name, no host and no path; memory: or memory:NAME is right");
      }
    }
  }

  void read_options(std::string_view query) {
    while (!query.empty()) {
      const std::size_t end = std::min(query.find('&'), query.size());
      const std::string_view part = query.substr(0, end);
      query.remove_prefix(std::min(end + 1, query.size()));
      if (part.empty()) continue;
      const std::size_t equals = std::min(part.find('='), part.size());
      std::string name = decoded("option name", part.substr(0, equals));
      if (name.empty()) fail(position(part), "an option has no name; ?name=value&other=value is right");
      std::string value = equals < part.size() ? decoded("option value", part.substr(equals + 1)) : std::string{};
      for (const auto& [known, ignored] : out_.options) {
        if (known == name) fail(position(part), fmt::format("option {} is given twice", quoted(name)));
      }
      out_.options.emplace_back(std::move(name), std::move(value));
    }
  }

  std::string decoded(std::string_view what, std::string_view part) const { return decoded(what, part, part); }

  std::string decoded(std::string_view what, std::string_view place, std::string_view part) const {
    const std::size_t base = position(place);
    std::string out;
    out.reserve(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      char c = part[i];
      if (c == '%') {
        const int high = i + 2 < part.size() ? hex_digit(part[i + 1]) : -1;
        const int low = i + 2 < part.size() ? hex_digit(part[i + 2]) : -1;
        if (high < 0 || low < 0) {
          fail(base + i, fmt::format("in the {}, % must be followed by two hexadecimal digits; % itself is written %25", what));
        }
        c = static_cast<char>(high * 16 + low);
        i += 2;
      }
      if (c == '\0') fail(base + i, fmt::format("the {} must not contain a NUL byte", what));
      out += c;
    }
    if (!is_utf8(out)) fail(base, fmt::format("the {} is not UTF-8", what));
    return out;
  }

  std::string_view text_;
  url out_;
};

}  // namespace

url parse_url(std::string_view text) { return url_parser{text}.parse(); }

std::string redact(std::string_view text) {
  std::string out;
  std::string_view left = text;
  if (const std::size_t slashes = left.find("://"); slashes != std::string_view::npos) {
    const std::size_t start = slashes + 3;
    const std::string_view rest = left.substr(start);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    std::size_t at = authority.rfind('@');
    if (at == std::string_view::npos) {
      // A password with an unencoded / or ? in it: up to there it looks like host:port, only that the port is none.
      const std::size_t colon = authority.find(':');
      const std::size_t later = rest.rfind('@');
      const bool before_query = later != std::string_view::npos && later < rest.find('?');
      const bool odd_port = colon != std::string_view::npos && !std::ranges::all_of(authority.substr(colon + 1), is_digit);
      if (colon != std::string_view::npos && later != std::string_view::npos && (before_query || odd_port)) at = later;
    }
    if (at != std::string_view::npos) {
      const std::size_t colon = rest.substr(0, at).find(':');
      if (colon != std::string_view::npos) {
        out += left.substr(0, start + colon + 1);
        out += "***";
      } else {
        out += left.substr(0, start + at);
      }
      left = left.substr(start + at);
    }
  }
  const std::size_t query = left.find('?');
  if (query == std::string_view::npos) return out + std::string{left};
  out += left.substr(0, query + 1);
  left.remove_prefix(query + 1);
  while (true) {
    const std::size_t end = left.find('&');
    const std::string_view part = left.substr(0, end);
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos && is_secret(part.substr(0, equals))) {
      out += part.substr(0, equals + 1);
      out += "***";
    } else {
      out += part;
    }
    if (end == std::string_view::npos) return out;
    out += '&';
    left.remove_prefix(end + 1);
  }
}

option_reader::option_reader(const url& from) : url_(&from) {}

std::optional<std::string_view> option_reader::take(std::string_view name) {
  if (std::ranges::find(known_, name) == known_.end()) known_.emplace_back(name);
  for (const auto& [given, value] : url_->options) {
    if (given == name) return value;
  }
  return std::nullopt;
}

void option_reader::refuse(std::string_view name, std::string_view value, std::string_view right) const {
  throw error{errc::bad_url, fmt::format("broker URL {}: option {}={}: {}", quoted(url_->shown, 200), name,
                                         is_secret(name) ? std::string{"***"} : quoted(value), right)};
}

void option_reader::refuse_choice(std::string_view name, std::string_view value,
                                  const std::vector<std::string_view>& choices) const {
  refuse(name, value, fmt::format("must be one of {}", fmt::join(choices, ", ")));
}

bool option_reader::take_bool(std::string_view name, bool fallback) {
  const auto given = take(name);
  if (!given) return fallback;
  if (given->empty() || *given == "true" || *given == "on" || *given == "yes" || *given == "1") return true;
  if (*given == "false" || *given == "off" || *given == "no" || *given == "0") return false;
  refuse(name, *given, "must be true or false");
}

std::uint64_t option_reader::take_unsigned(std::string_view name, std::uint64_t fallback, std::uint64_t min, std::uint64_t max) {
  const auto given = take(name);
  if (!given) return fallback;
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (failure != std::errc{} || end != given->data() + given->size() || value < min || value > max) {
    refuse(name, *given, fmt::format("must be a number from {} to {}", min, max));
  }
  return value;
}

std::int64_t option_reader::take_signed(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max) {
  const auto given = take(name);
  if (!given) return fallback;
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (failure != std::errc{} || end != given->data() + given->size() || value < min || value > max) {
    refuse(name, *given, fmt::format("must be a number from {} to {}", min, max));
  }
  return value;
}

std::chrono::nanoseconds option_reader::take_duration(std::string_view name, std::chrono::nanoseconds fallback,
                                                      std::chrono::nanoseconds min, std::chrono::nanoseconds max) {
  const auto given = take(name);
  if (!given) return fallback;
  std::chrono::nanoseconds value{0};
  try {
    value = parse_duration(*given);
  } catch (const error& failure) {
    refuse(name, *given, failure.what());
  }
  if (value < min || value > max) {
    refuse(name, *given, fmt::format("must be from {} to {}", format_duration(min), format_duration(max)));
  }
  return value;
}

std::uint64_t option_reader::take_size(std::string_view name, std::uint64_t fallback, std::uint64_t min, std::uint64_t max) {
  const auto given = take(name);
  if (!given) return fallback;
  std::uint64_t value = 0;
  try {
    value = parse_size(*given);
  } catch (const error& failure) {
    refuse(name, *given, failure.what());
  }
  if (value < min || value > max) refuse(name, *given, fmt::format("must be from {} to {}", format_size(min), format_size(max)));
  return value;
}

std::string option_reader::take_text(std::string_view name, std::string_view fallback) {
  return std::string{take(name).value_or(fallback)};
}

void option_reader::done() const {
  for (const auto& [given, value] : url_->options) {
    if (std::ranges::find(known_, given) != known_.end()) continue;
    const std::string known = known_.empty() ? "this broker has none" : fmt::format("known are {}", fmt::join(known_, ", "));
    throw error{errc::bad_url,
                fmt::format("broker URL {}: unknown option {}; {}", quoted(url_->shown, 200), quoted(given), known)};
  }
}

}  // namespace ergon
