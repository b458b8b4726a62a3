// The broker and the consumer of `memory:`: they bring the clock to a store, and do its waiting. A call that need not wait ends without
// suspending. Both are thread-safe through the store's mutex.
#include "broker/memory/memory_broker.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/unordered/unordered_flat_map.hpp>

#include <ergon/base/error.hpp>
#include <ergon/base/id.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/sleep.hpp>

#include "broker/check.hpp"
#include "broker/memory/store.hpp"
#include "broker/rest.hpp"

namespace ergon {

namespace {

using memory::agenda;
using memory::instant;
using memory::limits;
using memory::member;
using memory::store;
using memory::waiter;

constexpr std::uint64_t largest_payload = std::uint64_t{256} << 20;

/// The stores of the process by name. Stores lock nothing of the registry.
std::shared_ptr<store> store_named(const std::string& name) {
  struct registry {
    std::mutex mutex;
    std::shared_ptr<store> own = std::make_shared<store>();
    boost::unordered_flat_map<std::string, std::weak_ptr<store>> named;
  };
  // Never destroyed: brokers in static objects may outlive everything else.
  static registry& all = *new registry;
  const std::scoped_lock lock{all.mutex};
  if (name.empty()) return all.own;
  boost::unordered::erase_if(all.named, [&](const auto& entry) { return entry.first != name && entry.second.expired(); });
  std::weak_ptr<store>& slot = all.named[name];
  auto found = slot.lock();
  if (!found) slot = found = std::make_shared<store>();
  return found;
}

instant time_of(const ergon::clock& clock) { return {.wall = clock.wall(), .boot = clock.boot().count()}; }

/// Waits until something earlier comes up or the first entry of the agenda is due.
task<void> rest_until_due(ergon::clock& clock, event& news, agenda next) {
  // The calendar may be set and the machine may sleep; neither moves a timer that waits.
  constexpr std::int64_t look_again = 1'000'000'000;
  constexpr std::int64_t look_again_at_kept = 60 * look_again;
  if (clock.is_manual() || (!next.boot && !next.wall && !next.expiry)) {
    co_await news.wait();
    co_return;
  }
  const instant now = time_of(clock);
  std::int64_t span = next.boot || next.wall ? look_again : look_again_at_kept;
  if (next.boot) span = std::min(span, *next.boot - now.boot);
  if (next.wall) span = std::min(span, *next.wall - now.wall.time_since_epoch().count());
  if (next.expiry) span = std::min(span, *next.expiry - now.boot);
  co_await rest(news, std::chrono::nanoseconds{span});
}

class memory_consumer final : public consumer {
 public:
  memory_consumer(std::shared_ptr<store> in, std::shared_ptr<member> self, ergon::clock& clock, limits within)
      : store_(std::move(in)), member_(std::move(self)), clock_(clock), limits_(within) {}
  ~memory_consumer() override { abandon(); }

  [[nodiscard]] const std::string& id() const noexcept override { return member_->id; }

  task<void> fetch(std::size_t max, delivery_batch& out) override {
    if (max == 0) throw error{errc::invalid_argument, "a fetch of 0 jobs; at least 1 must be asked for"};
    while (!store_->fetch(*member_, max, out, time_of(clock_))) {
      struct give_up {
        store* in;
        member* of;
        ~give_up() {
          if (in != nullptr) in->stop_waiting(*of);
        }
      } unless_woken{.in = store_.get(), .of = member_.get()};
      co_await member_->wake.wait();
      unless_woken.in = nullptr;
    }
  }

  task<void> settle(std::span<const settlement> what, std::span<settled> out) override {
    store_->settle(*member_, what, out, time_of(clock_), limits_);
    co_return;
  }

  task<bool> mark(lease_token lease) override { co_return store_->mark(*member_, lease); }

  task<void> report(lease_token lease, double done, std::string_view note) override {
    store_->report(*member_, lease, done, note);
    co_return;
  }

  task<consumer_news> news() override {
    for (;;) {
      if (auto lost = store_->take_news(*member_); !lost.empty()) co_return consumer_news{.lost = std::move(lost)};
      co_await member_->news.wait();
    }
  }

  task<void> maintain() override {
    event news;
    struct listed {
      store& in;
      event& by;
      listed(store& where, event& e) : in(where), by(e) { in.add_maintainer(by); }
      ~listed() { in.remove_maintainer(by); }
    } const here{*store_, news};
    std::shared_ptr<void> moves;
    if (clock_.is_manual()) moves = clock_.listen([&news] { news.set(); });
    for (;;) {
      news.reset();
      agenda next;
      while (store_->maintain(time_of(clock_), next)) co_await yield();
      co_await rest_until_due(clock_, news, next);
    }
  }

