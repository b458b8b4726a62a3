// One worker's membership in a SQLite store.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ergon/broker/broker.hpp>
#include <ergon/runtime/event.hpp>

#include "broker/sqlite/attendant.hpp"
#include "broker/sqlite/committer.hpp"
#include "broker/sqlite/sqlite_broker.hpp"

namespace ergon::sqlite {

class sqlite_consumer final : public consumer, private fetch_base, private enrolled {
 public:
  sqlite_consumer(std::shared_ptr<sqlite_broker> of, std::string name, std::int64_t owner, std::vector<std::int64_t> queues,
                  shares turns);
  ~sqlite_consumer() override;

  [[nodiscard]] const std::string& id() const noexcept override { return name_; }
  task<void> fetch(std::size_t max, delivery_batch& out) override;
  task<void> settle(std::span<const settlement> what, std::span<settled> out) override;
  task<bool> mark(lease_token lease) override;
  task<void> report(lease_token lease, double done, std::string_view note) override;
  task<consumer_news> news() override;
  task<void> maintain() override;
  task<void> leave() override;
  void abandon() noexcept override;

 private:
  class settling;

  // fetch_base, by the committer's executor.
  bool is_needed(store& in) override;
  void run(store& in) override;
  void run_again(store& in) override { run(in); }
  void undo() noexcept override;
  void stored() noexcept override;
  void finish() noexcept override { ready_.set(); }
  [[nodiscard]] bool found() const noexcept override { return !staged_.jobs.empty(); }
  [[nodiscard]] bool wants(std::span<queue_row* const> queues) const noexcept override;

  // enrolled, by the attendant.
  [[nodiscard]] std::int64_t owner() const noexcept override { return owner_; }
  [[nodiscard]] std::uint64_t bits() const noexcept override { return bits_; }
  void stir() noexcept override { stirred_.set(); }
  void lost(std::span<const lease_token> leases) override;
  [[nodiscard]] lease_book& book() noexcept override { return book_; }

  std::shared_ptr<sqlite_broker> broker_;
  std::string name_;
  std::int64_t owner_;
  std::vector<std::int64_t> queues_;
  std::uint64_t bits_ = 0;

  // The executor's, and `fetch`'s after `ready_`.
  shares turns_;
  lease_book book_;
  delivery_batch staged_;
  bool claimed_ = false;

  std::atomic<std::size_t> max_{1};
  /// Somebody waits for what is found.
  std::atomic<bool> wanted_{false};
  event ready_;
  event stirred_;
  std::mutex news_mutex_;
  std::vector<lease_token> lost_;
  event news_;
  bool gone_ = false;
};

}  // namespace ergon::sqlite
