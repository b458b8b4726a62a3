// The arena of a fetch: a list of chunks that is filled front to back and kept for the next fetch.
#include <ergon/broker/batch.hpp>

#include <algorithm>
#include <cstring>

namespace ergon {

namespace {

constexpr std::size_t chunk_size = std::size_t{64} << 10;
/// What `clear` keeps: more than the megabyte at which a fetch stops, and little enough to hold for ever.
constexpr std::size_t kept_memory = std::size_t{2} << 20;

}  // namespace

std::string_view delivery_batch::keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  while (at_chunk_ < chunks_.size() && chunks_[at_chunk_].size - at_byte_ < bytes.size()) {
    ++at_chunk_;
    at_byte_ = 0;
  }
  if (at_chunk_ == chunks_.size()) {
    const std::size_t size = std::max(chunk_size, bytes.size());
    chunks_.push_back({.data = std::make_unique_for_overwrite<char[]>(size), .size = size});
    at_byte_ = 0;
  }
  char* to = chunks_[at_chunk_].data.get() + at_byte_;
  std::memcpy(to, bytes.data(), bytes.size());
  at_byte_ += bytes.size();
  kept_ += bytes.size();
  return {to, bytes.size()};
}

void delivery_batch::clear() noexcept {
  jobs.clear();
  std::size_t total = 0;
  std::erase_if(chunks_, [&](const chunk& c) {
    if (total + c.size > kept_memory) return true;
    total += c.size;
    return false;
  });
  at_chunk_ = 0;
  at_byte_ = 0;
  kept_ = 0;
}

}  // namespace ergon
