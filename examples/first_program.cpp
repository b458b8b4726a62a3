// The first program of the README: a job that survives the program, and the worker that does it.
#include <boost/describe/class.hpp>
#include <iostream>
#include <thread>

#include <ergon/queue/queue.hpp>

struct resize {
  std::string path;
  int width = 800;
};
BOOST_DESCRIBE_STRUCT(resize, (), (path, width))

std::string on_resize(const resize& job, ergon::job_context& ctx) {
  ctx.logger().info("resizing " + job.path);
  return job.path + "." + std::to_string(job.width);
}

int main() {
  ergon::worker worker{"sqlite:jobs.db", {.queues = {{"images", 3}, {"default", 1}}, .concurrency = 4}};
  worker.handle(on_resize);
  std::jthread working{[&](std::stop_token stop) { worker.run(stop); }};  // a program of its own says worker.run()

  ergon::client jobs{"sqlite:jobs.db"};
  auto [id, created] = ergon::block_on(jobs.enqueue(resize{"a.png"}, {.queue = "images", .keep_result = std::chrono::hours{1}}));
  std::cout << ergon::block_on(jobs.wait<std::string>(id)) << "\n";  // a.png.800
}
