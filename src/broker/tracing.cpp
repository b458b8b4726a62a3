// The tracing decorators. They own what they decorate and add no state of their own.
#include <ergon/broker/tracing.hpp>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace ergon {

namespace {

using shared_hook = std::shared_ptr<const trace_hook>;

template <class T>
task<T> traced(shared_hook hook, std::string_view call, task<T> body) {
  (*hook)(call, trace_point::before);
  std::exception_ptr failure;
  if constexpr (std::is_void_v<T>) {
    try {
      co_await std::move(body);
    } catch (...) {
      failure = std::current_exception();
    }
    (*hook)(call, trace_point::after);
    if (failure) std::rethrow_exception(failure);
  } else {
    std::optional<T> value;
    try {
      value.emplace(co_await std::move(body));
    } catch (...) {
      failure = std::current_exception();
    }
    (*hook)(call, trace_point::after);
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*value);
  }
}

class traced_consumer final : public consumer {
 public:
  traced_consumer(std::unique_ptr<consumer> inner, shared_hook hook) : inner_(std::move(inner)), hook_(std::move(hook)) {}

  [[nodiscard]] const std::string& id() const noexcept override { return inner_->id(); }
  task<void> fetch(std::size_t max, delivery_batch& out) override {
    return traced(hook_, "consumer.fetch", inner_->fetch(max, out));
  }
  task<void> settle(std::span<const settlement> what, std::span<settled> out) override {
    return traced(hook_, "consumer.settle", inner_->settle(what, out));
  }
  task<bool> mark(lease_token lease) override { return traced(hook_, "consumer.mark", inner_->mark(lease)); }
  task<void> report(lease_token lease, double done, std::string_view note) override {
    return traced(hook_, "consumer.report", inner_->report(lease, done, note));
  }
  task<consumer_news> news() override { return traced(hook_, "consumer.news", inner_->news()); }
  task<void> maintain() override { return traced(hook_, "consumer.maintain", inner_->maintain()); }
  task<void> leave() override { return traced(hook_, "consumer.leave", inner_->leave()); }
  void abandon() noexcept override {
    (*hook_)("consumer.abandon", trace_point::before);
    inner_->abandon();
    (*hook_)("consumer.abandon", trace_point::after);
  }

 private:
  std::unique_ptr<consumer> inner_;
  shared_hook hook_;
};

task<std::unique_ptr<consumer>> joined(shared_hook hook, task<std::unique_ptr<consumer>> body) {
  auto inner = co_await std::move(body);
  co_return std::make_unique<traced_consumer>(std::move(inner), std::move(hook));
}

class tracing_broker final : public broker {
 public:
  tracing_broker(std::shared_ptr<broker> inner, trace_hook hook)
      : inner_(std::move(inner)), hook_(std::make_shared<const trace_hook>(std::move(hook))) {}

  [[nodiscard]] const std::string& url() const noexcept override { return inner_->url(); }
  [[nodiscard]] std::size_t max_payload() const noexcept override { return inner_->max_payload(); }
  [[nodiscard]] ergon::clock& clock() const noexcept override { return inner_->clock(); }
  [[nodiscard]] ergon::runtime& runtime() const noexcept override { return inner_->runtime(); }

  task<void> enqueue(std::span<const new_job> jobs, std::span<enqueued> out) override {
    return traced(hook_, "broker.enqueue", inner_->enqueue(jobs, out));
  }
  task<std::unique_ptr<consumer>> join(consumer_options options) override {
    return joined(hook_, traced(hook_, "broker.join", inner_->join(std::move(options))));
  }
  task<job_end> wait(std::string id) override { return traced(hook_, "broker.wait", inner_->wait(std::move(id))); }
  task<std::optional<job_info>> find(std::string id, std::string queue) override {
    return traced(hook_, "broker.find", inner_->find(std::move(id), std::move(queue)));
  }
  task<job_page> list(job_filter filter, std::string cursor, std::size_t limit) override {
    return traced(hook_, "broker.list", inner_->list(std::move(filter), std::move(cursor), limit));
  }
  task<std::vector<queue_info>> queues() override { return traced(hook_, "broker.queues", inner_->queues()); }
  task<std::vector<hour_stats>> stats(std::string queue, std::uint32_t hours) override {
    return traced(hook_, "broker.stats", inner_->stats(std::move(queue), hours));
  }
  task<std::vector<worker_info>> workers() override { return traced(hook_, "broker.workers", inner_->workers()); }
  task<job_state> cancel(std::string id, std::string queue) override {
    return traced(hook_, "broker.cancel", inner_->cancel(std::move(id), std::move(queue)));
  }
  task<std::string> run(std::string id, std::string queue) override {
    return traced(hook_, "broker.run", inner_->run(std::move(id), std::move(queue)));
  }
  task<void> remove(std::string id, std::string queue) override {
    return traced(hook_, "broker.remove", inner_->remove(std::move(id), std::move(queue)));
  }
  task<void> pause(std::string queue) override { return traced(hook_, "broker.pause", inner_->pause(std::move(queue))); }
  task<void> resume(std::string queue) override { return traced(hook_, "broker.resume", inner_->resume(std::move(queue))); }

 private:
  std::shared_ptr<broker> inner_;
  shared_hook hook_;
};

}  // namespace

std::shared_ptr<broker> traced_broker(std::shared_ptr<broker> inner, trace_hook hook) {
  return std::make_shared<tracing_broker>(std::move(inner), std::move(hook));
}

}  // namespace ergon
