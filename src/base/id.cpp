// Base 32 and the ULID maker. Within one millisecond the random part is counted up, as the ULID specification says
// (https://github.com/ulid/spec), and a full random part or a calendar that was set back borrows from the future.
#include <ergon/base/id.hpp>

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>

#include <ergon/base/error.hpp>

namespace ergon {
namespace {

constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

constexpr std::array<std::int8_t, 256> digits = [] {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i) table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return table;
}();

// Counts how often this process was born by fork: a child that went on with its parent's random part would make its ids.
std::atomic<unsigned> fork_generation{0};

unsigned current_generation() noexcept {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return fork_generation.load(std::memory_order_relaxed);
}

std::array<char, u64_text_size> u64_text(std::uint64_t value) noexcept {
  std::array<char, u64_text_size> text;
  for (std::size_t i = text.size(); i-- > 0;) {
    text[i] = alphabet[value & 31U];
    value >>= 5U;
  }
  return text;
}

std::uint64_t split_mix(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

void encode_u64(std::uint64_t value, std::string& out) {
  const auto text = u64_text(value);
  out.append(text.data(), text.size());
}

std::string encode_u64(std::uint64_t value) {
  const auto text = u64_text(value);
  return {text.data(), text.size()};
}

std::optional<std::uint64_t> decode_u64(std::string_view text) noexcept {
  if (text.size() != u64_text_size) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::int_fast8_t digit = digits[static_cast<unsigned char>(text[i])];
    // 13 digits hold 65 bits: the first one may use four.
    if (digit < 0 || (i == 0 && digit > 15)) return std::nullopt;
    value = (value << 5U) | static_cast<std::uint64_t>(digit);
  }
  return value;
}

struct id_source::state {
  ergon::clock& clock;
  bool seeded;
  std::uint64_t seed;
  std::mutex mutex;
  unsigned generation = current_generation();
  std::uint64_t last_ms = 0;
  bool started = false;
  std::uint64_t random_high = 0;  // 16 bits
  std::uint64_t random_low = 0;

  void draw() {
    std::array<std::uint64_t, 2> words{};
    if (seeded) {
      for (auto& word : words) word = split_mix(seed);
    } else {
      for (std::size_t got = 0; got < sizeof words;) {
        const ssize_t n = ::getrandom(reinterpret_cast<char*>(words.data()) + got, sizeof words - got, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw error{errc::unavailable, "getrandom: " + std::generic_category().message(errno)};
        got += static_cast<std::size_t>(n);
      }
    }
    random_high = words[0] & 0xFFFFU;
    random_low = words[1];
  }

  void count_up() {
    if (++random_low != 0) return;
    if (++random_high <= 0xFFFFU) return;
    ++last_ms;
    draw();
  }
};

id_source::id_source(ergon::clock& clock) : state_(new state{.clock = clock, .seeded = false, .seed = 0, .mutex = {}}) {}
id_source::id_source(ergon::clock& clock, std::uint64_t seed)
    : state_(new state{.clock = clock, .seeded = true, .seed = seed, .mutex = {}}) {}
id_source::~id_source() = default;

std::string id_source::next() {
  std::uint64_t ms = 0;
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  {
    std::lock_guard lock{state_->mutex};
    const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(state_->clock.wall()).time_since_epoch().count();
    const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(since_epoch, 0));
    const unsigned generation = current_generation();
    if (!state_->started || now > state_->last_ms) {
      state_->last_ms = now;
      state_->draw();
      state_->started = true;
    } else if (generation != state_->generation) {
      // A child must neither repeat its parent nor sort before itself.
      ++state_->last_ms;
      state_->draw();
    } else {
      state_->count_up();
    }
    state_->generation = generation;
    ms = state_->last_ms & 0xFFFF'FFFF'FFFFU;
    high = state_->random_high;
    low = state_->random_low;
  }
  std::string text(text_size, '0');
  __extension__ unsigned __int128 all = (static_cast<unsigned __int128>((ms << 16U) | high) << 64U) | low;
  for (std::size_t i = text.size(); i-- > 0;) {
    text[i] = alphabet[static_cast<std::size_t>(all & 31U)];
    all >>= 5U;
  }
  return text;
}

}  // namespace ergon
