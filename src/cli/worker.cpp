// ergon worker ls
#include <algorithm>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/text.hpp"

namespace ergon::cli {
namespace {

void write_worker(document& doc, const worker_info& w) {
  doc.begin_object()
      .field("id", w.id)
      .field("host", w.host)
      .field("pid", w.pid)
      .field("concurrency", w.concurrency)
      .field("leased", w.leased)
      .field("started_at", w.started_at)
      .field("seen_at", w.seen_at);
  doc.key("queues").begin_array();
  for (const auto& [name, weight] : w.queues) doc.begin_object().field("name", name).field("weight", weight).end_object();
  doc.end_array().key("running").begin_array();
  for (const running_job& job : w.running) {
    doc.begin_object().field("id", job.id).field("queue", job.queue).field("kind", job.kind).end_object();
  }
  doc.end_array().end_object();
}

/// images×3 default×1
std::string shares_of(const worker_info& w) {
  std::string text;
  for (const auto& [name, weight] : w.queues) text += fmt::format("{}{}×{}", text.empty() ? "" : " ", name, weight);
  return text;
}

int list_workers(command& cmd) {
  std::vector<worker_info> workers = cmd.wait(cmd.store().workers());
  std::ranges::sort(workers, {}, &worker_info::started_at);
  if (cmd.json) {
    document doc;
    doc.begin_object().key("workers").begin_array();
    for (const worker_info& w : workers) write_worker(doc, w);
    cmd.print(doc.end_array().end_object());
    return exit_ok;
  }
  const wall_time now = cmd.now();
  table rows{{"WORKER"},
             {"HOST"},
             {"PID", align::right},
             {"LEASED", align::right},
             {"SLOTS", align::right},
             {"UP", align::right},
             {"SEEN", align::right},
             {"QUEUES"}};
  for (const worker_info& w : workers) {
    rows.add({{w.id},
              {w.host},
              {std::to_string(w.pid)},
              {std::to_string(w.leased), w.leased == 0 ? hue::dim : hue::green},
              {std::to_string(w.concurrency)},
              {age(now - w.started_at)},
              {age(now - w.seen_at) + " ago"},
              {shares_of(w)}});
  }
  cmd.print(rows);
  return exit_ok;
}

}  // namespace

void add_worker(CLI::App& app, command& cmd) {
  CLI::App* noun = app.add_subcommand("worker", "Look at workers");
  noun->require_subcommand(1);
  CLI::App* ls = noun->add_subcommand("ls", "List the workers that the store knows, and what they hold");
  ls->footer("LEASED counts the jobs that a worker holds, SLOTS how many it runs at a time.\n\nExample:\n  ergon worker ls");
  ls->callback([&cmd] { cmd.chosen = [&cmd] { return list_workers(cmd); }; });
}

}  // namespace ergon::cli
