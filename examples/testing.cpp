// How handlers are tested: a store and a clock of their own, and no sleep.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>

#include <ergon/queue/queue.hpp>
#include <ergon/queue/testing.hpp>
#include <ergon/runtime/sleep.hpp>

using namespace std::chrono_literals;

struct remind {
  std::string whom;
};
BOOST_DESCRIBE_STRUCT(remind, (), (whom))

/// The handler under test waits an hour between two reminders, by the runtime's clock.
ergon::task<int> on_remind(const remind& job, ergon::job_context& ctx) {
  if (job.whom.empty()) throw ergon::fail("nobody to remind");
  ctx.progress(0.5, "first reminder");
  co_await ergon::sleep_for(1h);
  co_return 2;
}

#define EXPECT(what) \
  if (!(what)) return std::cout << "not so: " #what "\n", 1

int main() {
  ergon::test_kit kit;
  kit.handle(on_remind);

  const auto id = kit.enqueue(remind{"ada"}, {.process_in = 24h, .timeout = 2h});
  kit.run_until_idle();
  EXPECT(kit.state(id) == ergon::job_state::scheduled);
  kit.advance(24h);
  EXPECT(kit.state(id) == ergon::job_state::active);
  EXPECT(kit.job(id).note == "first reminder");
  kit.advance(1h);
  EXPECT(kit.result<int>(id) == 2);

  const auto nobody = kit.enqueue(remind{""});
  kit.run_until_idle();
  EXPECT(kit.state(nobody) == ergon::job_state::dead);

  const auto slow = kit.enqueue(remind{"bob"}, {.max_retries = 0, .timeout = 30min});
  kit.advance(31min);
  EXPECT(kit.job(slow).errors.at(0).error == "timed out after 30m");
  std::cout << "all as expected\n";
  return 0;
}
