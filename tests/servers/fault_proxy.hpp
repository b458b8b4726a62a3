// `fault_proxy`: stands between a client and a server on 127.0.0.1 and does to their bytes what networks and dying machines do. The test
// switches faults on and off at any time. There is no delay on purpose: the test owns the time, it freezes and thaws.
//
// One thread of its own does the forwarding. The members may be called from any thread; when one returns, the fault is in force: after
// `freeze()` not one more byte is forwarded.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "servers/loopback.hpp"
#include "servers/poll_thread.hpp"

namespace ergon::test {

class fault_proxy {
 public:
  enum class direction { to_server, to_client };
  /// Which connections a fault is for.
  enum class connections { present, future, all };

  explicit fault_proxy(std::uint16_t upstream_port);
  fault_proxy(const fault_proxy&) = delete;
  fault_proxy& operator=(const fault_proxy&) = delete;
  ~fault_proxy() = default;

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port(); }
  /// redis://127.0.0.1:PORT
  [[nodiscard]] std::string url() const;

  /// Each connection forwards exactly so many more bytes this way, then both its sides are closed. With 0 they are closed when there
  /// is a byte that would have to be forwarded: to the client, a command is carried out and its answer lost. Future connections
  /// count from their beginning.
  void cut_after(direction way, std::uint64_t bytes, connections which = connections::all);
  /// Closes both sides of all present connections with a reset.
  void reset_all();
  /// Closes both sides of all present connections.
  void hang_up_all();
  /// The peer is gone and nobody was told: connections are accepted and kept, nothing is forwarded, no end is noticed.
  void freeze(connections which = connections::all);
  /// All connections go on where they stopped.
  void thaw();
  /// One byte per write.
  void dribble(direction way, bool on, connections which = connections::all);
  /// Puts bytes into the stream where one read of the other side's bytes ends: at once if nothing is on its way. In a future connection,
  /// each one, they are the first.
  void inject(direction way, std::string bytes, connections which = connections::present);
  /// Closes new connections at once.
  void refuse(bool on);
  /// No more faults of any kind, for present and future connections. Closed ones stay closed.
  void heal();

  struct counters {
    /// So far, without the refused ones.
    std::size_t connections = 0;
    std::size_t open = 0;
    std::size_t refused = 0;
    /// Bytes written to each side, injected ones included.
    std::uint64_t to_server = 0;
    std::uint64_t to_client = 0;
  };
  [[nodiscard]] counters counts();
  /// False if it did not come to hold within the patience.
  bool wait_until(const std::function<bool(const counters&)>& holds, std::chrono::milliseconds patience = default_patience);

 private:
  struct faults {
    std::optional<std::uint64_t> allowance = {};
    bool dribbles = false;
    std::string injection = {};
  };
  struct flow {
    faults now = {};
    std::string buffer = {};
    std::size_t written = 0;
    bool from_ended = false;
    bool end_passed_on = false;

    [[nodiscard]] bool pending() const { return written < buffer.size() || !now.injection.empty(); }
  };
  struct connection {
    descriptor client;
    descriptor server;
    bool connected = false;
    bool frozen = false;
    flow to_server = {};
    flow to_client = {};

    [[nodiscard]] flow& of(direction way) { return way == direction::to_server ? to_server : to_client; }
  };

  // All on the thread.
  void watch(std::vector<pollfd>& watched) const;
  void turn();
  void accept_all();
  void advance(connection& c);
  bool has_connected(connection& c);
  void move(connection& c, direction way);
  /// False if nothing more goes now.
  bool write_pending(connection& c, direction way);
  void publish();
  [[nodiscard]] faults& of_future(direction way) { return way == direction::to_server ? future_to_server_ : future_to_client_; }
  /// Changes the faults of one direction on the thread.
  void change(direction way, connections which, const std::function<void(faults&)>& f);
  void apply(const std::function<void()>& f);

  std::uint16_t upstream_;
  listener listener_;

  // The thread's.
  std::list<connection> open_;
  faults future_to_server_;
  faults future_to_client_;
  bool future_frozen_ = false;
  bool refusing_ = false;
  counters counting_;

  std::mutex lock_;
  std::condition_variable changed_;
  // Under the lock: what the thread last published.
  counters published_;

  // Last: it uses all of the above.
  poll_thread thread_;
};

}  // namespace ergon::test
