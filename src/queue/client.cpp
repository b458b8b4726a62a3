// `ergon::client`: options and payloads in the broker's words, and the wait for an end.
#include <ergon/queue/client.hpp>

#include <utility>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/runtime/sleep.hpp>

#include "queue/new_job.hpp"

namespace ergon {

namespace {

constexpr std::chrono::milliseconds call_keeps_result = std::chrono::hours{1};

/// One job and all that its views point to; lies in the frame of the task that puts it in.
struct packed_job {
  std::string kind;
  std::string payload;
  job_options options;
  std::string unique_key;
  std::vector<header> headers;

  [[nodiscard]] new_job view() {
    new_job job = detail::job_of(kind, payload, options, headers);
    if (options.unique_for && !options.unique_key) {
      unique_key = detail::unique_key_of(kind, payload);
      job.unique_key = unique_key;
    }
    return job;
  }
};

task<enqueued> put(std::shared_ptr<broker> where, packed_job packed) {
  const new_job job = packed.view();
  enqueued answer;
  co_await where->enqueue({&job, 1}, {&answer, 1});
  co_return answer;
}

task<std::string> end_text(std::shared_ptr<broker> where, std::string id, wait_options options) {
  if (options.timeout) check_duration("the timeout of a wait", *options.timeout);
  job_end end;
  bool late = false;
  if (options.timeout) {
    try {
      end = co_await timeout(*options.timeout, where->wait(id));
    } catch (const error& e) {
      if (e.reason() != errc::timed_out) throw;
      late = true;
    }
  } else {
    end = co_await where->wait(id);
  }
  if (late)
    throw error{errc::timed_out,
                fmt::format("job {} has not ended within {}; it goes on", quoted(id), format_duration(*options.timeout))};
  switch (end.state) {
    case job_state::completed:
      co_return std::move(end.text);
    case job_state::cancelled:
      throw error{errc::job_failed, fmt::format("job {} was cancelled{}{}", quoted(id), end.text.empty() ? "" : ": ", end.text)};
    case job_state::discarded:
      throw error{errc::job_failed, fmt::format("job {} was discarded{}{}", quoted(id), end.text.empty() ? "" : ": ", end.text)};
    default:
      throw error{errc::job_failed,
                  fmt::format("job {} failed for good{}{}", quoted(id), end.text.empty() ? "" : ": ", end.text)};
  }
}

task<std::string> put_and_wait(std::shared_ptr<broker> where, packed_job packed, wait_options waiting) {
  const enqueued job = co_await put(where, std::move(packed));
  co_return co_await end_text(std::move(where), job.id, waiting);
}

packed_job pack(std::string_view kind, std::string payload, const job_options& options, const job_options* defaults) {
  packed_job packed{.kind = std::string{kind},
                    .payload = std::move(payload),
                    .options = defaults != nullptr ? merged(options, *defaults) : options,
                    .unique_key = {},
                    .headers = {}};
  // What contradicts itself is said now, to whoever wrote it.
  static_cast<void>(packed.view());
  return packed;
}

}  // namespace

void job_batch::clear() noexcept {
  jobs_.clear();
  bytes_.clear();
  headers_.clear();
}

void job_batch::add_encoded(std::string_view kind, std::string_view payload, const job_options& options,
                            const job_options* defaults) {
  std::vector<header> headers;
  job_options both;
  if (defaults != nullptr) both = merged(options, *defaults);
  const job_options& effective = defaults != nullptr ? both : options;
  new_job job = detail::job_of(kind, payload, effective, headers);
  const auto keep = [this](std::string_view bytes) { return bytes.empty() ? std::string_view{} : bytes_.keep(bytes); };
  // The kind of a typed payload is static, one given as text need not be; a run of the same kind is kept once.
  job.kind = !jobs_.empty() && jobs_.back().kind == kind ? jobs_.back().kind : keep(kind);
  job.payload = keep(payload);
  if (effective.queue)
    job.queue = !jobs_.empty() && jobs_.back().queue == *effective.queue ? jobs_.back().queue : keep(*effective.queue);
  if (effective.id) job.id = keep(*effective.id);
  if (effective.unique_key) {
    job.unique_key = keep(*effective.unique_key);
  } else if (effective.unique_for) {
    job.unique_key = keep(detail::unique_key_of(kind, payload));
  }
  if (!headers.empty()) {
    for (header& one : headers) one = {.name = keep(one.name), .value = keep(one.value)};
    job.headers = headers_.emplace_back(std::move(headers));
  }
  jobs_.push_back(job);
}

client::client(std::string_view url, broker_options options) : broker_(open_broker(url, options)) {}

client::client(std::shared_ptr<ergon::broker> where) : broker_(std::move(where)) {
  if (broker_ == nullptr) throw error{errc::invalid_argument, "a client needs a broker; the pointer is null"};
}

task<enqueued> client::put_one(std::string_view kind, std::string payload, const job_options& options,
                               const job_options* defaults) const {
  return put(broker_, pack(kind, std::move(payload), options, defaults));
}

task<std::vector<enqueued>> client::put_all(job_batch batch) const {
  return [](std::shared_ptr<ergon::broker> where, job_batch all) -> task<std::vector<enqueued>> {
    std::vector<enqueued> answers(all.size());
    if (!all.empty()) co_await where->enqueue(all.jobs(), answers);
    co_return answers;
  }(broker_, std::move(batch));
}

task<void> client::enqueue_all(const job_batch& batch, std::vector<enqueued>& answers) const {
  return [](std::shared_ptr<ergon::broker> where, const job_batch& all, std::vector<enqueued>& out) -> task<void> {
    out.resize(all.size());
    if (!all.empty()) co_await where->enqueue(all.jobs(), out);
  }(broker_, batch, answers);
}

task<std::string> client::wait_text(std::string id, wait_options options) const {
  return end_text(broker_, std::move(id), options);
}

task<std::string> client::call_text(std::string_view kind, std::string payload, const job_options& options,
                                    const job_options* defaults, wait_options waiting) const {
  packed_job packed = pack(kind, std::move(payload), options, defaults);
  if (!packed.options.keep_result) packed.options.keep_result = call_keeps_result;
  return put_and_wait(broker_, std::move(packed), waiting);
}

namespace {

/// The broker has to live until its task has ended, also where the client does not.
template <class T>
task<T> keeping(std::shared_ptr<broker> where, task<T> what) {
  const auto keeps = std::move(where);
  co_return co_await std::move(what);
}

}  // namespace

task<std::optional<job_info>> client::find(std::string id, std::string queue) const {
  return keeping(broker_, broker_->find(std::move(id), std::move(queue)));
}
task<job_page> client::list(job_filter filter, std::string cursor, std::size_t limit) const {
  return keeping(broker_, broker_->list(std::move(filter), std::move(cursor), limit));
}
task<std::vector<queue_info>> client::queues() const { return keeping(broker_, broker_->queues()); }
task<std::vector<hour_stats>> client::stats(std::string queue, std::uint32_t hours) const {
  return keeping(broker_, broker_->stats(std::move(queue), hours));
}
task<std::vector<worker_info>> client::workers() const { return keeping(broker_, broker_->workers()); }
task<job_state> client::cancel(std::string id, std::string queue) const {
  return keeping(broker_, broker_->cancel(std::move(id), std::move(queue)));
}
task<std::string> client::run(std::string id, std::string queue) const {
  return keeping(broker_, broker_->run(std::move(id), std::move(queue)));
}
task<void> client::remove(std::string id, std::string queue) const {
  return keeping(broker_, broker_->remove(std::move(id), std::move(queue)));
}
task<void> client::pause(std::string queue) const { return keeping(broker_, broker_->pause(std::move(queue))); }
task<void> client::resume(std::string queue) const { return keeping(broker_, broker_->resume(std::move(queue))); }

}  // namespace ergon
