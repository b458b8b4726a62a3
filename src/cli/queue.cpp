// ergon queue ls | stats | pause | resume
#include <algorithm>
#include <memory>
#include <ostream>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/base/time.hpp>

#include "cli/command.hpp"
#include "cli/text.hpp"

namespace ergon::cli {
namespace {

/// A count; nought steps back, what is worth a look stands out.
cell count(std::uint64_t number, hue colour = hue::plain) { return {std::to_string(number), number == 0 ? hue::dim : colour}; }

// --- ls

void write_queue(document& doc, const queue_info& q) {
  doc.begin_object()
      .field("name", q.name)
      .field("paused", q.paused)
      .field("ready", q.ready)
      .field("scheduled", q.scheduled)
      .field("retry", q.retry)
      .field("waiting", q.waiting)
      .field("active", q.active)
      .field("completed", q.completed)
      .field("dead", q.dead)
      .field("cancelled", q.cancelled)
      .field("discarded", q.discarded)
      .field("latency_ms", q.latency)
      .end_object();
}

int list_queues(command& cmd) {
  std::vector<queue_info> queues = cmd.wait(cmd.store().queues());
  std::ranges::sort(queues, {}, &queue_info::name);
  if (cmd.json) {
    document doc;
    doc.begin_object().key("queues").begin_array();
    for (const queue_info& q : queues) write_queue(doc, q);
    cmd.print(doc.end_array().end_object());
    return exit_ok;
  }
  table rows{{"QUEUE"},
             {"READY", align::right},
             {"SCHEDULED", align::right},
             {"RETRY", align::right},
             {"WAITING", align::right},
             {"ACTIVE", align::right},
             {"COMPLETED", align::right},
             {"DEAD", align::right},
             {"CANCELLED", align::right},
             {"DISCARDED", align::right},
             {"LATENCY", align::right},
             {"REMARK"}};
  for (const queue_info& q : queues) {
    rows.add({{q.name},
              count(q.ready, hue::cyan),
              count(q.scheduled),
              count(q.retry, hue::yellow),
              count(q.waiting),
              count(q.active, hue::bold),
              count(q.completed, hue::green),
              count(q.dead, hue::red),
              count(q.cancelled),
              count(q.discarded),
              {q.latency ? age(*q.latency) : "-"},
              {q.paused ? "paused" : "", hue::yellow}});
  }
  cmd.print(rows);
  return exit_ok;
}

// --- stats

struct stats_options {
  std::string name;
  std::uint32_t hours = 24;
};

constexpr std::uint64_t hour_stats::* counters[] = {&hour_stats::enqueued, &hour_stats::completed, &hour_stats::failed,
                                                    &hour_stats::dead,     &hour_stats::cancelled, &hour_stats::discarded,
                                                    &hour_stats::reclaimed};
constexpr const char* counter_names[] = {"enqueued", "completed", "failed", "dead", "cancelled", "discarded", "reclaimed"};

void write_counters(document& doc, const hour_stats& hour) {
  for (std::size_t i = 0; i < std::size(counters); ++i) doc.field(counter_names[i], hour.*counters[i]);
}

void require_queue(command& cmd, const std::string& name) {
  const std::vector<queue_info> queues = cmd.wait(cmd.store().queues());
  if (std::ranges::find(queues, name, &queue_info::name) == queues.end()) {
    throw error(errc::not_found, fmt::format("no queue {} is known; 'ergon queue ls' lists those that are", ergon::quoted(name)));
  }
}

int show_stats(command& cmd, const stats_options& options) {
  require_queue(cmd, options.name);
  const std::vector<hour_stats> hours = cmd.wait(cmd.store().stats(options.name, options.hours));
  hour_stats total;
  for (const hour_stats& hour : hours) {
    for (const auto counter : counters) total.*counter += hour.*counter;
  }
  if (cmd.json) {
    document doc;
    doc.begin_object().field("queue", options.name).key("hours").begin_array();
    for (const hour_stats& hour : hours) {
      doc.begin_object().field("hour", hour.hour);
      write_counters(doc, hour);
      doc.end_object();
    }
    doc.end_array().key("total").begin_object();
    write_counters(doc, total);
    cmd.print(doc.end_object().end_object());
    return exit_ok;
  }
  table rows{{"HOUR"},
             {"ENQUEUED", align::right},
             {"COMPLETED", align::right},
             {"FAILED", align::right},
             {"DEAD", align::right},
             {"CANCELLED", align::right},
             {"DISCARDED", align::right},
             {"RECLAIMED", align::right}};
  const auto add = [&](std::string label, const hour_stats& hour) {
    rows.add({{std::move(label)},
              count(hour.enqueued),
              count(hour.completed, hue::green),
              count(hour.failed, hue::yellow),
              count(hour.dead, hue::red),
              count(hour.cancelled),
              count(hour.discarded),
              count(hour.reclaimed, hue::yellow)});
  };
  for (const hour_stats& hour : hours) add(format_time(hour.hour), hour);
  add("total", total);
  cmd.print(rows);
  return exit_ok;
}

void add_stats(CLI::App& noun, command& cmd) {
  auto options = std::make_shared<stats_options>();
  CLI::App* verb = noun.add_subcommand("stats", "What happened in a queue, by the hour (UTC)");
  verb->add_option("NAME", options->name, "The queue")->required()->type_name("");
  verb->add_option("--hours", options->hours, "How far back: 1 to 2160 (default 24)")
      ->type_name("N")
      ->check(CLI::Range(1U, 2160U).description(""));
  verb->footer("Example:\n  ergon queue stats default --hours 48");
  verb->callback([&cmd, options] { cmd.chosen = [&cmd, options] { return show_stats(cmd, *options); }; });
}

// --- pause, resume

int set_paused(command& cmd, const std::string& name, bool paused) {
  cmd.wait(paused ? cmd.store().pause(name) : cmd.store().resume(name));
  if (cmd.json) {
    document doc;
    cmd.print(doc.begin_object().field("queue", name).field("paused", paused).end_object());
  } else {
    cmd.out << printable(name) << (paused ? "  paused: it takes jobs in and gives none out\n" : "  resumed\n");
  }
  return exit_ok;
}

void add_pause(CLI::App& noun, command& cmd, const char* verb_name, const char* about, bool paused) {
  auto name = std::make_shared<std::string>();
  CLI::App* verb = noun.add_subcommand(verb_name, about);
  verb->add_option("NAME", *name, "The queue")->required()->type_name("");
  verb->footer(fmt::format("Example:\n  ergon queue {} mail", verb_name));
  verb->callback([&cmd, name, paused] { cmd.chosen = [&cmd, name, paused] { return set_paused(cmd, *name, paused); }; });
}

}  // namespace

void add_queue(CLI::App& app, command& cmd) {
  CLI::App* noun = app.add_subcommand("queue", "Look at queues, pause and resume them");
  noun->require_subcommand(1);
  CLI::App* ls = noun->add_subcommand("ls", "List queues and how many jobs are in each state");
  ls->footer(
      "LATENCY is the age of the oldest job that is ready.\n\nExample:\n  ergon --json queue ls | jq '.queues[] | select(.dead > "
      "0)'");
  ls->callback([&cmd] { cmd.chosen = [&cmd] { return list_queues(cmd); }; });
  add_stats(*noun, cmd);
  add_pause(*noun, cmd, "pause", "Give no jobs of a queue out; it still takes them in", true);
  add_pause(*noun, cmd, "resume", "Give jobs of a paused queue out again", false);
}

}  // namespace ergon::cli
