// What holds of every kind of operation alike: a rank that hangs, is gone or leaves half-way is an error for the
// others, never a hang and never a wrong sum; two runs have the same bits on every rank; sub-groups are groups.
#include <gtest/gtest.h>

#include "shard_server/collectives/group_communicators.h"
#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesKinds : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesKinds);

// More than the slots hold, so that nobody can end without the others.
constexpr int64_t kRows = 64, kWidth = 3000, kCount = kRows * kWidth, kStageBytes = 16 * kKiB;

struct Buffers {
  std::vector<float> in = std::vector<float>(kCount, 1.0f);
  std::vector<float> out = std::vector<float>(8 * kCount);
};

struct Kind {
  std::string name;
  bool is_message = false;
  // This rank's part in it; nothing if it has none.
  std::function<Result<std::optional<Ticket>>(Communicator&, Buffers&)> begin;
};

Result<std::optional<Ticket>> some(Result<Ticket> ticket) {
  if (!ticket.ok()) return ticket.error();
  return std::optional<Ticket>(*ticket);
}

std::vector<Kind> all_kinds(int victim) {
  std::vector<Kind> kinds;
  for (const Codec codec : {Codec::kFloat32, Codec::kInt8}) {
    kinds.push_back(
        {fmt::format("all_reduce {}", codec_entry(codec).name), false, [codec](Communicator& c, Buffers& b) {
           return some(c.begin_all_reduce(kRows, kWidth, b.in.data(), b.out.data(), {codec}));
         }});
  }
  kinds.push_back({"reduce_scatter", false, [](Communicator& c, Buffers& b) {
                     return some(c.begin_reduce_scatter(kRows, kWidth, b.in.data(), b.out.data(), {}));
                   }});
  kinds.push_back({"all_gather", false, [](Communicator& c, Buffers& b) {
                     return some(c.begin_all_gather(kCount * 4, b.in.data(), b.out.data()));
                   }});
  kinds.push_back({"all_gather_rows", false, [](Communicator& c, Buffers& b) {
                     const std::vector<int64_t> sizes(static_cast<size_t>(c.world()), kWidth * 4);
                     return some(c.begin_all_gather_rows(kRows, sizes, b.in.data(), b.out.data()));
                   }});
  for (const int root : {0, victim}) {
    kinds.push_back({fmt::format("broadcast from {}", root), false, [root](Communicator& c, Buffers& b) {
                       return some(c.begin_broadcast(root, kCount * 4, b.out.data()));
                     }});
  }
  kinds.push_back({"barrier", false, [](Communicator& c, Buffers&) { return some(c.begin_barrier()); }});
  for (const bool to_victim : {false, true}) {
    constexpr int64_t kBytes = 8 * kCount * 4;
    kinds.push_back({to_victim ? "send" : "recv", true,
                     [victim, to_victim](Communicator& c, Buffers& b) -> Result<std::optional<Ticket>> {
                       if (c.rank() != 0 && c.rank() != victim) return std::optional<Ticket>();
                       const int peer = c.rank() == 0 ? victim : 0;
                       const bool sends = (c.rank() == 0) == to_victim;
                       return some(sends ? c.begin_send(peer, kBytes, b.out.data())
                                         : c.begin_recv(peer, kBytes, b.out.data()));
                     }});
  }
  return kinds;
}

enum class Fault { kHangs, kIsGone, kLeavesHalfWay };

