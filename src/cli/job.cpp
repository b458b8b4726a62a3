// ergon job ls | show | run | rm | cancel
#include <algorithm>
#include <memory>
#include <ostream>

#include <fmt/format.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/base/time.hpp>

#include "cli/command.hpp"
#include "cli/text.hpp"

namespace ergon::cli {
namespace {

constexpr job_state all_states[] = {job_state::ready,   job_state::scheduled, job_state::retry,
                                    job_state::waiting, job_state::active,    job_state::completed,
                                    job_state::dead,    job_state::cancelled, job_state::discarded};

hue colour_of(job_state state) {
  switch (state) {
    case job_state::ready:
      return hue::cyan;
    case job_state::scheduled:
    case job_state::waiting:
      return hue::blue;
    case job_state::retry:
      return hue::yellow;
    case job_state::active:
      return hue::bold;
    case job_state::completed:
      return hue::green;
    case job_state::dead:
      return hue::red;
    case job_state::cancelled:
    case job_state::discarded:
      return hue::dim;
  }
  return hue::plain;
}

/// Bytes that a program put in: as the JSON that they are, as text, or as hexadecimal digits; the other two members are left out.
void write_bytes(document& doc, std::string_view name, std::string_view bytes) {
  if (!fault_in_json(bytes)) {
    doc.key(name).raw(compact_json(bytes));
  } else if (is_utf8(bytes)) {
    doc.field(fmt::format("{}_text", name), bytes);
  } else {
    std::string digits;
    for (const char c : bytes) fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(c));
    doc.field(fmt::format("{}_hex", name), digits);
  }
}

void write_job(document& doc, const job_info& job) {
  doc.begin_object()
      .field("id", job.id)
      .field("queue", job.queue)
      .field("kind", job.kind)
      .field("state", to_string(job.state))
      .field("failures", job.failures)
      .field("losses", job.losses)
      .field("max_retries", job.max_retries)
      .field("enqueued_at", job.enqueued_at)
      .field("due", job.due)
      .field("ended_at", job.ended_at)
      .field("deadline", job.deadline)
      .field("timeout_ms", job.timeout)
      .field("retention_ms", job.retention)
      .field("keep_result_ms", job.keep_result);
  doc.key("unique_key");
  job.unique_key.empty() ? doc.value(nullptr) : doc.value(job.unique_key);
  doc.key("worker");
  job.worker.empty() ? doc.value(nullptr) : doc.value(job.worker);
  doc.field("progress", job.progress).field("note", job.note);
  doc.key("headers").begin_array();
  for (const auto& [name, value] : job.headers) doc.begin_object().field("name", name).field("value", value).end_object();
  doc.end_array();
  write_bytes(doc, "payload", job.payload);
  if (job.result) write_bytes(doc, "result", *job.result);
  doc.key("errors").begin_array();
  for (const failure& f : job.errors) {
    doc.begin_object().field("at", f.at).field("worker", f.worker).field("error", f.error).end_object();
  }
  doc.end_array().end_object();
}

std::string spans_until(wall_time due, wall_time now) { return due <= now ? "now" : "in " + age(due - now); }

/// What is most worth knowing about it on one line.
std::string remark_on(const job_info& job, wall_time now) {
  switch (job.state) {
    case job_state::scheduled:
      return job.due ? spans_until(*job.due, now) : "";
    case job_state::retry: {
      std::string text = job.due ? spans_until(*job.due, now) : "";
      if (!job.errors.empty()) text += fmt::format("{}{}", text.empty() ? "" : ": ", job.errors.back().error);
      return text;
    }
    case job_state::active:
      if (job.progress) return fmt::format("{:.0f}% {}", *job.progress * 100, job.note);
      return job.note;
    case job_state::dead:
    case job_state::cancelled:
    case job_state::discarded:
      return job.errors.empty() ? "" : job.errors.back().error;
    case job_state::completed:
      return job.ended_at ? fmt::format("{} ago", age(now - *job.ended_at)) : "";
    case job_state::ready:
    case job_state::waiting:
      return "";
  }
  return "";
}

// --- ls

struct ls_options {
  std::string queue;
  std::string state;
  std::string kind;
  std::string cursor;
  std::size_t limit = 100;
};

job_page gather(command& cmd, const ls_options& options) {
  job_filter filter{.queue = options.queue, .state = std::nullopt, .kind = options.kind};
  if (!options.state.empty()) filter.state = job_state_of(options.state);
  job_page found;
  found.next = options.cursor;
  // A page of the store may be short, or empty, and still not be the last.
  do {
    constexpr std::size_t page = 1000;
    const std::size_t wanted = options.limit == 0 ? page : std::min(page, options.limit - found.jobs.size());
    job_page more = cmd.wait(cmd.store().list(filter, found.next, wanted));
    std::ranges::move(more.jobs, std::back_inserter(found.jobs));
    found.next = std::move(more.next);
  } while (!found.next.empty() && (options.limit == 0 || found.jobs.size() < options.limit));
  return found;
}

int list_jobs(command& cmd, const ls_options& options) {
  const job_page found = gather(cmd, options);
  if (cmd.json) {
    document doc;
    doc.begin_object().key("jobs").begin_array();
    for (const job_info& job : found.jobs) write_job(doc, job);
    doc.end_array().key("next");
    found.next.empty() ? doc.value(nullptr) : doc.value(found.next);
    cmd.print(doc.end_object());
    return exit_ok;
  }
  const wall_time now = cmd.now();
  table rows{{"ID"}, {"QUEUE"}, {"KIND"}, {"STATE"}, {"FAILED", align::right}, {"AGE", align::right}, {"REMARK"}};
  for (const job_info& job : found.jobs) {
    rows.add({{job.id},
              {job.queue},
              {job.kind},
              {std::string(to_string(job.state)), colour_of(job.state)},
              {fmt::format("{}/{}", job.failures, job.max_retries), job.failures > 0 ? hue::yellow : hue::plain},
              {age(now - job.enqueued_at)},
              {remark_on(job, now)}});
  }
  cmd.print(rows);
  if (!found.next.empty()) cmd.note(fmt::format("there are more: --cursor {}", found.next));
  return exit_ok;
}

void add_ls(CLI::App& noun, command& cmd) {
  auto options = std::make_shared<ls_options>();
  CLI::App* verb = noun.add_subcommand("ls", "List jobs");
  std::vector<std::string> states;
  for (const job_state state : all_states) states.emplace_back(to_string(state));
  verb->add_option("-q,--queue", options->queue, "Only of this queue")->type_name("NAME");
  verb->add_option("--state", options->state, fmt::format("Only in this state: {}", fmt::join(states, ", ")))
      ->type_name("STATE")
      ->check(CLI::IsMember(states).description(""));
  verb->add_option("--kind", options->kind, "Only of this kind")->type_name("KIND");
  // A number with a sign wraps around when it is read: the bound refuses it.
  verb->add_option("--limit", options->limit, "At most so many; 0 for all (default 100)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}).description(""));
  verb->add_option("--cursor", options->cursor, "Go on where a former list ended")->type_name("CURSOR");
  verb->footer(
      "Examples:\n  ergon job ls --queue mail --state retry\n  ergon --json job ls --state dead --limit 0 | jq -r '.jobs[].id'");
  verb->callback([&cmd, options] { cmd.chosen = [&cmd, options] { return list_jobs(cmd, *options); }; });
}

// --- show

struct job_names {
  std::vector<std::string> ids;
  std::string queue = "default";
};

void add_queue_of_own_id(CLI::App& verb, job_names& names) {
  verb.add_option("-q,--queue", names.queue, "Where an id of your own is looked up (default: default)")->type_name("NAME");
}

/// Payload or result: JSON indented, text as it is.
void print_bytes(command& cmd, std::string_view title, std::string_view bytes) {
  constexpr std::size_t most = 64UL * 1024;
  cmd.out << '\n' << cmd.look().paint(hue::bold, title) << '\n';
  const std::string shown =
      bytes.size() <= most && !fault_in_json(bytes) ? indented_json(bytes) : std::string(bytes.substr(0, most));
  std::string_view left = shown;
  while (true) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    cmd.out << "  " << printable(left.substr(0, end)) << '\n';
    if (end == left.size()) break;
    left.remove_prefix(end + 1);
  }
  if (bytes.size() > most) cmd.out << fmt::format("  … and {} bytes more: --json prints all\n", bytes.size() - most);
}

std::string to_the_second(wall_time at) { return format_time(std::chrono::floor<std::chrono::seconds>(at)); }

void print_job(command& cmd, const job_info& job) {
  const wall_time now = cmd.now();
  const auto line = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) cmd.out << cmd.look().paint(hue::dim, fmt::format("{:<12}", name)) << value << '\n';
  };
  const auto moment = [&](std::string_view name, std::optional<wall_time> at) {
    if (at) line(name, fmt::format("{} ({})", to_the_second(*at), *at <= now ? age(now - *at) + " ago" : "in " + age(*at - now)));
  };
  const auto span = [&](std::string_view name, std::chrono::milliseconds length) {
    if (length.count() > 0) line(name, format_duration(length));
  };
  line("id", printable(job.id));
  line("queue", printable(job.queue));
  line("kind", printable(job.kind));
  line("state", cmd.look().paint(colour_of(job.state), to_string(job.state)));
  moment("enqueued", job.enqueued_at);
  moment("due", job.due);
  moment("ended", job.ended_at);
  moment("deadline", job.deadline);
  line("worker", printable(job.worker));
  if (job.progress) line("progress", fmt::format("{:.0f}% {}", *job.progress * 100, printable(job.note)));
  line("failures", fmt::format("{} of {} forgiven", job.failures, job.max_retries));
  if (job.losses > 0) line("losses", fmt::format("{} (its worker was lost)", job.losses));
  line("timeout", job.timeout.count() == 0 ? "none" : format_duration(job.timeout));
  span("retention", job.retention);
  span("keep result", job.keep_result);
  line("unique key", printable(job.unique_key));
  for (const auto& [name, value] : job.headers) line("header", printable(fmt::format("{}: {}", name, value)));
  for (const failure& f : job.errors)
    line("error", fmt::format("{} {}: {}", format_time(f.at), printable(f.worker), printable(f.error)));
  print_bytes(cmd, "payload", job.payload);
  if (job.result) print_bytes(cmd, "result", *job.result);
}

