// Looking at jobs, queues and workers, and acting on one job.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ergon/broker/broker.hpp>

#include "broker/redis/entry.hpp"
#include "broker/redis/serial.hpp"
#include "broker/redis/server.hpp"

namespace ergon::redis_store {

/// A worker as it presents itself: what stands in `<namespace>:workers`.
[[nodiscard]] std::string describe_worker(const consumer_options& options, std::int64_t started_ms);
/// What `describe_worker` wrote; what is missing or damaged is left as it is.
void read_worker(std::string_view text, worker_info& out);

class inspector {
 public:
  explicit inspector(std::shared_ptr<server> at) : server_(std::move(at)) {}

  task<std::optional<job_info>> find(std::string id, std::string queue);
  task<job_page> list(job_filter filter, std::string cursor, std::size_t limit);
  task<std::vector<queue_info>> queues();
  task<std::vector<hour_stats>> stats(std::string queue, std::uint32_t hours);
  task<std::vector<worker_info>> workers();
  task<job_state> cancel(std::string id, std::string queue);
  task<std::string> run(std::string id, std::string queue);
  task<void> remove(std::string id, std::string queue);

  /// A job as it stands, for `wait`.
  struct sight {
    job_info job;
    const partition* in = nullptr;
    std::string serial;
    /// Its end, if it has ended and its result is kept still.
    std::optional<std::string> ending;
  };
  task<std::optional<sight>> look(std::string id, std::string queue);

 private:
  /// What an id of a person means.
  task<std::optional<sight>> look(const partition& in, std::string serial, std::string own_id);
  task<sight> need(std::string id, std::string queue);

  std::shared_ptr<server> server_;
};

}  // namespace ergon::redis_store
