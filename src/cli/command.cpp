#include "cli/command.hpp"

#include <filesystem>
#include <istream>
#include <ostream>

#include <fmt/format.h>
#include <sys/stat.h>

#include <ergon/base/duration.hpp>
#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/base/time.hpp>

#include "cli/text.hpp"

namespace ergon::cli {
namespace {

/// Makes the folder, and those above it, for this person alone.
void make_private_folder(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::is_directory(folder)) return;
  make_private_folder(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw error(errc::unavailable, fmt::format("the folder {} for the default store cannot be made: {}",
                                               ergon::quoted(folder.native(), 4096), std::generic_category().message(errno)));
  }
}

std::string escaped(std::string_view path) {
  std::string result;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      fmt::format_to(std::back_inserter(result), "%{:02X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

command::command(const environment& around, std::ostream& out, std::ostream& err) : out(out), err(err), around_(around) {
  const auto no_colour = around.variable("NO_COLOR");
  look_.colour = around.terminal && (!no_colour || no_colour->empty()) && around.variable("TERM").value_or("") != "dumb";
  look_.width = around.terminal ? around.columns : 0;
}

const std::shared_ptr<ergon::broker>& command::shared_store() {
  if (!store_) store_ = around_.open(store_url());
  return store_;
}

std::string command::store_url() const {
  std::string from = url;
  if (from.empty()) from = around_.variable("ERGON_BROKER").value_or("");
  if (from == "memory:" || from.starts_with("memory:")) {
    throw usage_error(
        fmt::format("the broker {} lives in the memory of one process, so this command would look into an empty store of its "
                    "own; name one that processes share, such as sqlite:jobs.db",
                    ergon::quoted(from)));
  }
  if (!from.empty()) return from;

  // A relative XDG_DATA_HOME is to be ignored (XDG base directory specification).
  std::filesystem::path data = around_.variable("XDG_DATA_HOME").value_or("");
  if (!data.is_absolute()) {
    const std::filesystem::path home = around_.variable("HOME").value_or("");
    if (!home.is_absolute()) throw usage_error("no store is named and HOME is not set: give --broker URL or set ERGON_BROKER");
    data = home / ".local" / "share";
  }
  const std::filesystem::path folder = data / "ergon";
  make_private_folder(folder);
  return "sqlite:" + escaped((folder / "ergon.db").native());
}

std::string command::read_input(std::size_t most) {
  std::string text;
  char piece[65536];
  while (text.size() <= most && around_.in->read(piece, sizeof piece).gcount() > 0)
    text.append(piece, static_cast<std::size_t>(around_.in->gcount()));
  if (around_.in->bad()) throw error(errc::unavailable, "standard input cannot be read");
  return text;
}

void command::print(const document& doc) { out << doc.text() << '\n'; }

void command::print(const table& rows) { rows.print(out, look_); }

void command::note(std::string_view text) { err << "ergon: " << text << '\n'; }

std::chrono::nanoseconds span_of(std::string_view option, std::string_view text) {
  try {
    return parse_duration(text);
  } catch (const error& e) {
    throw usage_error(fmt::format("{}: {}", option, e.what()));
  }
}

std::chrono::milliseconds milliseconds_of(std::string_view option, std::string_view text) {
  return std::chrono::ceil<std::chrono::milliseconds>(span_of(option, text));
}

wall_time time_of(std::string_view option, std::string_view text) {
  try {
    return parse_time(text);
  } catch (const error& e) {
    throw usage_error(fmt::format("{}: {}", option, e.what()));
  }
}

int for_each_job(command& cmd, const std::vector<std::string>& ids,
                 const std::function<void(const std::string& id, document& doc)>& act) {
  struct failure {
    const std::string& id;
    std::string text;
  };
  std::vector<failure> failures;
  document doc;
  doc.begin_object().key("jobs").begin_array();
  for (const std::string& id : ids) {
    try {
      act(id, doc);
    } catch (const error& e) {
      // What concerns the store and not this job would fail for the next one as well.
      if (e.reason() != errc::not_found && e.reason() != errc::wrong_state && e.reason() != errc::invalid_argument) throw;
      failures.push_back({id, e.what()});
      cmd.note(e.what());
    }
  }
  doc.end_array().key("failed").begin_array();
  for (const failure& f : failures) doc.begin_object().field("id", f.id).field("error", f.text).end_object();
  doc.end_array().end_object();
  if (cmd.json) cmd.print(doc);
  return failures.empty() ? exit_ok : exit_failed;
}

}  // namespace ergon::cli
