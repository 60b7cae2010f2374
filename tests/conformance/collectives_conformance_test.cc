// Every implementation in collectives.def, at every world that a group may have: bits, shapes, order, failure.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "common/base/units.h"
#include "shard_server/collectives/registry.h"
#include "tests/support/rank_threads.h"

namespace krait::collectives {
namespace {

// Values over many powers of two, so that another order of adding gives other bits.
float value_at(uint64_t seed, int rank, int64_t index) {
  SplitMix64 random(seed * 1'000'003 + static_cast<uint64_t>(rank) * 7'919 + static_cast<uint64_t>(index) * 104'729);
  const double magnitude = std::ldexp(1.0 + random.uniform(), static_cast<int>(random.below(24)) - 12);
  return static_cast<float>(random.below(2) == 0 ? magnitude : -magnitude);
}

std::vector<float> part_of(uint64_t seed, int rank, int64_t count) {
  std::vector<float> part(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    part[static_cast<size_t>(i)] = value_at(seed, rank, i);
  return part;
}

// The contract's sums, written out plainly for each world.
float plain_sum(ReduceOrder order, const std::vector<float>& r) {
  if (order == ReduceOrder::kTree) {
    switch (r.size()) {
      case 1:
        return r[0];
      case 2:
        return r[0] + r[1];
      case 4:
        return (r[0] + r[1]) + (r[2] + r[3]);
      case 8:
        return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
      default:
        ADD_FAILURE() << "no tree of " << r.size();
        return 0;
    }
  }
  float sum = r[0];
  for (size_t i = 1; i < r.size(); ++i)
    sum += r[i];
  return sum;
}

std::vector<float> plain_sum(ReduceOrder order, const std::vector<std::vector<float>>& parts) {
  std::vector<float> sum(parts[0].size());
  std::vector<float> values(parts.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    for (size_t rank = 0; rank < parts.size(); ++rank)
      values[rank] = parts[rank][i];
    sum[i] = plain_sum(order, values);
  }
  return sum;
}

std::vector<std::vector<float>> parts_of(uint64_t seed, int world, int64_t count) {
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < world; ++rank)
    parts.push_back(part_of(seed, rank, count));
  return parts;
}

std::vector<float> expected_sum(uint64_t seed, ReduceOrder order, int world, int64_t count) {
  return plain_sum(order, parts_of(seed, world, count));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Status failed(std::string message) {
  return Error{Errc::kInternal, std::move(message), ""};
}

struct Shape {
  int64_t rows;
  int64_t width;
};

std::vector<ReduceOrder> orders_of(int world) {
  std::vector<ReduceOrder> orders = {ReduceOrder::kRankOrder};
  if (std::has_single_bit(static_cast<unsigned>(world))) orders.push_back(ReduceOrder::kTree);
  return orders;
}

class Collectives : public testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  CommunicatorFactory make() const { return all_collectives()[std::get<0>(GetParam())].make; }
  int world() const { return std::get<1>(GetParam()); }
  Options options(ReduceOrder order = ReduceOrder::kRankOrder) const {
    Options options = fresh_options(world(), order);
    options.max_rows = 64;
    options.max_width = 1024;
    return options;
  }

  static void expect_all_ok(const std::vector<Status>& results) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_TRUE(results[rank].ok()) << "rank " << rank << ": " << to_string(results[rank].error());
    }
  }
  static void expect_all(Errc code, const std::vector<Status>& results) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_FALSE(results[rank].ok()) << "rank " << rank;
      EXPECT_EQ(results[rank].error().code, code) << "rank " << rank << ": " << to_string(results[rank].error());
    }
  }

  void TearDown() override {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("krait-test-" + std::to_string(getpid())))
          << entry.path() << " was left";
    }
  }
};

