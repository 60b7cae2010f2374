// Stands beside a leader and holds what it says against what it was told: every sequence that it accepts ends once, and
// what has ended or was cancelled is in no later plan and gets no later token.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/transport/transport.h"
#include "common/wire/messages.h"
#include "tests/simulation/record.h"

namespace krait::simulation {

class LeaderWatch final {
 public:
  LeaderWatch(std::string name, Record& record) : name_(std::move(name)), record_(record) {}

  /// A turn of the leader begins.
  void begin_turn() { ++turn_; }
  void received(const std::string& peer, const wire::Message& message);
  void sent(const std::string& peer, const wire::Message& message);
  /// What the leader's own rank is told.
  void commanded(const wire::Message& command);
  /// Nothing runs or waits any more: whatever was accepted must have ended.
  void check_quiet();

 private:
  enum class State : uint8_t { kSubmitted, kAccepted, kEnded };
  struct Sequence final {
    State state = State::kSubmitted;
    int unanswered = 0;        // times that it was submitted, less those that were accepted or rejected
    uint64_t closed_turn = 0;  // when it ended or a cancel came; 0: neither
    std::pair<uint64_t, uint32_t> noise;
  };
  using Key = std::pair<std::string, uint64_t>;

  void wrong(const Key& key, std::string_view what);
  void forget(const std::string& peer);
  void close(Sequence& sequence);
  bool closed_before(const Sequence& sequence) const {
    return sequence.closed_turn != 0 && sequence.closed_turn < turn_;
  }
  void sent_tokens(const std::string& peer, const wire::Tokens& tokens);
  void planned(const wire::Step& step);

  const std::string name_;
  Record& record_;
  uint64_t turn_ = 0;
  std::map<std::string, uint64_t> incarnations_;  // of coordinators
  std::map<Key, Sequence> sequences_;
  std::map<std::pair<uint64_t, uint32_t>, Key> by_noise_;  // seed and choice: every sequence has its own
  std::map<int32_t, std::pair<uint64_t, uint32_t>> slots_;
};

/// A leader's transport, watched.
class WatchedTransport final : public transport::Transport {
 public:
  WatchedTransport(std::unique_ptr<transport::Transport> inner, LeaderWatch& watch)
      : inner_(std::move(inner)), watch_(watch) {}

  /// What goes through this endpoint is watched.
  void watch(transport::EndpointId coordinators) { coordinators_ = coordinators; }

  Result<transport::EndpointId> bind(const std::string& address) override { return inner_->bind(address); }
  Result<transport::EndpointId> connect(const std::string& address, const std::string& name) override {
    return inner_->connect(address, name);
  }
  Status send(transport::EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) override;
  std::optional<transport::Packet> receive() override;
  void wait(int64_t timeout_ns) override { inner_->wait(timeout_ns); }
  void wake() override { inner_->wake(); }

 private:
  std::unique_ptr<transport::Transport> inner_;
  LeaderWatch& watch_;
  transport::EndpointId coordinators_ = -1;
};

}  // namespace krait::simulation
