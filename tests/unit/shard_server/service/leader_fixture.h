// A leader and hand-made ranks and coordinators: everything it says is kept by receiver.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/units.h"
#include "shard_server/service/leader.h"

namespace krait::test {

struct LeaderFixture : testing::Test {
  void make(uint32_t world) {
    shard::LeaderOptions options;
    options.group = "g";
    options.model = "m";
    options.world = world;
    options.self = join_of(0, world);
    options.vocab_size = 100;
    options.incarnation = 77;
    options.new_epoch = [this] { return ++epochs; };
    leader.emplace(options, clock);
  }

  static wire::Join join_of(uint32_t rank, uint32_t world) {
    wire::Join join;
    join.rank = rank;
    join.world = world;
    join.incarnation = 1000 + rank;
    join.version = "1.0";
    join.fingerprint = "abc";
    join.dtype = "f32";
    join.path = "avx2";
    join.pid = 4000 + rank;
    join.metrics_port = 9000 + rank;
    return join;
  }

  wire::Ready ready_of(uint32_t rank, uint32_t slots = 4) const {
    wire::Ready ready;
    ready.epoch = epochs;
    ready.rank = rank;
    ready.slots = slots;
    ready.max_rows = 64;
    ready.numerics_id = "numerics";
    return ready;
  }

  /// Joins and readies every rank.
  void serve(uint32_t world) {
    for (uint32_t rank = 0; rank < world; ++rank)
      leader->from_rank(rank, join_of(rank, world));
    for (uint32_t rank = 0; rank < world; ++rank)
      leader->from_rank(rank, ready_of(rank));
    ASSERT_EQ(leader->state(), wire::GroupState::kServing);
    take();
  }

  void take() {
    for (auto& out : leader->take_rank_messages())
      to_rank[out.rank].push_back(std::move(out.message));
    for (auto& out : leader->take_coordinator_messages())
      to_coordinator[out.peer].push_back(std::move(out.message));
    if (auto reason = leader->take_abort()) aborts.push_back(*reason);
  }

  void forget() {
    take();
    to_rank.clear();
    to_coordinator.clear();
    aborts.clear();
  }

  template <class T>
  std::vector<T> said_to_rank(uint32_t rank) {
    take();
    return of_kind<T>(to_rank[rank]);
  }
  template <class T>
  std::vector<T> said_to(const std::string& peer) {
    take();
    return of_kind<T>(to_coordinator[peer]);
  }

  template <class T>
  static std::vector<T> of_kind(const std::vector<wire::Message>& messages) {
    std::vector<T> found;
    for (const auto& message : messages) {
      if (const auto* it = std::get_if<T>(&message)) found.push_back(*it);
    }
    return found;
  }

  void hello(const std::string& peer, uint64_t incarnation) {
    leader->from_coordinator(peer, wire::Hello{wire::kProtocolVersion, incarnation, peer});
  }

  void submit(const std::string& peer, uint64_t number, uint32_t max_tokens = 5) {
    wire::Submit submit;
    submit.request = number;
    submit.model = "m";
    submit.tokens = {1, 2, 3};
    submit.max_tokens = max_tokens;
    leader->from_coordinator(peer, submit);
  }

  /// What a rank would answer to `step`.
  static wire::StepDone done_of(const wire::Step& step, uint64_t digest = 5) {
    wire::StepDone done;
    done.epoch = step.epoch;
    done.step = step.step;
    done.digest = digest;
    for (const auto& run : step.runs) {
      if (run.sample) done.samples.push_back({run.sequence_slot, false, {7, 0, {}}});
    }
    return done;
  }

  /// Everyone alive says so, as time goes on.
  void advance(int64_t ns, const std::vector<uint32_t>& ranks, const std::vector<std::string>& peers) {
    while (ns > 0) {
      const int64_t part = std::min(ns, limits::kHeartbeatNs);
      clock.advance(part);
      ns -= part;
      for (const uint32_t rank : ranks)
        leader->from_rank(rank, wire::Heartbeat{1000 + rank});
      for (const auto& peer : peers)
        leader->from_coordinator(peer, wire::Heartbeat{1});
      leader->tick();
    }
  }

  ManualClock clock{1};
  uint64_t epochs = 0;  // so the latest epoch is this
  std::optional<shard::Leader> leader;
  std::map<uint32_t, std::vector<wire::Message>> to_rank;
  std::map<std::string, std::vector<wire::Message>> to_coordinator;
  std::vector<std::string> aborts;
};

}  // namespace krait::test
