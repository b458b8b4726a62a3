// Weighted sharing by credit: what a queue should have had of what was taken, less what it had. Only queues that had jobs count: one that
// was found empty neither saves credit up nor owes any.
#include "broker/shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <ergon/base/error.hpp>

#include "broker/check.hpp"

namespace ergon {

shares::shares(std::span<const queue_share> queues, bool strict) : strict_(strict) {
  if (queues.empty()) throw error{errc::invalid_argument, "a worker needs at least one queue to take from; it was given none"};
  for (std::size_t i = 0; i < queues.size(); ++i) {
    check_queue_name(queues[i].name);
    if (queues[i].weight < 1 || queues[i].weight > 1000) {
      throw error{errc::invalid_argument,
                  fmt::format("the queue \"{}\" has the weight {}; 1 to 1000 are allowed", queues[i].name, queues[i].weight)};
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (queues[k].name == queues[i].name) {
        throw error{errc::invalid_argument, fmt::format("the queue \"{}\" is named twice; name each once", queues[i].name)};
      }
    }
    weights_.push_back(queues[i].weight);
  }
  total_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  state_.resize(weights_.size());
  plan_.resize(weights_.size());
  for (std::size_t i = 0; i < plan_.size(); ++i) plan_[i] = {.queue = i, .count = 0};
  if (!strict_) return;
  std::ranges::sort(plan_, [&](const turn& a, const turn& b) {
    return weights_[a.queue] != weights_[b.queue] ? weights_[a.queue] > weights_[b.queue] : a.queue < b.queue;
  });
}

std::span<const shares::turn> shares::plan(std::size_t max) {
  if (strict_ || plan_.size() == 1) {
    for (turn& t : plan_) t.count = max;
    return plan_;
  }
  settle_round();

  std::size_t given = 0;
  for (turn& t : plan_) {
    account& a = state_[t.queue];
    a.target = a.credit + static_cast<double>(max) * weights_[t.queue] / total_;
    t.count = std::min(max - given, static_cast<std::size_t>(std::max(0.0, std::floor(a.target))));
    a.planned = t.count;
    given += t.count;
  }
  const auto short_of = [&](const turn& t) { return state_[t.queue].target - static_cast<double>(state_[t.queue].planned); };
  for (; given < max; ++given) {
    turn& neediest = *std::ranges::max_element(plan_, {}, short_of);
    neediest.count = ++state_[neediest.queue].planned;
  }
  std::ranges::sort(plan_, [&](const turn& a, const turn& b) {
    const double mine = state_[a.queue].target;
    const double theirs = state_[b.queue].target;
    return mine != theirs ? mine > theirs : a.queue < b.queue;
  });
  return plan_;
}

void shares::took(std::size_t queue, std::size_t count) noexcept {
  account& a = state_[queue];
  a.taken += count;
  a.asked = true;
}

void shares::settle_round() noexcept {
  double taken = 0;
  double weight = 0;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    const account& a = state_[i];
    if (a.ran_dry()) continue;
    taken += static_cast<double>(a.taken);
    weight += weights_[i];
  }
  for (std::size_t i = 0; i < state_.size(); ++i) {
    account& a = state_[i];
    if (a.ran_dry()) {
      a.credit = 0;
    } else if (taken > 0) {
      a.credit += taken * weights_[i] / weight - static_cast<double>(a.taken);
      // What rounding leaves is less than a job: more than that comes from queues that had none.
      a.credit = std::clamp(a.credit, -1.0, 1.0);
    }
    a.taken = 0;
    a.planned = 0;
    a.asked = false;
  }
}

}  // namespace ergon