  task<void> leave() override {
    store_->leave(*member_, time_of(clock_));
    co_return;
  }

  void abandon() noexcept override { store_->abandon(*member_, clock_.wall()); }

 private:
  std::shared_ptr<store> store_;
  std::shared_ptr<member> member_;
  ergon::clock& clock_;
  limits limits_;
};

class memory_broker final : public broker {
 public:
  memory_broker(std::shared_ptr<store> in, std::string url, limits within, ergon::runtime& runtime, ergon::clock& clock)
      : store_(std::move(in)), url_(std::move(url)), limits_(within), runtime_(runtime), clock_(clock), ids_(clock) {}

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] std::size_t max_payload() const noexcept override { return limits_.payload; }
  [[nodiscard]] ergon::clock& clock() const noexcept override { return clock_; }
  [[nodiscard]] ergon::runtime& runtime() const noexcept override { return runtime_; }

  task<void> enqueue(std::span<const new_job> jobs, std::span<enqueued> out) override {
    check_new_jobs(jobs, limits_.payload);
    store_->enqueue(jobs, out, time_of(clock_), limits_);
    co_return;
  }

  task<std::unique_ptr<consumer>> join(consumer_options options) override {
    auto self = store_->join(std::move(options), ids_.next(), time_of(clock_));
    co_return std::make_unique<memory_consumer>(store_, std::move(self), clock_, limits_);
  }

  task<job_end> wait(std::string id) override {
    waiter w;
    if (auto end = store_->wait(id, w, time_of(clock_))) co_return std::move(*end);
    struct give_up {
      store& in;
      waiter& of;
      ~give_up() { in.stop_waiting(of); }
    } const at_the_end{.in = *store_, .of = w};
    co_await w.told.wait();
    co_return std::move(w.end);
  }

  task<std::optional<job_info>> find(std::string id, std::string queue) override {
    co_return store_->find(id, queue, time_of(clock_));
  }

  task<job_page> list(job_filter filter, std::string cursor, std::size_t limit) override {
    if (limit < 1 || limit > 1000)
      throw error{errc::invalid_argument, fmt::format("a page of {} jobs; 1 to 1000 are allowed", limit)};
    co_return store_->list(filter, cursor, limit, time_of(clock_));
  }

  task<std::vector<queue_info>> queues() override { co_return store_->queues(time_of(clock_)); }

  task<std::vector<hour_stats>> stats(std::string queue, std::uint32_t hours) override {
    co_return store_->stats(queue, hours, clock_.wall());
  }

  task<std::vector<worker_info>> workers() override { co_return store_->workers(clock_.wall()); }

  task<job_state> cancel(std::string id, std::string queue) override { co_return store_->cancel(id, queue, time_of(clock_)); }

  task<std::string> run(std::string id, std::string queue) override { co_return store_->run(id, queue, time_of(clock_)); }

  task<void> remove(std::string id, std::string queue) override {
    store_->remove(id, queue, time_of(clock_));
    co_return;
  }

  task<void> pause(std::string queue) override {
    store_->set_paused(queue, true);
    co_return;
  }

  task<void> resume(std::string queue) override {
    store_->set_paused(queue, false);
    co_return;
  }

  std::string inject(std::string_view queue, std::string_view bytes) { return store_->inject(queue, bytes, time_of(clock_)); }

 private:
  std::shared_ptr<store> store_;
  std::string url_;
  limits limits_;
  ergon::runtime& runtime_;
  ergon::clock& clock_;
  id_source ids_;
};

}  // namespace

std::shared_ptr<broker> open_memory(const url& where, broker_options options) {
  if (!where.host.empty() || !where.user.empty() || where.port) {
    throw error{errc::bad_url,
                fmt::format("the broker URL {} names a host; a store in memory is memory: or memory:NAME", where.shown)};
  }
  option_reader read{where};
  limits within;
  within.payload = static_cast<std::size_t>(read.take_size("max_payload", within.payload, 1, largest_payload));
  within.store = read.take_size("max_bytes", 0, 1);
  read.done();
  ergon::runtime& runtime = options.runtime != nullptr ? *options.runtime : ergon::runtime::default_runtime();
  ergon::clock& clock = options.clock != nullptr ? *options.clock : runtime.clock();
  return std::make_shared<memory_broker>(store_named(where.path), where.shown, within, runtime, clock);
}

std::string inject_record(broker& of, std::string_view queue, std::string_view bytes) {
  auto* memory = dynamic_cast<memory_broker*>(&of);
  if (memory == nullptr)
    throw error{errc::not_supported, fmt::format("records can be put by hand only into memory:, not into {}", of.url())};
  return memory->inject(queue, bytes);
}

}  // namespace ergon
