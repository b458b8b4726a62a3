// How a fetch is shared out over several queues. Weighted: over time each queue gets its part of what is fetched while all have
// jobs, also when one job is fetched at a time; a queue that is empty leaves its part to the others. Strict: by rank alone.
// One consumer's; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ergon/broker/broker.hpp>

namespace ergon {

class shares {
 public:
  /// Throws `errc::invalid_argument` for an empty list, a queue named twice, a weight outside 1 to 1000.
  shares(std::span<const queue_share> queues, bool strict);

  struct turn {
    std::size_t queue;
    std::size_t count;
  };

  /// The order in which to ask the queues for jobs, with how many to take at most from each on the first way round; what is
  /// left over goes round again, in the same order, without bound. The span is good until the next call.
  [[nodiscard]] std::span<const turn> plan(std::size_t max);
  /// Tells what a queue gave when it was asked, nought included, so that the next plan evens it out.
  void took(std::size_t queue, std::size_t count) noexcept;

 private:
  struct account {
    /// Jobs that it has coming (or, negative, had too many).
    double credit = 0;
    double target = 0;
    std::size_t planned = 0;
    std::size_t taken = 0;
    bool asked = false;

    /// It gave less than it was asked for: it was empty.
    [[nodiscard]] bool ran_dry() const noexcept { return asked && taken < planned; }
  };

  void settle_round() noexcept;

  std::vector<std::uint32_t> weights_;
  std::vector<account> state_;
  std::vector<turn> plan_;
  double total_ = 0;
  bool strict_;
};

}  // namespace ergon
