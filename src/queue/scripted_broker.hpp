// A broker for tests of the worker alone: the test says what a fetch gives, what a settlement answers and what goes wrong, and sees
// what the worker says. Knows no states and no time. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/broker/broker.hpp>
#include <ergon/runtime/event.hpp>

namespace ergon {

class scripted_broker final : public broker {
 public:
  /// A delivery that owns its text.
  struct job {
    std::string kind;
    std::string payload = "{}";
    std::uint32_t failures = 0;
    std::uint32_t max_retries = 25;
    std::chrono::milliseconds timeout{0};
    std::optional<wall_time> deadline = std::nullopt;
    bool suspect = false;
    record_fit fit = record_fit::readable;
    bool keeps_result = false;
  };
  /// A settlement that owns its text.
  struct end {
    std::uint64_t number = 0;
    verdict how = verdict::complete;
    std::string text;
    std::chrono::nanoseconds delay{0};
  };

  scripted_broker(ergon::runtime& on, ergon::clock& by) : runtime_(on), clock_(by) {}

  // What the test does.

  /// The lease's number, which names the job from then on; 1 for the first.
  std::uint64_t deliver(job one) {
    std::uint64_t number = 0;
    {
      const std::scoped_lock lock{mutex_};
      number = ++numbers_;
      waiting_.emplace_back(number, std::move(one));
    }
    arrived_.set();
    return number;
  }
  void lose(std::uint64_t number) {
    {
      const std::scoped_lock lock{mutex_};
      lost_.push_back({.where = 1, .number = number});
    }
    news_.set();
  }
  /// Called before each fetch, settlement, mark and join; what it throws is what the call throws. Empty: all is well.
  void on_call(std::function<void(std::string_view what, std::span<const settlement> settled)> f) {
    const std::scoped_lock lock{mutex_};
    on_call_ = std::move(f);
  }
  /// What the settlement of this job answers instead of `settled::yes`.
  void answer(std::uint64_t number, settled how) {
    const std::scoped_lock lock{mutex_};
    answers_.emplace_back(number, how);
  }
  [[nodiscard]] std::vector<end> ends() const {
    const std::scoped_lock lock{mutex_};
    return ends_;
  }
  /// The last settlement of a job.
  [[nodiscard]] std::optional<end> end_of(std::uint64_t number) const {
    const std::scoped_lock lock{mutex_};
    for (auto at = ends_.rbegin(); at != ends_.rend(); ++at) {
      if (at->number == number) return *at;
    }
    return std::nullopt;
  }
  /// Jobs per settle call that went well.
  [[nodiscard]] std::vector<std::size_t> settle_sizes() const {
    const std::scoped_lock lock{mutex_};
    return settle_sizes_;
  }
  /// `max` of each fetch.
  [[nodiscard]] std::vector<std::size_t> fetches() const {
    const std::scoped_lock lock{mutex_};
    return fetches_;
  }
  [[nodiscard]] std::vector<std::uint64_t> marked() const {
    const std::scoped_lock lock{mutex_};
    return marked_;
  }
  struct report {
    std::uint64_t number;
    double done;
    std::string note;
  };
  [[nodiscard]] std::vector<report> reports() const {
    const std::scoped_lock lock{mutex_};
    return reports_;
  }
  /// What happened, in order: `join`, `mark 3`, `settle 3`, `leave`, `abandon`.
  [[nodiscard]] std::vector<std::string> story() const {
    const std::scoped_lock lock{mutex_};
    return story_;
  }
  void tell(std::string what) {
    const std::scoped_lock lock{mutex_};
    story_.push_back(std::move(what));
  }

  // What the worker sees.

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] std::size_t max_payload() const noexcept override { return 1024; }
  [[nodiscard]] ergon::clock& clock() const noexcept override { return clock_; }
  [[nodiscard]] ergon::runtime& runtime() const noexcept override { return runtime_; }

  task<std::unique_ptr<consumer>> join(consumer_options) override {
    before("join", {});
    tell("join");
    co_return std::make_unique<member>(*this);
  }

  task<void> enqueue(std::span<const new_job>, std::span<enqueued>) override { return refuse<void>(); }
  task<job_end> wait(std::string) override { return refuse<job_end>(); }
  task<std::optional<job_info>> find(std::string, std::string) override { return refuse<std::optional<job_info>>(); }
  task<job_page> list(job_filter, std::string, std::size_t) override { return refuse<job_page>(); }
  task<std::vector<queue_info>> queues() override { return refuse<std::vector<queue_info>>(); }
  task<std::vector<hour_stats>> stats(std::string, std::uint32_t) override { return refuse<std::vector<hour_stats>>(); }
  task<std::vector<worker_info>> workers() override { return refuse<std::vector<worker_info>>(); }
  task<job_state> cancel(std::string, std::string) override { return refuse<job_state>(); }
  task<std::string> run(std::string, std::string) override { return refuse<std::string>(); }
  task<void> remove(std::string, std::string) override { return refuse<void>(); }
  task<void> pause(std::string) override { return refuse<void>(); }
  task<void> resume(std::string) override { return refuse<void>(); }

