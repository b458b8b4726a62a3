// What a SQLite store answers without changing anything, on a connection of its own: lookups, listings, counts. Calls block and run on
// the reader's thread (`reader`), one at a time. Every read is short or goes by pages: a long one would keep the write-ahead log from shrinking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ergon/base/clock.hpp>
#include <ergon/broker/broker.hpp>

#include "broker/record.hpp"
#include "broker/sqlite/database.hpp"

namespace ergon::sqlite {

class inspector {
 public:
  inspector(connection db, ergon::clock& clock);

  /// What `wait` needs to know of a job.
  struct ending {
    bool exists = false;
    bool keeps = false;
    std::uint64_t serial = 0;
    std::optional<job_end> end;
  };
  [[nodiscard]] ending look(std::string_view id, std::string_view queue);

  [[nodiscard]] std::optional<job_info> find(std::string_view id, std::string_view queue);
  [[nodiscard]] job_page list(const job_filter& filter, std::string_view cursor, std::size_t limit);
  [[nodiscard]] std::vector<queue_info> queues();
  [[nodiscard]] std::vector<hour_stats> stats(std::string_view queue, std::uint32_t hours);
  [[nodiscard]] std::vector<worker_info> workers();

 private:
  struct queue_place {
    std::int64_t id = 0;
    std::string name;
    bool paused = false;
    std::int64_t head = 0;
    std::int64_t front_head = 0;

    [[nodiscard]] std::int64_t head_of(bool front) const noexcept { return front ? front_head : head; }
  };

  [[nodiscard]] std::vector<queue_place> places();
  [[nodiscard]] std::optional<std::uint64_t> serial_of(std::string_view id, std::string_view queue);
  [[nodiscard]] job_info of_job(std::int64_t seq, std::string_view body, const queue_place& in);
  [[nodiscard]] job_info of_parked(std::int64_t serial, statement& row, const queue_place& in);
  [[nodiscard]] job_info of_ended(std::int64_t serial, statement& row, const queue_place& in);
  [[nodiscard]] wall_time wall_of(std::int64_t store_ms);
  [[nodiscard]] std::int64_t store_now();

  connection db_;
  ergon::clock& clock_;
};

}  // namespace ergon::sqlite
