// ergon enqueue KIND
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/queue/client.hpp>
#include <ergon/queue/job_options.hpp>

#include "cli/command.hpp"
#include "cli/text.hpp"

namespace ergon::cli {
namespace {

struct enqueue_options {
  std::string kind;
  std::string payload = "{}";
  bool raw = false;
  std::optional<std::string> queue, id, in, at, timeout, deadline, unique_key, unique_for, retention, keep_result;
  std::optional<std::uint32_t> max_retries;
  std::vector<std::string> headers;
};

std::string read_file(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw error(errc::unavailable, fmt::format("--payload: the file {} cannot be read", ergon::quoted(path, 4096)));
  std::string text;
  char piece[65536];
  while (text.size() <= most && (file.read(piece, sizeof piece), file.gcount() > 0))
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  // A folder opens and cannot be read.
  if (file.bad()) throw error(errc::unavailable, fmt::format("--payload: the file {} cannot be read", ergon::quoted(path, 4096)));
  return text;
}

/// The bytes to store. White space between tokens is dropped, so that a payload typed by hand is the same to a unique lock as the
/// one that a program encodes.
std::string payload_of(command& cmd, const enqueue_options& options) {
  const std::size_t most = cmd.store().max_payload();
  std::string bytes = options.payload;
  std::string_view from = "--payload";
  if (bytes == "-") {
    bytes = cmd.read_input(most);
    from = "--payload from standard input";
  } else if (bytes.starts_with('@')) {
    bytes = read_file(bytes.substr(1), most);
    from = "--payload from a file";
  }
  if (bytes.size() > most)
    throw usage_error(fmt::format("{} has more than {} bytes, the most that this store takes", from, most));
  if (options.raw) return bytes;
  if (const auto fault = fault_in_json(bytes)) {
    throw usage_error(fmt::format("{} is not JSON: {}; --raw stores bytes as they are", from, *fault));
  }
  return compact_json(bytes);
}

/// A time, or a span from now.
wall_time deadline_of(command& cmd, const std::string& text) {
  const bool looks_like_time = text.contains('-') || text.contains(':');
  return looks_like_time ? time_of("--deadline", text) : cmd.now() + span_of("--deadline", text);
}

job_options job_options_of(command& cmd, const enqueue_options& given) {
  job_options options{.queue = given.queue, .id = given.id, .max_retries = given.max_retries, .unique_key = given.unique_key};
  if (given.in) options.process_in = span_of("--in", *given.in);
  if (given.at) options.process_at = time_of("--at", *given.at);
  if (given.timeout) options.timeout = milliseconds_of("--timeout", *given.timeout);
  if (given.deadline) options.deadline = deadline_of(cmd, *given.deadline);
  if (given.unique_for) options.unique_for = milliseconds_of("--unique-for", *given.unique_for);
  if (given.retention) options.retention = milliseconds_of("--retention", *given.retention);
  if (given.keep_result) options.keep_result = milliseconds_of("--keep-result", *given.keep_result);
  for (const std::string& header : given.headers) {
    const std::size_t sign = header.find('=');
    if (sign == std::string::npos || sign == 0) {
      throw usage_error(fmt::format("--header: {} is no NAME=VALUE", ergon::quoted(header)));
    }
    options.headers.emplace_back(header.substr(0, sign), header.substr(sign + 1));
  }
  return options;
}

int enqueue(command& cmd, const enqueue_options& given) {
  check_name("kind", given.kind);
  if (given.queue) check_name("queue name", *given.queue);
  // What can be refused without the store is, before a file is made for it.
  const job_options options = job_options_of(cmd, given);
  const client jobs(cmd.shared_store());
  const enqueued answer = cmd.wait(jobs.enqueue_raw(given.kind, payload_of(cmd, given), options));
  if (cmd.json) {
    document doc;
    cmd.print(doc.begin_object().field("id", answer.id).field("created", answer.created).end_object());
    return exit_ok;
  }
  cmd.out << printable(answer.id) << '\n';
  if (!answer.created) cmd.note("nothing was stored: this live job holds the id or the unique key");
  return exit_ok;
}

constexpr const char* footer = R"(Spans: 250ms, 90s, 5m, 1h30m, 2d, 1w. Times: 2030-01-31T09:30:00Z.
Prints the job's id. Where a live job holds the id or the unique key, prints that job's id and stores nothing.

Examples:
  ergon enqueue send_email --payload '{"to": "ada@example.org"}'
  ergon enqueue report --at 2030-01-31T09:30:00+01:00 --queue slow --keep-result 1h
  ergon enqueue sync --id customer-42 --unique-for 10m
  git log -1 | ergon enqueue announce --raw --payload -)";

}  // namespace

void add_enqueue(CLI::App& app, command& cmd) {
  auto options = std::make_shared<enqueue_options>();
  CLI::App* verb = app.add_subcommand("enqueue", "Put a job in");
  verb->add_option("KIND", options->kind, "What the job is, and so which handler takes it")->required()->type_name("");
  // Without allow_extra_args(false) a payload such as [1,2] would be taken apart.
  verb->add_option("-p,--payload", options->payload, "JSON, @FILE, or - for standard input (default {})")
      ->type_name("JSON|@FILE|-")
      ->allow_extra_args(false);
  verb->add_flag("--raw", options->raw, "The payload is stored byte for byte and need not be JSON");
  verb->add_option("-q,--queue", options->queue, "Default: default")->type_name("NAME");
  verb->add_option("--id", options->id, "An id of your own: while its job lives, no other is stored")->type_name("ID");
  CLI::Option* in = verb->add_option("--in", options->in, "Starts no earlier than after this")->type_name("SPAN");
  verb->add_option("--at", options->at, "Starts no earlier than then")->type_name("TIME")->excludes(in);
  verb->add_option("--max-retries", options->max_retries, "Failed attempts that are forgiven (default 25)")->type_name("N");
  verb->add_option("--timeout", options->timeout, "How long one attempt may take; 0 for no limit (default 30m)")
      ->type_name("SPAN");
  verb->add_option("--deadline", options->deadline, "Not started after this time, or after this span from now")
      ->type_name("TIME|SPAN");
  verb->add_option("--unique-key", options->unique_key, "While its job lives, no other with this key is stored")
      ->type_name("KEY");
  verb->add_option("--unique-for", options->unique_for, "How long the key, else kind and payload, is locked at most")
      ->type_name("SPAN");
  verb->add_option("--retention", options->retention, "How long the completed job stays visible")->type_name("SPAN");
  verb->add_option("--keep-result", options->keep_result, "How long the result is kept after the end")->type_name("SPAN");
  verb->add_option("--header", options->headers, "Travels with the job; may be given again")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->footer(footer);
  verb->callback([&cmd, options] { cmd.chosen = [&cmd, options] { return enqueue(cmd, *options); }; });
}

}  // namespace ergon::cli