TEST_P(CollectivesKinds, AFaultOfOneRankIsAnErrorOfTheOthers) {
  if (world() == 1) return;
  const int victim = world() - 1;
  for (const Kind& kind : all_kinds(victim)) {
    for (const Fault fault : {Fault::kHangs, Fault::kIsGone, Fault::kLeavesHalfWay}) {
      if (fault == Fault::kLeavesHalfWay && kind.name == "barrier") continue;  // beginning it is all there is to it
      const SteadyClock clock;
      std::atomic<int> ended{0};
      Options group = options();
      group.stage_bytes = kStageBytes;
      const auto results = run_ranks(make(), group, [&](Communicator& communicator) -> Status {
        Buffers buffers;
        RETURN_IF_ERROR(communicator.barrier());
        communicator.set_deadline_ns(clock.now_ns() + 60 * kMs);
        if (communicator.rank() == victim) {
          if (fault == Fault::kLeavesHalfWay) RETURN_IF_ERROR(kind.begin(communicator, buffers));
          while (fault == Fault::kHangs && ended.load() < world() - 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return {};
        }
        auto begun = kind.begin(communicator, buffers);
        Status status = begun.ok() ? Status() : Status(begun.error());
        if (begun.ok() && begun->has_value()) status = communicator.finish(**begun);
        // Those whom a message does not concern learn of it with their next operation.
        if (status.ok() && begun.ok() && !begun->has_value()) status = communicator.barrier();
        ended.fetch_add(1);
        if (!status.ok() && communicator.health().ok()) return failed("healthy after an error");
        return status;
      });
      for (int rank = 0; rank < victim; ++rank) {
        const Status& result = results[static_cast<size_t>(rank)];
        // Beginning a message moves all of it where the other rank keeps up.
        if (kind.is_message && fault == Fault::kLeavesHalfWay && result.ok()) continue;
        ASSERT_FALSE(result.ok()) << kind.name << ", fault " << static_cast<int>(fault) << ", rank " << rank;
        EXPECT_TRUE(result.error().code == Errc::kDeadlineExceeded || result.error().code == Errc::kUnavailable)
            << kind.name << ": " << to_string(result.error());
      }
    }
  }
}

// The bits that a rank has after sums in all codecs; each rank dawdles in its own way in every run.
Result<std::vector<float>> bits_of_run(Communicator& communicator, uint64_t timing) {
  constexpr int64_t kSumRows = 13, kSumWidth = 700;
  SplitMix64 random(timing * 8 + static_cast<uint64_t>(communicator.rank()));
  const auto dawdle = [&] { std::this_thread::sleep_for(std::chrono::microseconds(random.below(300))); };
  std::vector<float> all;
  for (const CodecEntry& codec : all_codecs()) {
    const std::vector<float> in = part_of(8, communicator.rank(), kSumRows * kSumWidth);
    std::vector<float> sum(in.size()), mine(in.size()), gathered(in.size());
    ASSIGN_OR_RETURN(const Ticket whole,
                     communicator.begin_all_reduce(kSumRows, kSumWidth, in.data(), sum.data(), {codec.codec}));
    ASSIGN_OR_RETURN(const Ticket striped,
                     communicator.begin_reduce_scatter(kSumRows, kSumWidth, in.data(), mine.data(), {codec.codec}));
    dawdle();
    RETURN_IF_ERROR(communicator.progress());
    dawdle();
    RETURN_IF_ERROR(communicator.finish(striped));
    RETURN_IF_ERROR(communicator.finish(whole));
    std::vector<int64_t> sizes;
    for (int rank = 0; rank < communicator.world(); ++rank)
      sizes.push_back(stripe_of(rank, communicator.world(), kSumRows).count * kSumWidth * 4);
    RETURN_IF_ERROR(communicator.all_gather_rows(1, sizes, mine.data(), gathered.data()));
    if (!same_bits(gathered, sum)) return failed("stripes are not the sum").error();
    all.insert(all.end(), sum.begin(), sum.end());
  }
  return all;
}

TEST_P(CollectivesKinds, RunsRanksAndTransportsHaveTheSameBits) {
  std::vector<float> expected;
  std::mutex mutex;
  uint64_t timing = 0;
  for (const CommunicatorFactory factory : {&make_loopback_communicator, make(), make()}) {
    ++timing;
    Options group = options(orders_of(world()).back());
    group.stage_bytes = timing == 1 ? 64 * kKiB : 4 * kKiB;
    group.two_shot_bytes = timing == 2 ? 1 : limits::kMaxCollectiveMessageBytes;
    expect_all_ok(run_ranks(factory, group, [&](Communicator& communicator) -> Status {
      ASSIGN_OR_RETURN(const auto bits, bits_of_run(communicator, timing));
      const std::scoped_lock lock(mutex);
      if (expected.empty()) expected = bits;
      return same_bits(bits, expected) ? Status{} : failed("other bits");
    }));
  }
}

TEST_P(CollectivesKinds, SubGroupsAddAndSendAmongThemselves) {
  if (world() < 4) return;
  const int half = world() / 2;
  const Options group = options();
  std::vector<Status> results(static_cast<size_t>(world()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world(); ++rank) {
    threads.emplace_back([&, rank] {
      results[static_cast<size_t>(rank)] = [&]() -> Status {
        Options mine = group;
        mine.rank = rank;
        const bool is_first = rank < half;
        const SubGroupRanks sub{is_first ? 0 : half, is_first ? half : world() - half, is_first ? 0 : 1};
        ASSIGN_OR_RETURN(const auto both, GroupCommunicators::form(make(), mine, sub));
        const std::vector<float> in = part_of(9, rank, 5000);
        std::vector<float> sum(in.size()), whole(in.size());
        RETURN_IF_ERROR(both->sub()->all_reduce(5, 1000, in.data(), sum.data()));
        std::vector<std::vector<float>> parts;
        for (int peer = sub.first; peer < sub.first + sub.world; ++peer)
          parts.push_back(part_of(9, peer, 5000));
        if (!same_bits(sum, plain_sum(ReduceOrder::kRankOrder, parts))) return failed("the sub-group's sum");
        RETURN_IF_ERROR(both->group().all_reduce(5, 1000, in.data(), whole.data()));
        if (!same_bits(whole, expected_sum(9, ReduceOrder::kRankOrder, world(), 5000))) return failed("the sum");
        int told = rank;
        if (rank == sub.first) RETURN_IF_ERROR(both->sub()->send(1, sizeof told, &told));
        if (rank == sub.first + 1) RETURN_IF_ERROR(both->sub()->recv(0, sizeof told, &told));
        if (rank == sub.first + 1 && told != sub.first) return failed("the message");
        // Who is lost to the group alone would be waited for in its sub-group; so nobody is before all have come here.
        RETURN_IF_ERROR(both->group().barrier());
        if (rank == 0) both->abort("given up");
        return both->group().barrier();
      }();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  expect_all(Errc::kUnavailable, results);
}

}  // namespace
}  // namespace krait::collectives
