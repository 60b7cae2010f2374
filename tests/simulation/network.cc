#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/units.h"
#include "common/wire/codec.h"

namespace krait::simulation {
namespace {

constexpr int64_t kFirstConnectNs = 20 * kMs;
constexpr int64_t kReconnectNs = 500 * kMs;
constexpr int64_t kOvertakenNs = 30 * kMs;

}  // namespace

/// What has arrived for a process, by endpoint.
class Network::Port final {
 public:
  struct Arrived final {
    std::string peer;
    std::vector<std::byte> bytes;
  };
  struct Endpoint final {
    std::string address;
    ConnectionPtr connection;  // null on a bound one
    std::deque<Arrived> inbox;
  };

  Port(std::string process, std::function<void()> on_arrival)
      : process(std::move(process)), on_arrival(std::move(on_arrival)) {}

  const std::string process;
  const std::function<void()> on_arrival;
  std::vector<Endpoint> endpoints;
  size_t next = 0;  // the endpoint that is asked first
};

class SimulatedTransport final : public transport::Transport {
 public:
  SimulatedTransport(Network& network, std::string process, std::function<void()> on_arrival)
      : network_(network), port_(std::move(process), std::move(on_arrival)) {}
  ~SimulatedTransport() override { network_.close(port_); }

  Result<transport::EndpointId> bind(const std::string& address) override {
    auto& bound = network_.bound_[address];
    if (bound.port != nullptr) return Error{Errc::kIo, fmt::format("{} is taken", address)};
    port_.endpoints.push_back({address, nullptr, {}});
    bound = {&port_, static_cast<transport::EndpointId>(port_.endpoints.size() - 1)};
    for (const auto& connection : network_.connections_) {
      if (connection->address == address) network_.connect_soon(connection, kReconnectNs);
    }
    return bound.endpoint;
  }

  Result<transport::EndpointId> connect(const std::string& address, const std::string& name) override {
    auto connection = std::make_shared<Network::Connection>();
    connection->address = address;
    connection->name = name;
    connection->port = &port_;
    connection->endpoint = static_cast<transport::EndpointId>(port_.endpoints.size());
    port_.endpoints.push_back({address, connection, {}});
    network_.connections_.push_back(connection);
    network_.connect_soon(connection, kFirstConnectNs);
    return connection->endpoint;
  }

  Status send(transport::EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) override {
    const auto& from = port_.endpoints.at(static_cast<size_t>(endpoint));
    if (from.connection != nullptr) return network_.send_to_bound(from.connection, std::move(bytes));
    return network_.send_to_peer(from.address, peer, std::move(bytes));
  }

  std::optional<transport::Packet> receive() override {
    for (size_t i = 0; i < port_.endpoints.size(); ++i) {
      const size_t index = (port_.next + i) % port_.endpoints.size();
      auto& inbox = port_.endpoints[index].inbox;
      if (inbox.empty()) continue;
      port_.next = index + 1;
      transport::Packet packet{static_cast<transport::EndpointId>(index), std::move(inbox.front().peer),
                               std::move(inbox.front().bytes)};
      inbox.pop_front();
      return packet;
    }
    return std::nullopt;
  }

  void wait(int64_t) override {}  // whoever gives the turns has waited
  void wake() override { port_.on_arrival(); }

