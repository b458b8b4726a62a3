// The outside project of the consumer tests: a worker and a client in one process, as somebody else would write them.
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>

#include <boost/describe.hpp>

#include <ergon/queue/client.hpp>
#include <ergon/queue/worker.hpp>
#include <ergon/runtime/runtime.hpp>

struct greet {
  std::string whom;
};
BOOST_DESCRIBE_STRUCT(greet, (), (whom))

std::string on_greet(const greet& job) { return "hello, " + job.whom; }

int main() {
  const ergon::client jobs{"memory:"};
  ergon::worker worker{jobs.broker()};
  worker.handle(on_greet);
  const std::jthread serving{[&worker](std::stop_token stop) { worker.run(stop); }};

  const std::string answer = jobs.runtime().block_on(jobs.call<std::string>(greet{"outside world"}));
  std::puts(answer.c_str());
  return answer == "hello, outside world" ? 0 : 1;
}
