// A job as a call: put in, done by some worker, and its result is back.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <ergon/queue/queue.hpp>

using namespace std::chrono_literals;

struct divide {
  double a = 0;
  double b = 1;
};
BOOST_DESCRIBE_STRUCT(divide, (), (a, b))

ergon::task<double> on_divide(const divide& job) {
  if (job.b == 0) throw ergon::fail("division by nought");
  co_return job.a / job.b;
}

ergon::task<int> ask(ergon::client jobs) {
  const double quotient = co_await jobs.call<double>(divide{.a = 84, .b = 2}, {}, {.timeout = 10s});
  std::cout << "84 / 2 = " << quotient << "\n";

  std::string refused;
  try {
    co_await jobs.call<double>(divide{.a = 1, .b = 0}, {.max_retries = 0}, {.timeout = 10s});
  } catch (const ergon::error& e) {  // errc::job_failed, with the handler's words
    refused = e.what();
  }
  std::cout << refused << "\n";
  co_return quotient == 42 && refused.ends_with("division by nought") ? 0 : 1;
}

int main() {
  ergon::worker worker{"memory:"};
  worker.handle(on_divide);
  std::jthread working{[&](std::stop_token stop) { worker.run(stop); }};
  return ergon::block_on(ask(ergon::client{"memory:"}));
}
