// The jobs of one fetch and the memory that their views point into.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <ergon/base/export.hpp>
#include <ergon/broker/job.hpp>

namespace ergon {

/// Deliveries and an arena for their bytes. Reused by its owner: `clear` keeps the memory (up to a bound), so that fetching
/// allocates nothing in the steady state. Not thread-safe.
class ERGON_EXPORT delivery_batch {
 public:
  std::vector<delivery> jobs;

  /// Copies `bytes` into the batch; the view stays good until `clear`.
  [[nodiscard]] std::string_view keep(std::string_view bytes);
  /// Bytes kept so far.
  [[nodiscard]] std::size_t size_bytes() const noexcept { return kept_; }
  void clear() noexcept;

 private:
  struct chunk {
    std::unique_ptr<char[]> data;
    std::size_t size = 0;
  };
  std::vector<chunk> chunks_;
  std::size_t at_chunk_ = 0;
  std::size_t at_byte_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace ergon