int show_job(command& cmd, const job_names& names) {
  const std::string& id = names.ids.front();
  const std::optional<job_info> job = cmd.wait(cmd.store().find(id, names.queue));
  if (!job)
    throw error(errc::not_found, fmt::format("no job {} is known; an id of your own is looked up in --queue, here {}",
                                             ergon::quoted(id), ergon::quoted(names.queue)));
  if (cmd.json) {
    document doc;
    write_job(doc, *job);
    cmd.print(doc);
  } else {
    print_job(cmd, *job);
  }
  return exit_ok;
}

void add_show(CLI::App& noun, command& cmd) {
  auto names = std::make_shared<job_names>();
  CLI::App* verb = noun.add_subcommand("show", "Show all that is known of a job");
  verb->add_option("ID", names->ids, "As enqueue printed it, or an id of your own")
      ->required()
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name("");
  add_queue_of_own_id(*verb, *names);
  verb->footer("Examples:\n  ergon job show 0g4000000001c\n  ergon job show invoice-42 --queue billing");
  verb->callback([&cmd, names] { cmd.chosen = [&cmd, names] { return show_job(cmd, *names); }; });
}

// --- run, rm, cancel

int run_jobs(command& cmd, const job_names& names) {
  return for_each_job(cmd, names.ids, [&](const std::string& id, document& doc) {
    const std::string life = cmd.wait(cmd.store().run(id, names.queue));
    doc.begin_object().field("id", id).field("new_id", life).end_object();
    if (!cmd.json) cmd.out << printable(id) << "  ready" << (life == id ? "" : " as " + printable(life)) << '\n';
  });
}