TEST_P(Collectives, SumsHaveTheBitsOfTheContractWhateverTheSizeAndAlgorithm) {
  constexpr int64_t kSmallElements = 4096;  // what is run in single-line steps too
  const std::vector<Shape> shapes = {{0, 16}, {4, 0}, {1, 1}, {3, 5}, {1, 16}, {7, 257}, {33, 4099}, {2, 70'001}};
  std::vector<std::vector<std::vector<float>>> parts;  // [shape][rank]
  for (const Shape& shape : shapes)
    parts.push_back(parts_of(parts.size(), world(), shape.rows * shape.width));
  for (const ReduceOrder order : orders_of(world())) {
    std::vector<std::vector<float>> expected(shapes.size());
    for (size_t s = 0; s < shapes.size(); ++s)
      expected[s] = plain_sum(order, parts[s]);
    for (const int64_t two_shot_bytes : {int64_t{0}, limits::kMaxCollectiveMessageBytes}) {
      for (const int64_t stage_bytes : {int64_t{1}, 4 * kKiB, 256 * kKiB}) {
        Options group = options(order);
        group.two_shot_bytes = two_shot_bytes;
        group.stage_bytes = stage_bytes;
        expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
          for (size_t s = 0; s < shapes.size(); ++s) {
            const auto& [rows, width] = shapes[s];
            if (stage_bytes == 1 && rows * width > kSmallElements) continue;
            const std::vector<float>& in = parts[s][static_cast<size_t>(communicator.rank())];
            std::vector<float> out(in.size(), -1.0f);
            RETURN_IF_ERROR(communicator.all_reduce(rows, width, in.data(), out.data()));
            if (!same_bits(out, expected[s])) return failed(fmt::format("{} x {} differs", rows, width));
            std::vector<float> in_place = in;
            RETURN_IF_ERROR(communicator.all_reduce(rows, width, in_place.data(), in_place.data()));
            if (!same_bits(in_place, out)) return failed(fmt::format("{} x {} in place", rows, width));
          }
          return {};
        }));
      }
    }
  }
}

// The test above has teeth only if the two orders differ on its data.
TEST(CollectivesData, OrdersDifferInBits) {
  for (const int world : {4, 8}) {
    EXPECT_FALSE(same_bits(expected_sum(9, ReduceOrder::kTree, world, 1000),
                           expected_sum(9, ReduceOrder::kRankOrder, world, 1000)));
  }
}

TEST_P(Collectives, ARowHasTheSameBitsAloneAndAmongOthers) {
  constexpr int64_t kRows = 37, kWidth = 1536;
  const ReduceOrder order = orders_of(world()).back();
  expect_all_ok(run_ranks(make(), options(order), [&](Communicator& communicator) -> Status {
    const auto in = part_of(5, communicator.rank(), kRows * kWidth);
    std::vector<float> together(in.size());
    RETURN_IF_ERROR(communicator.all_reduce(kRows, kWidth, in.data(), together.data()));
    for (const int64_t row : {int64_t{0}, int64_t{17}, kRows - 1}) {
      std::vector<float> alone(kWidth);
      RETURN_IF_ERROR(communicator.all_reduce(1, kWidth, in.data() + row * kWidth, alone.data()));
      if (std::memcmp(alone.data(), together.data() + row * kWidth, kWidth * sizeof(float)) != 0) {
        return failed(fmt::format("row {} differs", row));
      }
    }
    return {};
  }));
}

TEST_P(Collectives, GathersAreInRankOrder) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{13}, int64_t{4096}, int64_t{700'001}}) {
      std::vector<uint8_t> in(static_cast<size_t>(bytes));
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<uint8_t>(i * 31 + static_cast<size_t>(communicator.rank()) * 101);
      std::vector<uint8_t> out(in.size() * static_cast<size_t>(world()), 0xEE);
      RETURN_IF_ERROR(communicator.all_gather(bytes, in.data(), out.data()));
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t rank = i / in.size();
        if (out[i] != static_cast<uint8_t>(i % in.size() * 31 + rank * 101))
          return failed(fmt::format("byte {} of {}", i, bytes));
      }
    }
    return {};
  }));
}

TEST_P(Collectives, RowGathersPutUnevenPiecesSideBySide) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (const int64_t base : {int64_t{0}, int64_t{3}, int64_t{90'000}}) {
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{9}}) {
        std::vector<int64_t> sizes(static_cast<size_t>(world()));  // rank 1 has nothing; the others differ
        for (size_t r = 0; r < sizes.size(); ++r)
          sizes[r] = r == 1 ? 0 : base + static_cast<int64_t>(r);
        const int64_t mine = sizes[static_cast<size_t>(communicator.rank())];
        const auto byte_of = [](int64_t rank, int64_t row, int64_t i) {
          return static_cast<uint8_t>(rank * 37 + row * 11 + i);
        };
        std::vector<uint8_t> in;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < mine; ++i)
            in.push_back(byte_of(communicator.rank(), row, i));
        }
        std::vector<uint8_t> expected;
        for (int64_t row = 0; row < rows; ++row) {
          for (int rank = 0; rank < world(); ++rank) {
            for (int64_t i = 0; i < sizes[static_cast<size_t>(rank)]; ++i)
              expected.push_back(byte_of(rank, row, i));
          }
        }
        std::vector<uint8_t> out(expected.size(), 0xEE);
        RETURN_IF_ERROR(communicator.all_gather_rows(rows, sizes, in.data(), out.data()));
        if (out != expected) return failed(fmt::format("{} rows of {} bytes and more", rows, base));
      }
    }
    return {};
  }));
}

