// Every collective fails on all ranks or on none: lost ranks, deadlines, aborts, disagreement, bad calls.
#include <gtest/gtest.h>

#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesFailure : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesFailure);

TEST_P(CollectivesFailure, RanksThatDisagreeAllFail) {
  if (world() == 1) return;  // one rank agrees with itself
  std::vector<float> unused(64);
  using Begin = std::function<Result<Ticket>(Communicator&, float* data, bool odd)>;
  std::vector<Begin> disagreements = {
      [](Communicator& c, float* data, bool odd) { return c.begin_all_reduce(odd ? 2 : 1, 8, data, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_all_reduce(2, odd ? 7 : 8, data, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_all_reduce(odd ? 4 : 2, odd ? 4 : 8, data, data); },
      [](Communicator& c, float* data, bool odd) {
        return odd ? c.begin_barrier() : c.begin_all_reduce(0, 8, data, data);
      },
      [](Communicator& c, float* data, bool odd) { return c.begin_broadcast(odd ? 1 : 0, 8, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_broadcast(0, odd ? 16 : 8, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_all_gather(odd ? 4 : 8, data, data + 16); },
  };
  for (const ReduceSpec odd_spec : {ReduceSpec{Codec::kInt8Rotated}, ReduceSpec{Codec::kInt8, 1}}) {
    disagreements.push_back([odd_spec](Communicator& c, float* data, bool odd) {
      return c.begin_all_reduce(2, 8, data, data, odd ? odd_spec : ReduceSpec{Codec::kInt8});
    });
  }
  for (const Begin& begin : disagreements) {
    expect_all(Errc::kProtocol, run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
                 std::vector<float> data(64, 1.0f);
                 RETURN_IF_ERROR(communicator.barrier());
                 auto ticket = begin(communicator, data.data(), communicator.rank() == communicator.world() - 1);
                 const Status status = ticket.ok() ? communicator.finish(*ticket) : Status(ticket.error());
                 // The failure is for good.
                 if (!status.ok() && communicator.barrier().ok()) return failed("an operation after the failure");
                 return status;
               }));
  }
}

TEST_P(CollectivesFailure, ASilentRankFailsTheOthersAtTheDeadline) {
  if (world() == 1) return;
  std::vector<std::pair<Codec, bool>> runs = {{Codec::kFloat32, true}};
  for (const CodecEntry& entry : all_codecs())
    runs.emplace_back(entry.codec, static_cast<int>(entry.codec) % 2 != 0);
  for (const auto& [codec, in_two_shot] : runs) {
    Options group = options();
    group.two_shot_bytes = in_two_shot ? 0 : limits::kMaxCollectiveMessageBytes;
    const ReduceSpec spec{codec};
    const SteadyClock clock;
    std::atomic<int> ended{0};
    const auto results = run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      std::vector<float> data(4096, 1.0f);
      RETURN_IF_ERROR(communicator.all_reduce(4, 1024, data.data(), data.data(), spec));
      const int64_t deadline_ns = clock.now_ns() + 60 * kMs;
      communicator.set_deadline_ns(deadline_ns);
      if (communicator.rank() == 1) {  // it is there and does nothing, as one that was stopped
        while (ended.load() < world() - 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return communicator.health();
      }
      const Status status = communicator.all_reduce(4, 1024, data.data(), data.data(), spec);
      ended.fetch_add(1);
      if (clock.now_ns() < deadline_ns && status.ok()) return failed("a sum without rank 1");
      if (communicator.all_reduce(1, 1, data.data(), data.data(), spec).ok()) return failed("a sum after the failure");
      return status;
    });
    for (size_t rank = 0; rank < results.size(); ++rank) {
      if (rank == 1) continue;
      ASSERT_FALSE(results[rank].ok());
      EXPECT_EQ(results[rank].error().code, Errc::kDeadlineExceeded) << to_string(results[rank].error());
    }
  }
}

// Shared memory does not show it before the deadline, a closed connection does at once; both fail all the others.
TEST_P(CollectivesFailure, ARankThatIsGoneFailsTheOthers) {
  if (world() == 1) return;
  for (const int gone : {0, world() - 1}) {
    const SteadyClock clock;
    const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
      std::vector<float> data(4096, 1.0f);
      RETURN_IF_ERROR(communicator.all_reduce(4, 1024, data.data(), data.data()));
      if (communicator.rank() == gone) return {};
      communicator.set_deadline_ns(clock.now_ns() + 60 * kMs);
      const Status status = communicator.all_reduce(4, 1024, data.data(), data.data());
      if (communicator.health().ok()) return failed("healthy without a rank");
      return status;
    });
    for (int rank = 0; rank < world(); ++rank) {
      const Status& result = results[static_cast<size_t>(rank)];
      if (rank == gone) continue;
      ASSERT_FALSE(result.ok());
      EXPECT_TRUE(result.error().code == Errc::kDeadlineExceeded || result.error().code == Errc::kUnavailable)
          << to_string(result.error());
    }
  }
}

