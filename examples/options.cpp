// What can be asked for when a job is put in, and what a kind can say for itself.
#include <boost/describe/class.hpp>
#include <chrono>
#include <iostream>
#include <vector>

#include <ergon/queue/queue.hpp>

using namespace std::chrono_literals;

struct send_mail {
  std::string to;
  std::string text;

  static constexpr std::string_view kind = "mail:send";
  static ergon::job_options defaults() { return {.queue = "mail", .max_retries = 5, .timeout = 30s}; }
};
BOOST_DESCRIBE_STRUCT(send_mail, (), (to, text))

struct rebuild_index {};
BOOST_DESCRIBE_STRUCT(rebuild_index, (), ())

ergon::task<int> put_in(ergon::client jobs) {
  const send_mail mail{.to = "ada@example.org", .text = "hello"};

  // With the kind's own options.
  const auto plain = co_await jobs.enqueue(mail);
  std::cout << "plain: created " << plain.created << "\n";

  // In ten minutes, to another queue, with a header for whoever handles it.
  co_await jobs.enqueue(mail, {.queue = "newsletter", .process_in = 10min, .headers = {{"tenant", "acme"}}});

  // At a time, but not after another.
  const auto now = jobs.broker()->clock().wall();
  co_await jobs.enqueue(mail, {.process_at = now + 1h, .deadline = now + 24h});

  // The caller's own id: put in twice, there once.
  const auto first = co_await jobs.enqueue(mail, {.id = "order-42"});
  const auto again = co_await jobs.enqueue(mail, {.id = "order-42"});
  std::cout << "same id: created " << first.created << ", then " << again.created << ", same job: " << (first.id == again.id)
            << "\n";

  // Unique by kind and payload, and by a key.
  const auto one = co_await jobs.enqueue(rebuild_index{}, {.unique_for = 1h});
  const auto two = co_await jobs.enqueue(rebuild_index{}, {.unique_for = 1h});
  const auto key = co_await jobs.enqueue(rebuild_index{}, {.unique_for = 1h, .unique_key = "the index of acme"});
  std::cout << "unique: created " << one.created << ", then " << two.created << ", by another key " << key.created << "\n";

  // Many at once: all or none.
  std::vector<send_mail> mails;
  for (int i = 0; i < 100; ++i) mails.push_back({.to = "user" + std::to_string(i) + "@example.org", .text = "news"});
  const auto all = co_await jobs.enqueue_all(mails, {.max_retries = 0});
  ergon::job_batch mixed;
  mixed.add(mail).add(rebuild_index{}, {.queue = "slow"});
  const auto both = co_await jobs.enqueue_all(std::move(mixed));
  std::cout << "batches: " << all.size() << " and " << both.size() << "\n";

  for (const ergon::queue_info& queue : co_await jobs.queues()) {
    std::cout << queue.name << ": " << queue.ready << " ready, " << queue.scheduled << " scheduled\n";
  }
  co_return first.created && !again.created && first.id == again.id && one.created && !two.created && key.created &&
          all.size() == 100
      ? 0
      : 1;
}

int main() { return ergon::block_on(put_in(ergon::client{"memory:"})); }
