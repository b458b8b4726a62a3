#include "crash/life.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <stop_token>

#include <gtest/gtest.h>
#include <boost/describe.hpp>

#include <ergon/queue/client.hpp>
#include <ergon/queue/worker.hpp>
#include <ergon/runtime/event.hpp>
#include <ergon/runtime/result.hpp>
#include <ergon/runtime/sleep.hpp>
#include <ergon/runtime/stop.hpp>

namespace ergon::crash {

using namespace std::chrono_literals;

struct steady_job {
  int n = 0;
};
BOOST_DESCRIBE_STRUCT(steady_job, (), (n))
struct flaky_job {
  int n = 0;
};
BOOST_DESCRIBE_STRUCT(flaky_job, (), (n))
struct doomed_job {
  int n = 0;
};
BOOST_DESCRIBE_STRUCT(doomed_job, (), (n))
struct endless_job {
  int n = 0;
};
BOOST_DESCRIBE_STRUCT(endless_job, (), (n))
struct sum_job {
  int a = 0;
  int b = 0;
};
BOOST_DESCRIBE_STRUCT(sum_job, (), (a, b))

namespace {

task<void> on_steady(const steady_job& /*job*/) { co_return; }
task<outcome> on_flaky(const flaky_job& /*job*/, job_context& ctx) {
  if (ctx.attempt() == 1) {
    co_return retry_in(1ms);
  }
  if (ctx.attempt() == 2) {
    throw std::runtime_error{"not yet"};
  }
  co_return outcome{};
}
task<outcome> on_doomed(const doomed_job& /*job*/) { co_return fail("it never works"); }
task<int> on_sum(const sum_job& job) { co_return job.a + job.b; }

worker worker_of(const std::shared_ptr<broker>& store, bool hang) {
  worker w{store,
           {.queues = {{"default", 2}, {"other", 1}},
            .concurrency = 4,
            .retry = [](std::uint32_t, std::string_view) { return 1ms; },
            .shutdown_grace = 5s,
            .logger = ergon::logger::null()}};
  w.handle(on_steady).handle(on_flaky).handle(on_doomed).handle(on_sum);
  w.handle([hang](const endless_job& /*job*/, job_context& ctx) -> task<void> {
    ctx.progress(0.5, "half-way");
    if (hang) {
      co_await sleep_for(1h);
    }
  });
  return w;
}

/// Asks the store until it says what is hoped for: other tasks and processes bring it about meanwhile.
template <class Question>
task<void> until(Question holds) {
  while (!co_await holds()) {
    co_await sleep_for(1ms);
  }
}

task<void> put_and_look(client jobs, const acknowledged& tell, std::stop_source done) {
  const job_options kept{.retention = 1h};
  const auto put = [&](task<enqueued> how) -> task<std::string> {
    const enqueued answer = co_await std::move(how);
    tell(answer.id);
    co_return answer.id;
  };
  for (int n = 0; n < 3; ++n) {
    co_await put(jobs.enqueue(steady_job{n}, kept));
  }
  std::vector<steady_job> many(20);
  for (const auto& answer : co_await jobs.enqueue_all(many, {.queue = "other", .retention = 1h})) {
    tell(answer.id);
  }
  co_await put(jobs.enqueue(flaky_job{1}, kept));
  // Run again later, so this life of it goes and another comes: whichever it is has to be there in the end.
  const auto doomed = (co_await jobs.enqueue(doomed_job{1}, {.id = "doomed", .retention = 1h})).id;
  tell("doomed@");
  co_await put(jobs.enqueue(steady_job{7}, {.process_in = 5ms, .unique_for = 1h, .retention = 1h}));
  const auto endless = co_await put(jobs.enqueue(endless_job{1}, {.id = "endless", .retention = 1h}));
  const auto never = co_await put(jobs.enqueue(steady_job{8}, {.process_in = 10h}));
  if (co_await jobs.call<int>(sum_job{20, 22}) != 42) {
    throw std::logic_error{"20 + 22"};
  }

  const auto state_is = [&jobs](std::string id, job_state state) -> task<bool> {
    const auto job = co_await jobs.find(id);
    co_return job && job->state == state;
  };
  co_await until([&jobs, &endless]() -> task<bool> {
    const auto job = co_await jobs.find(endless);
    co_return job && job->state == job_state::active && job->progress == 0.5;
  });
  co_await jobs.cancel(endless);
  co_await jobs.cancel(never);
  co_await until([&] { return state_is(doomed, job_state::dead); });
  co_await jobs.run(doomed);
  co_await jobs.pause("other");
  co_await jobs.resume("other");
  const auto spare = co_await jobs.enqueue(steady_job{9}, {.process_in = 10h});
  co_await jobs.remove(spare.id);
  static_cast<void>(co_await jobs.list());
  static_cast<void>(co_await jobs.queues());
  static_cast<void>(co_await jobs.stats());
  static_cast<void>(co_await jobs.workers());
  co_await until([&jobs]() -> task<bool> {
    for (const auto& q : co_await jobs.queues()) {
      if (q.ready + q.scheduled + q.retry + q.active + q.waiting > 0) {
        co_return false;
      }
    }
    co_return true;
  });
  done.request_stop();
}

}  // namespace

void live(const std::shared_ptr<broker>& store, const acknowledged& tell, std::stop_token dead) {
  auto& rt = store->runtime();
  worker w = worker_of(store, true);
  std::stop_source done;
  auto working = rt.spawn(w.serve(done.get_token()), "worker");
  rt.block_on(with_stop(std::move(dead), put_and_look(client{store}, tell, done)));
  rt.block_on([](join_handle<void> handle) -> task<void> { co_await handle; }(std::move(working)));
}

void clean_up(const std::shared_ptr<broker>& store) {
  auto& rt = store->runtime();
  worker w = worker_of(store, false);
  std::stop_source done;
  auto working = rt.spawn(w.serve(done.get_token()), "worker");
  rt.block_on([](client jobs, const worker& own) -> task<void> {
    for (;;) {
      std::uint64_t live = 0;
      for (const auto& q : co_await jobs.queues()) {
        if (q.paused) {
          co_await jobs.resume(q.name);
        }
        live += q.ready + q.retry + q.active + q.waiting + q.scheduled;
      }
      // What was to start in hours is not waited for.
      for (const auto& job : (co_await jobs.list({.state = job_state::scheduled}, {}, 1000)).jobs) {
        if (job.due && *job.due > jobs.broker()->clock().wall() + 1h) {
          co_await jobs.cancel(job.id);
        }
      }
      // Some stores learn of a death only when a lease has run out.
      const auto workers = co_await jobs.workers();
      if (live == 0 && std::ranges::all_of(workers, [&](const worker_info& w) { return w.id == own.id(); })) {
        co_return;
      }
      co_await sleep_for(1ms);
    }
  }(client{store}, w));
  done.request_stop();
  rt.block_on([](join_handle<void> handle) -> task<void> { co_await handle; }(std::move(working)));
}

void plant_suspect(const std::shared_ptr<broker>& store, const acknowledged& tell) {
  store->runtime().block_on([](std::shared_ptr<broker> b, const acknowledged& told) -> task<void> {
    client jobs{b};
    const auto put = co_await jobs.enqueue(steady_job{5}, {.id = "suspect", .retention = 1h});
    told(put.id);
    for (int loss = 0; loss < 2; ++loss) {
      auto victim = co_await b->join({.queues = {{"default", 1}}});
      delivery_batch batch;
      co_await victim->fetch(1, batch);
      victim->abandon();
      victim.reset();
      auto heir = co_await b->join({.queues = {{"other", 1}}});
      auto upkeep = spawn(heir->maintain());
      co_await until([&jobs]() -> task<bool> {
        const auto job = co_await jobs.find("suspect");
        co_return job && job->state == job_state::ready;
      });
      upkeep.cancel();
      static_cast<void>(co_await as_result(upkeep));
      co_await heir->leave();
    }
  }(store, tell));
}

void expect_all_ended(const std::shared_ptr<broker>& store, const std::set<std::string>& ids) {
  std::map<std::string, int> seen;
  std::vector<queue_info> queues;
  std::vector<worker_info> workers;
  store->runtime().block_on([](client jobs, std::map<std::string, int>& found, std::vector<queue_info>& qs,
                               std::vector<worker_info>& ws) -> task<void> {
    std::string cursor;
    do {
      job_page page = co_await jobs.list({}, cursor, 1000);
      for (const auto& job : page.jobs) {
        EXPECT_TRUE(is_terminal(job.state)) << job.id << " is " << to_string(job.state);
        ++found[job.id];
      }
      cursor = page.next;
    } while (!cursor.empty());
    qs = co_await jobs.queues();
    ws = co_await jobs.workers();
  }(client{store}, seen, queues, workers));

  for (const auto& id : ids) {
    // An own id with `@` and no life behind it means any one life.
    int places = 0;
    for (const auto& [name, times] : seen) {
      places += id.ends_with('@') ? (name.starts_with(id) ? times : 0) : (name == id ? times : 0);
    }
    EXPECT_EQ(places, 1) << "job " << id << " was acknowledged and is in " << places << " places";
  }
  for (const auto& q : queues) {
    EXPECT_EQ(q.ready + q.scheduled + q.retry + q.active + q.waiting, 0U) << "limbo in " << q.name;
  }
  EXPECT_TRUE(workers.empty()) << workers.size() << " workers are registered still";
}

}  // namespace ergon::crash