TEST_P(CollectivesFailure, DeadlinesFollowTheClockAndALateRankGetsTheError) {
  if (world() == 1) return;
  ManualClock clock(1000);
  Options group = options();
  group.clock = &clock;
  std::atomic<int> ready{0};
  std::atomic<int> ended{0};
  const auto results = run_ranks(make(), group, [&](Communicator& communicator) -> Status {
    communicator.set_deadline_ns(2000);
    float value = 1;
    ready.fetch_add(1);
    if (communicator.rank() == 0) {
      while (ready.load() < world())
        std::this_thread::yield();
      clock.advance(1000);
      while (ended.load() < world() - 1)
        std::this_thread::yield();
    }
    const Status status = communicator.all_reduce(1, 1, &value, &value);
    ended.fetch_add(1);
    return status;
  });
  expect_all(Errc::kDeadlineExceeded, results);
}

TEST_P(CollectivesFailure, AnAbortWakesEveryRank) {
  for (const bool may_spin : {false, true}) {
    Options group = options();
    group.may_spin = may_spin;
    std::atomic<int> waiting{0};
    const auto results = run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      float value = 1;
      std::thread leader;
      if (communicator.rank() == 0) {
        leader = std::thread([&] {
          while (waiting.load() < world() - 1)
            std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          communicator.abort("the leader lost rank 7");
          communicator.abort("a second reason");
        });
        leader.join();
      }
      waiting.fetch_add(1);
      const Status status = communicator.all_reduce(1, 1, &value, &value);
      if (communicator.health().ok()) return failed("healthy after an abort");
      return status;
    });
    expect_all(Errc::kUnavailable, results);
    for (const Status& result : results) {
      EXPECT_NE(result.error().message.find("the leader lost rank 7"), std::string::npos) << result.error().message;
    }
  }
}

TEST_P(CollectivesFailure, ARankThatLeavesWithOperationsInFlightFailsTheOthers) {
  if (world() == 1) return;
  const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    std::vector<float> data(1'000'000, 1.0f);
    ASSIGN_OR_RETURN(const Ticket ticket, communicator.begin_all_reduce(1000, 1000, data.data(), data.data()));
    if (communicator.rank() == 0) return Error{Errc::kUnavailable, "left", ""};
    return communicator.finish(ticket);
  });
  expect_all(Errc::kUnavailable, results);
}

TEST_P(CollectivesFailure, BadCallsAreErrorsAndHarmNothing) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    float value = 1;
    const std::vector<int64_t> too_many(static_cast<size_t>(world()) + 1, 4);
    const std::vector<int64_t> negative(static_cast<size_t>(world()), -4);
    const std::vector<int64_t> huge(static_cast<size_t>(world()), std::numeric_limits<int64_t>::max());
    const auto refused = [](const Result<Ticket>& result) {
      return !result.ok() && result.error().code == Errc::kInvalidArgument;
    };
    const bool all_refused =
        refused(communicator.begin_all_reduce(-1, 1, &value, &value)) &&
        refused(communicator.begin_all_reduce(1, -1, &value, &value)) &&
        refused(communicator.begin_all_reduce(int64_t{1} << 40, int64_t{1} << 40, &value, &value)) &&
        refused(communicator.begin_all_reduce(1, 1, &value, &value, {static_cast<Codec>(all_codecs().size())})) &&
        refused(communicator.begin_all_reduce(1, 1, &value, &value, {Codec::kInt8, -1})) &&
        refused(communicator.begin_all_reduce(1, 1, &value, &value, {Codec::kInt8, 2})) &&
        refused(communicator.begin_all_reduce(1, 100, &value, &value, {Codec::kInt8, limits::kMaxExactLanes + 1})) &&
        refused(communicator.begin_all_gather(-1, &value, &value)) &&
        refused(communicator.begin_all_gather_rows(1, too_many, &value, &value)) &&
        refused(communicator.begin_all_gather_rows(1, negative, &value, &value)) &&
        refused(communicator.begin_all_gather_rows(0, huge, &value, &value)) &&
        refused(communicator.begin_broadcast(world(), 1, &value)) &&
        refused(communicator.begin_broadcast(-1, 1, &value)) && refused(communicator.begin_broadcast(0, -1, &value));
    if (!all_refused) return failed("a bad call was taken");
    std::vector<Ticket> tickets;
    for (int i = 0; i < limits::kMaxCollectiveTickets; ++i) {
      ASSIGN_OR_RETURN(tickets.emplace_back(), communicator.begin_barrier());
    }
    const auto one_more = communicator.begin_barrier();
    if (one_more.ok() || one_more.error().code != Errc::kResourceExhausted) return failed("a ticket too many");
    for (const Ticket ticket : tickets)
      RETURN_IF_ERROR(communicator.finish(ticket));
    return communicator.all_reduce(1, 1, &value, &value);
  }));
}