TEST_P(Collectives, BroadcastsComeFromAnyRootAndBarriersMeet) {
  std::atomic<int> arrived{0};
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (int root = 0; root < world(); ++root) {
      for (const int64_t bytes : {int64_t{0}, int64_t{5}, int64_t{600'000}}) {
        std::vector<uint8_t> data(static_cast<size_t>(bytes), static_cast<uint8_t>(communicator.rank() + 1));
        RETURN_IF_ERROR(communicator.broadcast(root, bytes, data.data()));
        if (data != std::vector<uint8_t>(data.size(), static_cast<uint8_t>(root + 1))) return failed("broadcast");
      }
    }
    for (int round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      RETURN_IF_ERROR(communicator.barrier());
      if (arrived.load() < round * world()) return failed("a barrier let a rank through early");
    }
    return {};
  }));
}

// One rank's view of a random run: the same seed gives all ranks the same operations.
Status random_run(Communicator& communicator, ReduceOrder order, uint64_t seed, int rounds) {
  SplitMix64 random(seed);
  struct Flight {
    Ticket ticket;
    std::vector<float> in, out, expected;
  };
  const int world = communicator.world();
  for (int round = 0; round < rounds; ++round) {
    std::vector<Flight> flights(1 + random.below(limits::kMaxCollectiveTickets));
    for (Flight& flight : flights) {
      const auto rows = static_cast<int64_t>(random.below(20));
      const auto width = static_cast<int64_t>(random.below(random.below(4) == 0 ? 3000 : 60));
      const uint64_t data_seed = random.next() % 1'000'000;
      const int64_t count = rows * width;
      flight.in = part_of(data_seed, communicator.rank(), count);
      if (random.below(3) == 0) {  // a gather now and then
        for (int rank = 0; rank < world; ++rank) {
          const auto part = part_of(data_seed, rank, count);
          flight.expected.insert(flight.expected.end(), part.begin(), part.end());
        }
        flight.out.resize(flight.expected.size());
        ASSIGN_OR_RETURN(flight.ticket, communicator.begin_all_gather(count * 4, flight.in.data(), flight.out.data()));
      } else {
        flight.expected = expected_sum(data_seed, order, world, count);
        flight.out.resize(flight.expected.size());
        ASSIGN_OR_RETURN(flight.ticket,
                         communicator.begin_all_reduce(rows, width, flight.in.data(), flight.out.data()));
      }
    }
    // Finished in any order, which need not be the same on all ranks.
    while (!flights.empty()) {
      const size_t pick = (random.next() + static_cast<uint64_t>(communicator.rank())) % flights.size();
      RETURN_IF_ERROR(communicator.finish(flights[pick].ticket));
      if (!same_bits(flights[pick].out, flights[pick].expected)) return failed(fmt::format("round {}", round));
      flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  return {};
}

TEST_P(Collectives, ManyOperationsInFlightKeepTheirBits) {
  const ReduceOrder order = orders_of(world()).back();
  for (const bool may_spin : {false, true}) {
    Options group = options(order);
    group.may_spin = may_spin;
    group.stage_bytes = 4 * kKiB;  // so that many operations need several steps
    group.two_shot_bytes = 2 * kKiB;
    expect_all_ok(
        run_ranks(make(), group, [&](Communicator& communicator) { return random_run(communicator, order, 77, 20); }));
  }
}

TEST_P(Collectives, SmallOperationsBackToBack) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (int i = 0; i < 1000; ++i) {
      float value = static_cast<float>(communicator.rank() + i);
      RETURN_IF_ERROR(communicator.all_reduce(1, 1, &value, &value));
      if (value != static_cast<float>(world() * (world() - 1) / 2 + world() * i)) return failed(fmt::format("{}", i));
    }
    return {};
  }));
}

