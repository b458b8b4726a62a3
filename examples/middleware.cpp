// What runs around every handler: here a count per tenant, and a guard that calls jobs of a closed tenant off.
#include <boost/describe/class.hpp>
#include <iostream>
#include <map>

#include <ergon/queue/queue.hpp>
#include <ergon/queue/testing.hpp>

struct report {
  std::string month;
};
BOOST_DESCRIBE_STRUCT(report, (), (month))

int main() {
  ergon::test_kit kit;
  std::map<std::string, int> done;

  kit.use([&](ergon::job_context& ctx, ergon::next_handler next) -> ergon::task<ergon::outcome> {
    const std::string tenant{ctx.header("tenant").value_or("nobody")};
    ergon::outcome end = co_await next();
    if (end.succeeded()) ++done[tenant];
    co_return end;
  });
  kit.use([](ergon::job_context& ctx, ergon::next_handler next) -> ergon::task<ergon::outcome> {
    if (ctx.header("tenant") == "closed") co_return ergon::cancelled("the tenant is gone");
    co_return co_await next();
  });
  kit.handle([](const report& job) -> ergon::task<std::string> { co_return "report of " + job.month; });

  const auto acme = kit.enqueue(report{"May"}, {.headers = {{"tenant", "acme"}}});
  const auto closed = kit.enqueue(report{"May"}, {.headers = {{"tenant", "closed"}}});
  kit.run_until_idle();
  for (const auto& [tenant, count] : done) std::cout << tenant << ": " << count << "\n";
  return done == std::map<std::string, int>{{"acme", 1}} && kit.result<std::string>(acme) == "report of May" &&
                 kit.state(closed) == ergon::job_state::cancelled
             ? 0
             : 1;
}
