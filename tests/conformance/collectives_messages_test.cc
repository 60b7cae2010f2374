// Messages from one rank to another arrive whole and in order, beside what all ranks do together, and fail for all.
#include <gtest/gtest.h>

#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesMessages : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesMessages);

using Bytes = std::vector<uint8_t>;

Bytes message_of(uint64_t seed, int64_t bytes) {
  SplitMix64 random(seed);
  Bytes message(static_cast<size_t>(bytes));
  for (uint8_t& byte : message)
    byte = static_cast<uint8_t>(random.next());
  return message;
}

Status send(Communicator& communicator, int to, const Bytes& message) {
  return communicator.send(to, std::ssize(message), message.data());
}

Status expect(Communicator& communicator, int from, const Bytes& message) {
  Bytes got(message.size(), 0xEE);
  RETURN_IF_ERROR(communicator.recv(from, std::ssize(got), got.data()));
  return got == message ? Status{} : failed(fmt::format("{} bytes from rank {}", got.size(), from));
}

TEST_P(CollectivesMessages, PairsNeedNobodyElse) {
  if (world() == 1) return;
  const std::vector<int64_t> sizes = {0, 1, 13, 4096, 70'001, 3'000'000};
  const auto message = [&](int from, int to, int64_t bytes) {
    return message_of(static_cast<uint64_t>(from * 8 + to) * 1000 + static_cast<uint64_t>(bytes), bytes);
  };
  for (const int64_t stage_bytes : {int64_t{1}, 256 * kKiB}) {
    Options group = options();
    group.stage_bytes = stage_bytes;
    // One pair after the other; whoever is not of the pair is far ahead or far behind.
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      for (int from = 0; from < world(); ++from) {
        for (int to = 0; to < world(); ++to) {
          for (const int64_t bytes : sizes) {
            if (to == from || (stage_bytes == 1 && bytes > 100'000)) continue;
            if (communicator.rank() == from) RETURN_IF_ERROR(send(communicator, to, message(from, to, bytes)));
            if (communicator.rank() == to) RETURN_IF_ERROR(expect(communicator, from, message(from, to, bytes)));
          }
        }
      }
      return communicator.barrier();
    }));
  }
}

// Rank r gives a state to rank r + 1 for each layer; nobody waits for anybody but its neighbour.
TEST_P(CollectivesMessages, StatesPassThroughAPipelineOfRanksAtTheirOwnPace) {
  constexpr int kLayers = 24, kFloats = 30'000;
  const auto state_of = [](int layer, int rank) { return part_of(static_cast<uint64_t>(layer) + 1, rank, kFloats); };
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    const int rank = communicator.rank();
    std::vector<std::vector<float>> states(kLayers);
    std::vector<Ticket> sent(kLayers), received(kLayers);
    const auto next = [&](int layer) -> Status {  // two layers ahead
      if (rank == 0 || layer >= kLayers) return {};
      states[static_cast<size_t>(layer)].resize(kFloats);
      ASSIGN_OR_RETURN(received[static_cast<size_t>(layer)],
                       communicator.begin_recv(rank - 1, kFloats * 4, states[static_cast<size_t>(layer)].data()));
      return {};
    };
    RETURN_IF_ERROR(next(0));
    RETURN_IF_ERROR(next(1));
    for (int layer = 0; layer < kLayers; ++layer) {
      const auto at = static_cast<size_t>(layer);
      RETURN_IF_ERROR(next(layer + 2));
      if (rank > 0) {
        RETURN_IF_ERROR(communicator.finish(received[at]));
        if (!same_bits(states[at], state_of(layer, rank - 1))) return failed(fmt::format("layer {}", layer));
      }
      if (rank + 1 == world()) continue;
      states[at] = state_of(layer, rank);
      ASSIGN_OR_RETURN(sent[at], communicator.begin_send(rank + 1, kFloats * 4, states[at].data()));
      for (int kernel = 0; kernel < 3; ++kernel)
        RETURN_IF_ERROR(communicator.progress());
      if (layer >= 2) RETURN_IF_ERROR(communicator.finish(sent[at - 2]));
    }
    for (size_t at = kLayers - 2; rank + 1 < world() && at < kLayers; ++at)
      RETURN_IF_ERROR(communicator.finish(sent[at]));
    return communicator.barrier();
  }));
}

