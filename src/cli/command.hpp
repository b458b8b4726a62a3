// What all verbs share: the options that every one takes, where to print, and the store. A verb lives in the file of its noun, adds
// itself to the parser there, and leaves in `chosen` what is to be done.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include <ergon/broker/broker.hpp>

#include "cli/app.hpp"
#include "cli/json.hpp"
#include "cli/table.hpp"

namespace ergon::cli {

/// The command line asks for something that cannot be; the text names the option, its value and what would be right.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class command {
 public:
  command(const environment& around, std::ostream& out, std::ostream& err);

  /// `--broker`; empty where it was not given.
  std::string url;
  /// `--json`
  bool json = false;
  /// The verb that the command line named, ready to run; returns the exit code.
  std::function<int()> chosen;

  std::ostream& out;
  std::ostream& err;

  /// The store, opened now if it was not.
  [[nodiscard]] ergon::broker& store() { return *shared_store(); }
  [[nodiscard]] const std::shared_ptr<ergon::broker>& shared_store();

  /// Runs an operation of the store to its end.
  template <class T>
  T wait(task<T> operation) {
    return store().runtime().block_on(std::move(operation));
  }

  /// The store's calendar.
  [[nodiscard]] wall_time now() { return store().clock().wall(); }
  /// All of standard input, up to one byte more than `most`.
  [[nodiscard]] std::string read_input(std::size_t most);

  /// A document, on a line of its own.
  void print(const document& doc);
  void print(const table& rows);
  /// What a person should know and a program need not: on stderr.
  void note(std::string_view text);
  [[nodiscard]] const style& look() const noexcept { return look_; }

 private:
  [[nodiscard]] std::string store_url() const;

  const environment& around_;
  style look_;
  std::shared_ptr<ergon::broker> store_;
};

/// Parses with the functions of `base`, and names the option in the error.
[[nodiscard]] std::chrono::nanoseconds span_of(std::string_view option, std::string_view text);
/// Rounded up to what a store keeps, so that a microsecond does not become "none".
[[nodiscard]] std::chrono::milliseconds milliseconds_of(std::string_view option, std::string_view text);
[[nodiscard]] wall_time time_of(std::string_view option, std::string_view text);

/// Does `act` for each id and goes on after a failure, which is told on stderr (and in the document under `failed`). `act` tells
/// of its success itself: as an object in the document, or as a line.
int for_each_job(command& cmd, const std::vector<std::string>& ids,
                 const std::function<void(const std::string& id, document& doc)>& act);

void add_enqueue(CLI::App& app, command& cmd);
void add_job(CLI::App& app, command& cmd);
void add_queue(CLI::App& app, command& cmd);
void add_worker(CLI::App& app, command& cmd);

}  // namespace ergon::cli
