// `sqlite:` — a durable store in one file, shared by the processes of one machine. What is in the folder, from the ground up:
//
//   database, schema   the connection and its tables          store       the transitions, inside a transaction
//   side_file          locks and bells between processes      committer   many operations, one transaction
//   attendant          leases and ticks, on a thread          inspector   reads, on the reader's thread
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <ergon/base/url.hpp>
#include <ergon/broker/broker.hpp>

#include "broker/sqlite/attendant.hpp"
#include "broker/sqlite/committer.hpp"
#include "broker/sqlite/inspector.hpp"
#include "broker/sqlite/reader.hpp"
#include "broker/sqlite/side_file.hpp"

namespace ergon {

/// Opens the store of the URL, or joins the broker that this process has open on it with the same URL, runtime and clock.
[[nodiscard]] std::shared_ptr<broker> open_sqlite(const url& where, broker_options options);

namespace sqlite {

struct store_options {
  open_options file;
  std::size_t max_payload = 0;
  std::chrono::milliseconds lease{0};
};

class sqlite_broker final : public broker, public std::enable_shared_from_this<sqlite_broker> {
 public:
  sqlite_broker(std::string url, store_options options, ergon::runtime& rt, ergon::clock& clk);
  ~sqlite_broker() override;

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] std::size_t max_payload() const noexcept override { return options_.max_payload; }
  [[nodiscard]] ergon::clock& clock() const noexcept override { return clock_; }
  [[nodiscard]] ergon::runtime& runtime() const noexcept override { return runtime_; }

  task<void> enqueue(std::span<const new_job> jobs, std::span<enqueued> out) override;
  task<std::unique_ptr<consumer>> join(consumer_options options) override;
  task<job_end> wait(std::string id) override;
  task<std::optional<job_info>> find(std::string id, std::string queue) override;
  task<job_page> list(job_filter filter, std::string cursor, std::size_t limit) override;
  task<std::vector<queue_info>> queues() override;
  task<std::vector<hour_stats>> stats(std::string queue, std::uint32_t hours) override;
  task<std::vector<worker_info>> workers() override;
  task<job_state> cancel(std::string id, std::string queue) override;
  task<std::string> run(std::string id, std::string queue) override;
  task<void> remove(std::string id, std::string queue) override;
  task<void> pause(std::string queue) override;
  task<void> resume(std::string queue) override;

  [[nodiscard]] const std::string& path() const noexcept { return options_.file.path; }
  [[nodiscard]] committer& commits() noexcept { return *committer_; }
  [[nodiscard]] attendant& attends() noexcept { return *attendant_; }
  /// Wakes workers of any process after jobs were stored behind this broker's back.
  void notify();

 private:
  std::string url_;
  store_options options_;
  ergon::runtime& runtime_;
  ergon::clock& clock_;
  std::optional<side_file> side_;
  std::shared_ptr<committer> committer_;
  std::unique_ptr<attendant> attendant_;
  std::unique_ptr<inspector> inspector_;
  reader reader_;
};

}  // namespace sqlite
}  // namespace ergon