// All ranks send to all at once, more than the rings hold, and finish their sends first.
TEST_P(CollectivesMessages, EverybodyMaySendAtOnce) {
  constexpr int64_t kBytes = 1'500'000;
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    const int rank = communicator.rank();
    const auto seed = [](int from, int to) { return static_cast<uint64_t>(from * 8 + to); };
    std::vector<Bytes> out(8), in(8, Bytes(kBytes));
    std::vector<Ticket> tickets;
    for (int peer = 0; peer < world(); ++peer) {
      if (peer == rank) continue;
      out[static_cast<size_t>(peer)] = message_of(seed(rank, peer), kBytes);
      ASSIGN_OR_RETURN(tickets.emplace_back(),
                       communicator.begin_send(peer, kBytes, out[static_cast<size_t>(peer)].data()));
    }
    for (int peer = 0; peer < world(); ++peer) {
      if (peer == rank) continue;
      ASSIGN_OR_RETURN(tickets.emplace_back(),
                       communicator.begin_recv(peer, kBytes, in[static_cast<size_t>(peer)].data()));
    }
    for (const Ticket ticket : tickets)
      RETURN_IF_ERROR(communicator.finish(ticket));
    for (int peer = 0; peer < world(); ++peer) {
      if (peer != rank && in[static_cast<size_t>(peer)] != message_of(seed(peer, rank), kBytes))
        return failed(fmt::format("from rank {}", peer));
    }
    return communicator.barrier();
  }));
}

// A rank that waits for one thing moves the other: the last two ranks finish theirs in opposite order.
TEST_P(CollectivesMessages, MessagesAndSumsInFlightNeedNoCommonOrder) {
  if (world() == 1) return;
  constexpr int64_t kRows = 40, kWidth = 20'000, kBytes = 2'000'000;
  const ReduceOrder order = orders_of(world()).back();
  const int from = world() - 2, to = world() - 1;
  const std::vector<float> expected = expected_sum(3, order, world(), kRows * kWidth);
  const Bytes message = message_of(4, kBytes);
  for (const bool may_spin : {false, true}) {
    Options group = options(order);
    group.may_spin = may_spin;
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      const int rank = communicator.rank();
      const std::vector<float> in = part_of(3, rank, kRows * kWidth);
      std::vector<float> out(in.size());
      Bytes got(kBytes);
      Ticket letter;
      ASSIGN_OR_RETURN(const Ticket sum, communicator.begin_all_reduce(kRows, kWidth, in.data(), out.data()));
      if (rank == from) {
        ASSIGN_OR_RETURN(letter, communicator.begin_send(to, kBytes, message.data()));
        RETURN_IF_ERROR(communicator.finish(letter));
      }
      if (rank == to) {
        ASSIGN_OR_RETURN(letter, communicator.begin_recv(from, kBytes, got.data()));
      }
      RETURN_IF_ERROR(communicator.finish(sum));
      if (rank == to) {
        RETURN_IF_ERROR(communicator.finish(letter));
        if (got != message) return failed("the message");
      }
      return same_bits(out, expected) ? communicator.barrier() : failed("the sum");
    }));
  }
}

// The sender begins the sum only when its message has gone, which is more than the ring holds: whoever waits for that
// sum takes the message in meanwhile.
TEST_P(CollectivesMessages, AWaitForASumTakesMessagesIn) {
  if (world() == 1) return;
  const Bytes message = message_of(6, 2'000'000);
  for (const bool may_spin : {false, true}) {
    Options group = options();
    group.may_spin = may_spin;
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      Bytes got(message.size());
      Ticket letter;
      if (communicator.rank() == 0) RETURN_IF_ERROR(send(communicator, 1, message));
      if (communicator.rank() == 1) {
        ASSIGN_OR_RETURN(letter, communicator.begin_recv(0, std::ssize(got), got.data()));
      }
      RETURN_IF_ERROR(communicator.barrier());
      if (communicator.rank() != 1) return communicator.barrier();
      RETURN_IF_ERROR(communicator.finish(letter));
      return got == message ? communicator.barrier() : failed("the message");
    }));
  }
}

// A computing rank that only calls progress() lets the others end their sums, and has its own when it asks.
TEST_P(CollectivesMessages, ProgressAloneBringsAnOperationToItsEnd) {
  constexpr int64_t kRows = 64, kWidth = 3000;
  const ReduceOrder order = orders_of(world()).back();
  const std::vector<float> expected = expected_sum(5, order, world(), kRows * kWidth);
  for (const int64_t two_shot_bytes : {int64_t{0}, limits::kMaxCollectiveMessageBytes}) {
    Options group = options(order);
    group.stage_bytes = 16 * kKiB;
    group.two_shot_bytes = two_shot_bytes;
    std::atomic<int> ended{0};
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      const std::vector<float> in = part_of(5, communicator.rank(), kRows * kWidth);
      std::vector<float> out(in.size());
      ASSIGN_OR_RETURN(const Ticket ticket, communicator.begin_all_reduce(kRows, kWidth, in.data(), out.data()));
      while (communicator.rank() == 0 && ended.load() < world() - 1)
        RETURN_IF_ERROR(communicator.progress());
      RETURN_IF_ERROR(communicator.finish(ticket));
      ended.fetch_add(1);
      return same_bits(out, expected) ? communicator.barrier() : failed("the sum");
    }));
  }
}

