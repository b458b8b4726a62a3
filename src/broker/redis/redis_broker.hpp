// The broker of `redis:`, `rediss:` and `unix:`. docs/DESIGN.md §6 is the data model; each transition is a script (scripts/).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ergon/base/id.hpp>
#include <ergon/base/url.hpp>
#include <ergon/broker/broker.hpp>

#include "broker/redis/enqueue_counts.hpp"
#include "broker/redis/hints.hpp"
#include "broker/redis/inspector.hpp"
#include "broker/redis/server.hpp"

namespace ergon {

/// Options of the URL besides those of the connection (ergon/redis/options.hpp): `namespace=NAME` (ergon), `lease=SPAN` (15s), `max_payload=SIZE`
/// (16MiB; at most 256MiB). Throws `errc::bad_url`, `errc::unavailable`, `errc::not_supported`, `errc::not_permitted`.
[[nodiscard]] std::shared_ptr<broker> open_redis(const url& where, broker_options options);

namespace redis_store {

class member;

class redis_broker final : public broker, public std::enable_shared_from_this<redis_broker> {
 public:
  redis_broker(std::string url, std::shared_ptr<server> at);
  ~redis_broker() override;

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] std::size_t max_payload() const noexcept override { return server_->how().max_payload; }
  [[nodiscard]] ergon::clock& clock() const noexcept override { return server_->clock(); }
  [[nodiscard]] ergon::runtime& runtime() const noexcept override { return server_->runtime(); }

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

 private:
  task<void> put_one(const new_job& job, enqueued& out);
  task<void> put_plain(std::span<const new_job> jobs, std::span<enqueued> out);
  task<void> put_rich(std::span<const new_job> jobs, std::span<enqueued> out);
  task<void> set_paused(std::string queue, bool paused);
  /// Counts what was put off.
  task<void> flush_counts(bool ends_timer);
  static task<void> flush_counts_later(std::weak_ptr<redis_broker> self);

  std::string url_;
  std::shared_ptr<server> server_;
  std::shared_ptr<hints> hints_;
  inspector inspector_;
  id_source ids_;
  enqueue_counts counts_;
  std::mutex mutex_;
  /// The consumers of this broker.
  std::vector<std::weak_ptr<member>> members_;
};

}  // namespace redis_store

}  // namespace ergon
