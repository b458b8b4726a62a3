// `ergon::worker`: the outside of a worker_core.
#include <ergon/queue/worker.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <ergon/base/error.hpp>
#include <ergon/pool/pool.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/signals.hpp>
#include <ergon/runtime/stop.hpp>

#include "queue/worker_core.hpp"

namespace ergon {

namespace {

broker_options broker_options_of(const worker_options& options) { return options.broker; }

std::shared_ptr<detail::worker_core> core_on(std::shared_ptr<broker> from, worker_options&& options) {
  if (from == nullptr) throw error{errc::invalid_argument, "a worker needs a broker; the pointer is null"};
  auto core = std::make_shared<detail::worker_core>(std::move(from), std::move(options));
  // Plain functions may block, so there are threads for as many as run at once, within reason; threads start when they are needed.
  static_cast<void>(install_pool(core->runtime(), {.max_threads = std::clamp(core->concurrency(), 16U, 256U)}));
  return core;
}

/// Runs beside `main` and ends with it: each signal is a request to stop.
task<void> stop_at_signals(std::shared_ptr<detail::worker_core> core, std::shared_ptr<signal_set> signals, logger log) {
  for (;;) {
    const int signal = co_await signals->wait();
    log.info(signal == SIGINT ? "SIGINT: the worker shuts down" : "SIGTERM: the worker shuts down", {});
    core->stop();
  }
}

task<void> main_with_signals(std::shared_ptr<detail::worker_core> core) {
  const auto caught = std::make_shared<signal_set>(std::initializer_list<int>{SIGTERM, SIGINT});
  auto signals = core->runtime().spawn(stop_at_signals(core, caught, core->logger()), "ergon worker: signals");
  std::exception_ptr thrown;
  try {
    co_await detail::worker_core::main(core);
  } catch (...) {
    thrown = std::current_exception();
  }
  signals.cancel();
  co_await as_result(signals);
  if (thrown) std::rethrow_exception(thrown);
}

task<void> main_until(std::shared_ptr<detail::worker_core> core, std::stop_token stop) {
  detail::task_root& me = co_await detail::this_root{};
  auto running = core->runtime().spawn(detail::worker_core::main(core), "ergon worker");
  auto& state = detail::join_access::state(running);
  {
    const std::stop_callback on_stop{std::move(stop), [&core] { core->stop(); }};
    detail::join_operation until_cancelled{state};
    until_cancelled.report_stop();
    co_await until_cancelled;
    if (until_cancelled.stopped()) {
      // This task was cancelled, not the worker: it still gets to its end, at once.
      core->stop();
      core->stop();
      detail::join_operation to_the_end{state};
      to_the_end.ignore_cancel();
      co_await to_the_end;
    }
  }
  if (state.stopped() && me.cancelled()) co_await detail::stop_here{};
  detail::join_access::take(running);
}

}  // namespace

worker::worker(std::string_view url, worker_options options)
    : core_(core_on(open_broker(url, broker_options_of(options)), std::move(options))) {}

worker::worker(std::shared_ptr<ergon::broker> from, worker_options options)
    : core_(core_on(std::move(from), std::move(options))) {}

worker::worker(worker&&) noexcept = default;

worker::~worker() {
  if (core_ != nullptr) core_->abandon();
}

void worker::add(std::unique_ptr<detail::job_handler> handler, detail::kind_names names, const std::type_info& type,
                 handler_options options) {
  core_->add(std::move(handler), std::move(names), type, std::move(options));
}

worker& worker::use(middleware around) {
  core_->use(std::move(around));
  return *this;
}

void worker::run() { core_->runtime().block_on(main_with_signals(core_)); }

void worker::run(std::stop_token stop) { core_->runtime().block_on(main_until(core_, std::move(stop))); }

task<void> worker::serve(std::stop_token stop) { return main_until(core_, std::move(stop)); }

void worker::stop() noexcept { core_->stop(); }

worker_health worker::health() const { return core_->health(); }

std::string worker::id() const { return core_->id(); }

const std::shared_ptr<broker>& worker::broker() const noexcept { return core_->broker(); }

}  // namespace ergon