TEST_P(CollectivesMessages, AMessageOfAnotherSizeFailsBothAndTheGroup) {
  if (world() == 1) return;
  for (const auto& [sent, expected] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 16}, {16, 8}, {0, 1}, {200'000, 8}}) {
    expect_all(Errc::kProtocol, run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
                 Bytes data(200'000);
                 RETURN_IF_ERROR(communicator.barrier());
                 if (communicator.rank() == 0) RETURN_IF_ERROR(communicator.send(1, sent, data.data()));
                 if (communicator.rank() == 1) RETURN_IF_ERROR(communicator.recv(0, expected, data.data()));
                 return communicator.barrier();
               }));
  }
}

TEST_P(CollectivesMessages, ASilentPeerFailsTheGroupAtTheDeadline) {
  if (world() == 1) return;
  for (const bool is_send : {false, true}) {
    std::atomic<int> ended{0};
    const SteadyClock clock;
    const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
      Bytes data(30'000'000);  // more than the ring and the kernel hold
      RETURN_IF_ERROR(communicator.barrier());
      communicator.set_deadline_ns(clock.now_ns() + 60 * kMs);
      if (communicator.rank() != 0) {
        while (ended.load() == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return communicator.barrier();
      }
      const Status status = is_send ? send(communicator, 1, data) : communicator.recv(1, std::ssize(data), data.data());
      ended.fetch_add(1);
      return status;
    });
    expect_all(Errc::kDeadlineExceeded, results);
  }
}

TEST_P(CollectivesMessages, APeerThatIsGoneAndAnAbortEndTheWait) {
  if (world() == 1) return;
  for (const bool aborts : {false, true}) {
    const SteadyClock clock;
    const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
      Bytes data(3'000'000);
      RETURN_IF_ERROR(communicator.barrier());
      if (communicator.rank() == 1 && aborts) communicator.abort("given up");
      if (communicator.rank() == 1) return communicator.health();
      communicator.set_deadline_ns(clock.now_ns() + 60 * kMs);
      if (communicator.rank() == 0) RETURN_IF_ERROR(communicator.recv(1, std::ssize(data), data.data()));
      return communicator.barrier();
    });
    for (size_t rank = 0; rank < results.size(); ++rank) {
      if (rank == 1 && !aborts) continue;
      ASSERT_FALSE(results[rank].ok()) << rank;
      const Errc code = results[rank].error().code;
      EXPECT_TRUE(code == Errc::kUnavailable || (!aborts && code == Errc::kDeadlineExceeded))
          << to_string(results[rank].error());
    }
  }
}

TEST_P(CollectivesMessages, BadCallsAreErrorsAndHarmNothing) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    const int rank = communicator.rank();
    uint8_t byte = 7;
    for (const int peer : {-1, rank, world()}) {
      const auto sent = communicator.begin_send(peer, 1, &byte);
      const auto received = communicator.begin_recv(peer, 1, &byte);
      if (sent.ok() || received.ok() || sent.error().code != Errc::kInvalidArgument) return failed("a bad rank");
    }
    if (world() == 1) return {};
    const int peer = (rank + 1) % world(), from = (rank + world() - 1) % world();
    if (communicator.begin_send(peer, -1, &byte).ok()) return failed("a negative size");
    std::vector<Ticket> tickets;
    for (int i = 0; i < limits::kMaxPairMessages; ++i) {
      ASSIGN_OR_RETURN(tickets.emplace_back(), communicator.begin_send(peer, 1, &byte));
    }
    const auto one_more = communicator.begin_send(peer, 1, &byte);
    if (one_more.ok() || one_more.error().code != Errc::kResourceExhausted) return failed("a message too many");
    for (int i = 0; i < limits::kMaxPairMessages; ++i) {
      uint8_t got = 0;
      RETURN_IF_ERROR(communicator.recv(from, 1, &got));
      if (got != 7) return failed("the byte");
    }
    for (const Ticket ticket : tickets)
      RETURN_IF_ERROR(communicator.finish(ticket));
    return communicator.barrier();
  }));
}

TEST_P(CollectivesMessages, StatisticsCountThemApart) {
  if (world() == 1) return;
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    Bytes data(1000);
    if (communicator.rank() == 0) RETURN_IF_ERROR(send(communicator, 1, data));
    if (communicator.rank() == 1) RETURN_IF_ERROR(communicator.recv(0, 1000, data.data()));
    const Statistics statistics = communicator.statistics();
    const OpStatistics& sent = statistics[static_cast<size_t>(OpKind::kSend)];
    const OpStatistics& received = statistics[static_cast<size_t>(OpKind::kRecv)];
    if (sent.operations != (communicator.rank() == 0 ? 1 : 0)) return failed("sent");
    if (sent.contributed_bytes != 1000 * sent.operations) return failed("bytes");
    if (received.operations != (communicator.rank() == 1 ? 1 : 0)) return failed("received");
    return communicator.barrier();
  }));
}

}  // namespace
}  // namespace krait::collectives
