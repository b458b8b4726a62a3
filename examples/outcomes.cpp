// How an attempt can end: with a result, an exception, or a verdict of the handler.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>

#include <ergon/queue/queue.hpp>
#include <ergon/queue/testing.hpp>

using namespace std::chrono_literals;

struct charge {
  int cents = 0;
  std::string card;
};
BOOST_DESCRIBE_STRUCT(charge, (), (cents, card))

ergon::task<ergon::outcome_of<std::string>> on_charge(const charge& job, ergon::job_context& ctx) {
  if (job.cents == 0) co_return ergon::cancelled("nothing to charge");    // called off: neither success nor failure
  if (job.card == "stolen") co_return ergon::fail("the card is stolen");  // to the dead letters, no retry
  if (job.card == "busy" && ctx.attempt() == 1) co_return ergon::retry_in(2min, "the bank is busy");
  if (job.card == "flaky" && ctx.attempt() == 1) throw std::runtime_error("connection reset");  // retried by the policy
  co_return "receipt for " + std::to_string(job.cents);                                         // success, with a result
}

int main() {
  ergon::test_kit kit;  // a store and a clock of its own: nothing here waits for real
  kit.handle(on_charge);
  const auto good = kit.enqueue(charge{.cents = 500, .card = "1234"});
  const auto nothing = kit.enqueue(charge{.cents = 0, .card = "1234"});
  const auto stolen = kit.enqueue(charge{.cents = 500, .card = "stolen"});
  const auto busy = kit.enqueue(charge{.cents = 700, .card = "busy"});
  const auto flaky = kit.enqueue(charge{.cents = 900, .card = "flaky"});
  const auto show = [&](const char* what, const std::string& id) {
    std::cout << what << ": " << ergon::to_string(kit.state(id)) << "\n";
    return kit.state(id);
  };

  kit.run_until_idle();
  bool right = show("good", good) == ergon::job_state::completed;
  right &= show("nothing", nothing) == ergon::job_state::cancelled;
  right &= show("stolen", stolen) == ergon::job_state::dead;
  right &= show("busy", busy) == ergon::job_state::retry;
  right &= show("flaky", flaky) == ergon::job_state::retry;

  kit.advance(3min);
  right &= show("busy, later", busy) == ergon::job_state::completed;
  right &= show("flaky, later", flaky) == ergon::job_state::completed;
  right &= kit.result<std::string>(busy) == "receipt for 700";
  return right ? 0 : 1;
}
