// Every collective moves the right bytes and adds in the order of the contract, whatever the shape and timing.
#include <gtest/gtest.h>

#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesBits : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesBits);

TEST_P(CollectivesBits, SumsHaveTheBitsOfTheContractWhateverTheSizeAndAlgorithm) {
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

TEST_P(CollectivesBits, ARowHasTheSameBitsAloneAndAmongOthers) {
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

TEST_P(CollectivesBits, GathersAreInRankOrder) {
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

TEST_P(CollectivesBits, RowGathersPutUnevenPiecesSideBySide) {
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

TEST_P(CollectivesBits, BroadcastsComeFromAnyRootAndBarriersMeet) {
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

TEST_P(CollectivesBits, ManyOperationsInFlightKeepTheirBits) {
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

TEST_P(CollectivesBits, SmallOperationsBackToBack) {
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (int i = 0; i < 1000; ++i) {
      float value = static_cast<float>(communicator.rank() + i);
      RETURN_IF_ERROR(communicator.all_reduce(1, 1, &value, &value));
      if (value != static_cast<float>(world() * (world() - 1) / 2 + world() * i)) return failed(fmt::format("{}", i));
    }
    return {};
  }));
}

TEST_P(CollectivesBits, StatisticsCountOperationsBytesAndWaiting) {
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

}  // namespace
}  // namespace krait::collectives