int remove_jobs(command& cmd, const job_names& names) {
  return for_each_job(cmd, names.ids, [&](const std::string& id, document& doc) {
    cmd.wait(cmd.store().remove(id, names.queue));
    doc.begin_object().field("id", id).end_object();
    if (!cmd.json) cmd.out << printable(id) << "  removed\n";
  });
}

int cancel_jobs(command& cmd, const job_names& names) {
  return for_each_job(cmd, names.ids, [&](const std::string& id, document& doc) {
    const job_state was = cmd.wait(cmd.store().cancel(id, names.queue));
    doc.begin_object().field("id", id).field("was", to_string(was)).end_object();
    if (!cmd.json) cmd.out << printable(id) << "  cancelled, was " << to_string(was) << '\n';
  });
}

void add_act(CLI::App& noun, command& cmd, const char* name, const char* about, const char* footer,
             int (*act)(command&, const job_names&)) {
  auto names = std::make_shared<job_names>();
  CLI::App* verb = noun.add_subcommand(name, about);
  verb->add_option("ID", names->ids, "As enqueue printed it, or an id of your own")->required()->type_name("");
  add_queue_of_own_id(*verb, *names);
  verb->footer(footer);
  verb->callback([&cmd, names, act] { cmd.chosen = [&cmd, names, act] { return act(cmd, *names); }; });
}

}  // namespace

void add_job(CLI::App& app, command& cmd) {
  CLI::App* noun = app.add_subcommand("job", "Look at jobs and act on them");
  noun->require_subcommand(1);
  add_ls(*noun, cmd);
  add_show(*noun, cmd);
  add_act(*noun, cmd, "run", "Make jobs ready now, with a full retry budget",
          "A job that had ended starts a new life with an id of its own.\n\nExamples:\n  ergon job run 0g4000000001c\n"
          "  ergon --json job ls --state dead --limit 0 | jq -r '.jobs[].id' | xargs ergon job run",
          run_jobs);
  add_act(*noun, cmd, "rm", "Forget jobs that are not running", "Example:\n  ergon job rm 0g4000000001c", remove_jobs);
  add_act(*noun, cmd, "cancel", "Cancel jobs for good; a running handler is told to stop",
          "Example:\n  ergon job cancel 0g4000000001c", cancel_jobs);
}

}  // namespace ergon::cli