TEST_P(Collectives, RanksThatDisagreeAllFail) {
  if (world() == 1) return;  // one rank agrees with itself
  std::vector<float> unused(64);
  using Begin = std::function<Result<Ticket>(Communicator&, float* data, bool odd)>;
  const std::vector<Begin> disagreements = {
      [](Communicator& c, float* data, bool odd) { return c.begin_all_reduce(odd ? 2 : 1, 8, data, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_all_reduce(2, odd ? 7 : 8, data, data); },
      [](Communicator& c, float* data, bool odd) {
        return odd ? c.begin_barrier() : c.begin_all_reduce(0, 8, data, data);
      },
      [](Communicator& c, float* data, bool odd) { return c.begin_broadcast(odd ? 1 : 0, 8, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_broadcast(0, odd ? 16 : 8, data); },
      [](Communicator& c, float* data, bool odd) { return c.begin_all_gather(odd ? 4 : 8, data, data + 16); },
  };
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

TEST_P(Collectives, ALostRankFailsTheOthersAtTheDeadline) {
  if (world() == 1) return;
  for (const bool in_two_shot : {false, true}) {
    Options group = options();
    group.two_shot_bytes = in_two_shot ? 0 : limits::kMaxCollectiveMessageBytes;
    const SteadyClock clock;
    const auto results = run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      std::vector<float> data(4096, 1.0f);
      RETURN_IF_ERROR(communicator.all_reduce(4, 1024, data.data(), data.data()));
      const int64_t deadline_ns = clock.now_ns() + 60 * kMs;
      communicator.set_deadline_ns(deadline_ns);
      if (communicator.rank() == 1) return communicator.health();  // it never comes again
      const Status status = communicator.all_reduce(4, 1024, data.data(), data.data());
      if (clock.now_ns() < deadline_ns && status.ok()) return failed("a sum without rank 1");
      if (communicator.all_reduce(1, 1, data.data(), data.data()).ok()) return failed("a sum after the failure");
      return status;
    });
    for (size_t rank = 0; rank < results.size(); ++rank) {
      if (rank == 1) continue;
      ASSERT_FALSE(results[rank].ok());
      EXPECT_EQ(results[rank].error().code, Errc::kDeadlineExceeded) << to_string(results[rank].error());
    }
  }
}

TEST_P(Collectives, DeadlinesFollowTheClockAndALateRankGetsTheError) {
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
      while (ready.load() < world()) std::this_thread::yield();
      clock.advance(1000);
      while (ended.load() < world() - 1) std::this_thread::yield();
    }
    const Status status = communicator.all_reduce(1, 1, &value, &value);
    ended.fetch_add(1);
    return status;
  });
  expect_all(Errc::kDeadlineExceeded, results);
}

TEST_P(Collectives, AnAbortWakesEveryRank) {
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

TEST_P(Collectives, ARankThatLeavesWithOperationsInFlightFailsTheOthers) {
  if (world() == 1) return;
  const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    std::vector<float> data(1'000'000, 1.0f);
    ASSIGN_OR_RETURN(const Ticket ticket, communicator.begin_all_reduce(1000, 1000, data.data(), data.data()));
    if (communicator.rank() == 0) return Error{Errc::kUnavailable, "left", ""};
    return communicator.finish(ticket);
  });
  expect_all(Errc::kUnavailable, results);
}

TEST_P(Collectives, BadCallsAreErrorsAndHarmNothing) {
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

TEST_P(Collectives, StatisticsCountOperationsBytesAndWaiting) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    std::vector<float> data(1000, 1.0f);
    for (int i = 0; i < 3; ++i)
      RETURN_IF_ERROR(communicator.all_reduce(10, 100, data.data(), data.data()));
    if (communicator.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    RETURN_IF_ERROR(communicator.barrier());
    const Statistics statistics = communicator.statistics();
    const OpStatistics& sums = statistics[static_cast<size_t>(OpKind::kAllReduce)];
    const OpStatistics& barriers = statistics[static_cast<size_t>(OpKind::kBarrier)];
    if (sums.operations != 3 || sums.contributed_bytes != 3 * 4000 || barriers.operations != 1) return failed("counts");
    if (sums.time_ns < sums.wait_ns || barriers.time_ns < barriers.wait_ns) return failed("waiting above time");
    if (communicator.rank() != 0 && barriers.wait_ns < 1 * kMs) return failed("a late rank was not noticed");
    return {};
  }));
}

TEST_P(Collectives, GroupsOfDifferentOptionsDoNotForm) {
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
  for (const Status& result : run([](Options& o) { o.rank = 0; }, 100 * kMs))
    EXPECT_FALSE(result.ok());  // twice
  for (const Status& result : run([](Options& o) { o.world = 9; }, 100 * kMs))
    EXPECT_FALSE(result.ok());
}

TEST_P(Collectives, BadOptionsAreRefused) {
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

TEST(CollectivesRegistry, NamesFindTheirFactories) {
  for (const Collective& collective : all_collectives()) {
    const auto found = find_collective(collective.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, collective.make);
    auto made = (*found)(fresh_options(1, ReduceOrder::kTree));
    ASSERT_TRUE(made.ok()) << to_string(made.error());
    EXPECT_EQ((*made)->transport(), collective.name);
  }
  EXPECT_EQ(find_collective("pigeons").error().code, Errc::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Registry, Collectives,
                         testing::Combine(testing::Range<size_t>(0, all_collectives().size()),
                                          testing::Values(1, 2, 3, 4, 7, 8)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", all_collectives()[std::get<0>(info.param)].name,
                                              std::get<1>(info.param));
                         });

}  // namespace
}  // namespace krait::collectives