 private:
  template <class T>
  static task<T> refuse() {
    throw error{errc::not_supported, "a scripted broker only serves workers"};
    co_return T();
  }

  void before(std::string_view what, std::span<const settlement> settled) {
    std::function<void(std::string_view, std::span<const settlement>)> f;
    {
      const std::scoped_lock lock{mutex_};
      f = on_call_;
    }
    if (f) f(what, settled);
  }

  class member final : public consumer {
   public:
    explicit member(scripted_broker& of) : of_(of) {}

    [[nodiscard]] const std::string& id() const noexcept override { return id_; }

    task<void> fetch(std::size_t max, delivery_batch& out) override {
      {
        const std::scoped_lock lock{of_.mutex_};
        of_.fetches_.push_back(max);
      }
      of_.before("fetch", {});
      for (;;) {
        of_.arrived_.reset();
        {
          const std::scoped_lock lock{of_.mutex_};
          while (!of_.waiting_.empty() && out.jobs.size() < max) {
            const auto& [number, one] = of_.waiting_.front();
            out.jobs.push_back({.lease = {.where = 1, .number = number},
                                .fit = one.fit,
                                .suspect = one.suspect,
                                .queue = "default",
                                .kind = out.keep(one.kind),
                                .payload = out.keep(one.payload),
                                .failures = one.failures,
                                .losses = one.suspect ? 2U : 0U,
                                .max_retries = one.max_retries,
                                .timeout = one.timeout,
                                .deadline = one.deadline,
                                .enqueued_at = of_.clock_.wall(),
                                .keeps_result = one.keeps_result,
                                .raw_headers = {},
                                .serial = number,
                                .custom_id = {}});
            of_.waiting_.pop_front();
          }
        }
        if (!out.jobs.empty()) co_return;
        co_await of_.arrived_.wait();
      }
    }

    task<void> settle(std::span<const settlement> what, std::span<settled> out) override {
      of_.before("settle", what);
      const std::scoped_lock lock{of_.mutex_};
      of_.settle_sizes_.push_back(what.size());
      for (std::size_t i = 0; i < what.size(); ++i) {
        const settlement& one = what[i];
        of_.ends_.push_back({.number = one.lease.number, .how = one.how, .text = std::string{one.text}, .delay = one.delay});
        of_.story_.push_back("settle " + std::to_string(one.lease.number));
        out[i] = settled::yes;
        for (const auto& [number, how] : of_.answers_) {
          if (number == one.lease.number) out[i] = how;
        }
      }
      co_return;
    }

    task<bool> mark(lease_token lease) override {
      of_.before("mark", {});
      const std::scoped_lock lock{of_.mutex_};
      of_.marked_.push_back(lease.number);
      of_.story_.push_back("mark " + std::to_string(lease.number));
      co_return true;
    }

    task<void> report(lease_token lease, double done, std::string_view note) override {
      const std::scoped_lock lock{of_.mutex_};
      of_.reports_.push_back({.number = lease.number, .done = done, .note = std::string{note}});
      co_return;
    }

    task<consumer_news> news() override {
      for (;;) {
        of_.news_.reset();
        {
          const std::scoped_lock lock{of_.mutex_};
          if (!of_.lost_.empty()) co_return consumer_news{.lost = std::exchange(of_.lost_, {})};
        }
        co_await of_.news_.wait();
      }
    }

    task<void> maintain() override { co_await never_.wait(); }

    task<void> leave() override {
      of_.tell("leave");
      co_return;
    }

    void abandon() noexcept override { of_.tell("abandon"); }

   private:
    scripted_broker& of_;
    std::string id_ = "scripted-1";
    event never_;
  };

  ergon::runtime& runtime_;
  ergon::clock& clock_;
  std::string url_ = "scripted:";

  mutable std::mutex mutex_;
  std::uint64_t numbers_ = 0;
  std::deque<std::pair<std::uint64_t, job>> waiting_;
  std::vector<lease_token> lost_;
  std::vector<std::pair<std::uint64_t, settled>> answers_;
  std::vector<end> ends_;
  std::vector<std::size_t> settle_sizes_;
  std::vector<std::size_t> fetches_;
  std::vector<std::uint64_t> marked_;
  std::vector<report> reports_;
  std::vector<std::string> story_;
  std::function<void(std::string_view, std::span<const settlement>)> on_call_;
  event arrived_;
  event news_;
};

}  // namespace ergon