TEST_P(CollectivesFailure, GroupsOfDifferentOptionsDoNotForm) {
  if (world() == 1) return;
  const auto run = [&](const std::function<void(Options&)>& change_last, int64_t timeout_ns) {
    const Options group = options();
    return run_ranks(
        make(), world(),
        [&](int rank) {
          Options mine = group;
          mine.rank = rank;
          mine.timeout_ns = timeout_ns;
          if (rank == world() - 1) change_last(mine);
          return mine;
        },
        [](Communicator&) -> Status { return {}; });
  };
  for (const Status& result : run([](Options& o) { o.max_rows = 2; }, 500 * kMs))
    EXPECT_FALSE(result.ok());
  for (const Status& result : run([](Options& o) { o.two_shot_bytes += 1; }, 500 * kMs))
    EXPECT_FALSE(result.ok());
  const auto other_table = [](Options& o) {
    o.algorithms = std::make_shared<SumTable>(SumTable::make({{Codec::kBf16, 1, false, 4096}}).value());
  };
  for (const Status& result : run(other_table, 500 * kMs))
    EXPECT_FALSE(result.ok());
  for (const Status& result : run([](Options& o) { o.rank = 0; }, 100 * kMs))
    EXPECT_FALSE(result.ok());  // twice
  for (const Status& result : run([](Options& o) { o.world = 9; }, 100 * kMs))
    EXPECT_FALSE(result.ok());
}

TEST_P(CollectivesFailure, FormingEndsWhenItIsGivenUp) {
  if (options().world == 1) return;  // there is nobody to wait for
  for (const int rank : {0, 1}) {
    std::atomic<bool> cancel = false;
    Options mine = options();
    mine.rank = rank;
    mine.cancel = &cancel;
    mine.timeout_ns = 600 * kSecond;  // nobody else comes: only the flag can end it
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      cancel = true;
    });
    const auto made = make()(mine);
    later.join();
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Errc::kUnavailable);
  }
}

TEST_P(CollectivesFailure, BadOptionsAreRefused) {
  const std::vector<std::function<void(Options&)>> faults = {
      [](Options& o) { o.name = ""; },
      [](Options& o) { o.name = "../x"; },
      [](Options& o) { o.name = std::string(65, 'x'); },
      [](Options& o) { o.world = 0; },
      [](Options& o) { o.world = limits::kMaxWorld + 1; },
      [](Options& o) { o.rank = o.world; },
      [](Options& o) { o.rank = -1; },
      [](Options& o) { o.world = 3, o.order = ReduceOrder::kTree; },
      [](Options& o) { o.max_rows = 0; },
      [](Options& o) { o.stage_bytes = 0; },
      [](Options& o) { o.stage_bytes = limits::kMaxCollectiveStageBytes + 1; },
      [](Options& o) { o.two_shot_bytes = -1; },
      [](Options& o) { o.timeout_ns = 0; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    Options mine = options();
    faults[i](mine);
    const auto made = make()(mine);
    ASSERT_FALSE(made.ok()) << "fault " << i;
    EXPECT_EQ(made.error().code, Errc::kInvalidArgument) << "fault " << i;
  }
}

}  // namespace
}  // namespace krait::collectives