 private:
  Network& network_;
  Network::Port port_;
};

std::unique_ptr<transport::Transport> Network::make_transport(std::string process, std::function<void()> on_arrival) {
  return std::make_unique<SimulatedTransport>(*this, std::move(process), std::move(on_arrival));
}

Status Network::send_to_bound(const ConnectionPtr& connection, std::vector<std::byte> bytes) {
  const size_t queued = connection->waiting.size() + connection->in_flight[kToBound];
  if (queued >= options_.high_water_mark) return Error{Errc::kUnavailable, "the queue is full", ""};
  note_queue(queued + 1);
  if (connection->up) {
    transmit(connection, kToBound, std::move(bytes));
  } else {
    connection->waiting.push_back(std::move(bytes));
  }
  return {};
}

Status Network::send_to_peer(const std::string& address, const std::string& peer, std::vector<std::byte> bytes) {
  for (const auto& connection : connections_) {
    if (connection->address != address || connection->name != peer || !connection->up) continue;
    const size_t queued = connection->in_flight[kToConnected] +
                          connection->port->endpoints[static_cast<size_t>(connection->endpoint)].inbox.size();
    if (queued >= options_.high_water_mark) return Error{Errc::kUnavailable, "the queue is full", ""};
    note_queue(queued + 1);
    transmit(connection, kToConnected, std::move(bytes));
    return {};
  }
  return Error{Errc::kUnavailable, fmt::format("{} is not connected", peer), ""};
}

void Network::transmit(const ConnectionPtr& connection, Direction direction, std::vector<std::byte> bytes) {
  const auto happens = [&](uint64_t odds) { return odds > 0 && random_.below(1000) < odds; };
  if (happens(faults_.lost)) {
    record_.saw("message lost");
    note("lost ", *connection, direction, bytes);
    return;
  }
  int64_t arrival_ns = events_.now_ns() + options_.latency_ns +
                       static_cast<int64_t>(random_.below(static_cast<uint64_t>(options_.jitter_ns) + 1));
  arrival_ns = std::max(arrival_ns, connection->stalled_until_ns);
  if (happens(faults_.overtaken)) {
    record_.saw("message overtaken");
    note("overtaken ", *connection, direction, bytes);
    fly(connection, direction, arrival_ns + kOvertakenNs, std::move(bytes));
    return;
  }
  arrival_ns = std::max(arrival_ns, connection->last_arrival_ns[direction]);
  connection->last_arrival_ns[direction] = arrival_ns;
  if (happens(faults_.doubled)) {
    record_.saw("message doubled");
    note("doubled ", *connection, direction, bytes);
    fly(connection, direction, arrival_ns + static_cast<int64_t>(random_.below(2)) * kOvertakenNs, bytes);
  }
  fly(connection, direction, arrival_ns, std::move(bytes));
}

void Network::fly(const ConnectionPtr& connection, Direction direction, int64_t arrival_ns,
                  std::vector<std::byte> bytes) {
  ++connection->in_flight[direction];
  const uint64_t life = connection->life[direction];
  events_.at(arrival_ns, [this, connection, direction, life, bytes = std::move(bytes)]() mutable {
    --connection->in_flight[direction];
    if (connection->life[direction] == life) arrive(connection, direction, std::move(bytes));
  });
}

void Network::arrive(const ConnectionPtr& connection, Direction direction, std::vector<std::byte> bytes) {
  Port* port = connection->port;
  auto endpoint = connection->endpoint;
  if (direction == kToBound) {
    port = bound_[connection->address].port;
    endpoint = bound_[connection->address].endpoint;
  }
  if (port == nullptr) return;
  note("", *connection, direction, bytes);
  auto& inbox = port->endpoints[static_cast<size_t>(endpoint)].inbox;
  inbox.push_back({direction == kToBound ? connection->name : std::string(), std::move(bytes)});
  port->on_arrival();
}

void Network::connect_soon(const ConnectionPtr& connection, int64_t within_ns) {
  const auto delay_ns = static_cast<int64_t>(1 + random_.below(static_cast<uint64_t>(within_ns)));
  events_.after(delay_ns, [this, connection] { come_up(connection); });
}

void Network::come_up(const ConnectionPtr& connection) {
  const Bound bound = bound_[connection->address];
  if (connection->port == nullptr || bound.port == nullptr || connection->up) return;
  // A name that comes back takes over; what its earlier self had sent and nobody has read is dropped.
  for (const auto& other : connections_) {
    if (other == connection || other->address != connection->address || other->name != connection->name) continue;
    other->up = false;
    ++other->life[kToBound];
    ++other->life[kToConnected];
    auto& inbox = bound.port->endpoints[static_cast<size_t>(bound.endpoint)].inbox;
    std::erase_if(inbox, [&](const auto& arrived) { return arrived.peer == connection->name; });
  }
  std::erase_if(connections_, [&](const auto& other) {
    return other != connection && other->port == nullptr && other->address == connection->address &&
           other->name == connection->name;
  });
  connection->up = true;
  record_.trace("{} is connected to {}", connection->name, connection->address);
  for (auto& bytes : std::exchange(connection->waiting, {}))
    transmit(connection, kToBound, std::move(bytes));
}

void Network::close(Port& port) {
  for (const auto& endpoint : port.endpoints) {
    if (endpoint.connection != nullptr) {
      // What it has sent still arrives.
      endpoint.connection->port = nullptr;
      endpoint.connection->up = false;
      continue;
    }
    bound_[endpoint.address] = {};
    for (const auto& connection : connections_) {
      if (connection->address != endpoint.address) continue;
      connection->up = false;
      ++connection->life[kToBound];
    }
  }
  std::erase_if(connections_, [](const auto& connection) {
    return connection->port == nullptr && connection->in_flight[kToBound] == 0;
  });
}

Network::ConnectionPtr Network::random_connection() {
  std::vector<ConnectionPtr> up;
  std::copy_if(connections_.begin(), connections_.end(), std::back_inserter(up), [](const auto& c) { return c->up; });
  return up.empty() ? nullptr : up[random_.below(up.size())];
}

void Network::cut_one(int64_t down_ns) {
  const auto connection = random_connection();
  if (connection == nullptr) return;
  record_.saw("connection cut");
  record_.trace("cut: {} of {}", connection->name, connection->address);
  connection->up = false;
  ++connection->life[kToBound];
  ++connection->life[kToConnected];
  events_.after(down_ns, [this, connection] { connect_soon(connection, kReconnectNs); });
}

void Network::stall_one(int64_t for_ns) {
  const auto connection = random_connection();
  if (connection == nullptr) return;
  record_.saw("connection stalled");
  record_.trace("stalled: {} of {}", connection->name, connection->address);
  connection->stalled_until_ns = events_.now_ns() + for_ns;
}

void Network::note(std::string_view what, const Connection& connection, Direction direction,
                   const std::vector<std::byte>& bytes) {
  if (!record_.keeps_trace()) return;
  const auto message = wire::decode(bytes);
  record_.trace("{}{} {} {}: {}, {} bytes", what, connection.address, direction == kToBound ? "<-" : "->",
                connection.name, message.ok() ? wire::message_name(message.value()) : "rubbish", bytes.size());
}

}  // namespace krait::simulation
