// A simulated network behind transport::Transport, with the properties that ZeroMQ has and the faults that it may have.
//
// What ZeroMQ does: messages of a connection arrive in order; a connected endpoint keeps what it could not send yet,
// also across the other side's restart; a bound one forgets its peer's queue with the connection; full queues are
// refused; a name that comes back takes over. Faults beyond that (a single message lost, doubled or overtaken) happen
// only while a window for them is open.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/transport/transport.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/record.h"

namespace krait::simulation {

struct NetworkOptions final {
  int64_t latency_ns = 100'000;  // at least
  int64_t jitter_ns = 200'000;   // at most, on top
  size_t high_water_mark = 16'384;
};

/// Odds of each for a message, in 1/1000.
struct MessageFaults final {
  uint64_t lost = 0;
  uint64_t doubled = 0;
  uint64_t overtaken = 0;
};

class Network final {
 public:
  Network(NetworkOptions options, uint64_t seed, EventQueue& events, Record& record)
      : options_(options), random_(seed), events_(events), record_(record) {}

  /// A process' transport; `on_arrival` is called when there is something to receive.
  std::unique_ptr<transport::Transport> make_transport(std::string process, std::function<void()> on_arrival);

  /// Every message's odds from now on.
  void set_faults(const MessageFaults& faults) { faults_ = faults; }
  /// One connection, chosen at random, is cut: what is on its way is lost, and it comes back after `down_ns`.
  void cut_one(int64_t down_ns);
  /// Nothing of one connection, chosen at random, arrives for that long; nothing is lost.
  void stall_one(int64_t for_ns);

  size_t longest_queue() const { return longest_queue_; }

 private:
  friend class SimulatedTransport;
  class Port;  // a process' end
  enum Direction : size_t { kToBound = 0, kToConnected = 1 };

  struct Connection final {
    std::string address;
    std::string name;
    Port* port = nullptr;  // of the connected side; null once it is gone
    transport::EndpointId endpoint = -1;
    bool up = false;
    uint64_t life[2] = {0, 0};  // what was sent in an earlier one does not arrive
    int64_t last_arrival_ns[2] = {0, 0};
    size_t in_flight[2] = {0, 0};
    int64_t stalled_until_ns = 0;
    std::deque<std::vector<std::byte>> waiting;  // sent by the connected side while it is not up
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  struct Bound final {
    Port* port = nullptr;
    transport::EndpointId endpoint = -1;
  };

  Status send_to_bound(const ConnectionPtr& connection, std::vector<std::byte> bytes);
  Status send_to_peer(const std::string& address, const std::string& peer, std::vector<std::byte> bytes);
  void transmit(const ConnectionPtr& connection, Direction direction, std::vector<std::byte> bytes);
  void fly(const ConnectionPtr& connection, Direction direction, int64_t arrival_ns, std::vector<std::byte> bytes);
  void arrive(const ConnectionPtr& connection, Direction direction, std::vector<std::byte> bytes);
  void connect_soon(const ConnectionPtr& connection, int64_t within_ns);
  void come_up(const ConnectionPtr& connection);
  void close(Port& port);
  ConnectionPtr random_connection();
  void note(std::string_view what, const Connection& connection, Direction direction,
            const std::vector<std::byte>& bytes);
  void note_queue(size_t size) { longest_queue_ = std::max(longest_queue_, size); }

  const NetworkOptions options_;
  SplitMix64 random_;
  EventQueue& events_;
  Record& record_;
  MessageFaults faults_;
  std::map<std::string, Bound> bound_;  // by address
  std::vector<ConnectionPtr> connections_;
  size_t longest_queue_ = 0;
};

}  // namespace krait::simulation
