// A reduce-scatter gives each rank its rows of the sum that an all-reduce gives, bit for bit.
#include <gtest/gtest.h>

#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesScatter : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesScatter);

Status check_scatter(Communicator& communicator, const Shape& shape, const ReduceSpec& spec) {
  const auto& [rows, width] = shape;
  const std::vector<float> in = part_of(static_cast<uint64_t>(rows + width), communicator.rank(), rows * width);
  std::vector<float> sum(in.size());
  RETURN_IF_ERROR(communicator.all_reduce(rows, width, in.data(), sum.data(), spec));
  const Stripe mine = stripe_of(communicator.rank(), communicator.world(), rows);
  std::vector<float> out(static_cast<size_t>(mine.count * width) + 1, -7.0f);
  RETURN_IF_ERROR(communicator.reduce_scatter(rows, width, in.data(), out.data(), spec));
  if (out.back() != -7.0f) return failed("written past the stripe");
  out.pop_back();
  const std::vector<float> expected(sum.begin() + mine.begin * width, sum.begin() + (mine.begin + mine.count) * width);
  if (same_bits(out, expected)) return {};
  return failed(fmt::format("{} x {}, codec {}", rows, width, codec_entry(spec.codec).name));
}

TEST_P(CollectivesScatter, EachRankGetsItsRowsOfTheSum) {
  const std::vector<Shape> shapes = {{0, 16}, {5, 0}, {1, 1}, {3, 5}, {7, 257}, {8, 100}, {33, 4099}, {130, 64}};
  for (const ReduceOrder order : orders_of(world())) {
    for (const int64_t stage_bytes : {int64_t{1}, 4 * kKiB, 256 * kKiB}) {
      Options group = options(order);
      group.stage_bytes = stage_bytes;
      group.two_shot_bytes = 1;
      expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
        for (const Shape& shape : shapes) {
          if (stage_bytes == 1 && shape.rows * shape.width > 10'000) continue;
          for (const CodecEntry& codec : all_codecs()) {
            RETURN_IF_ERROR(check_scatter(communicator, shape, {codec.codec, std::min<int64_t>(1, shape.width)}));
          }
        }
        return {};
      }));
    }
  }
}

TEST_P(CollectivesScatter, StripesCoverAllRowsInRankOrder) {
  for (int64_t rows = 0; rows < 40; ++rows) {
    int64_t covered = 0;
    for (int rank = 0; rank < world(); ++rank) {
      const Stripe stripe = stripe_of(rank, world(), rows);
      EXPECT_EQ(stripe.begin, covered);
      covered += stripe.count;
    }
    EXPECT_EQ(covered, rows);
  }
}

TEST_P(CollectivesScatter, RanksThatDisagreeAllFail) {
  if (world() == 1) return;
  for (const int fault : {0, 1, 2}) {
    expect_all(Errc::kProtocol, run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
                 const bool odd = communicator.rank() == world() - 1;
                 std::vector<float> data(64), out(64);
                 RETURN_IF_ERROR(communicator.barrier());
                 if (fault == 0 && odd) return communicator.all_reduce(2, 8, data.data(), out.data());
                 if (fault == 1 && odd) return communicator.reduce_scatter(4, 4, data.data(), out.data());
                 return communicator.reduce_scatter(2, 8, data.data(), out.data(),
                                                    {fault == 2 && odd ? Codec::kBf16 : Codec::kFloat32});
               }));
  }
}

TEST_P(CollectivesScatter, ASilentRankFailsTheOthersAtTheDeadline) {
  if (world() == 1) return;
  std::atomic<int> ended{0};
  const SteadyClock clock;
  const auto results = run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    std::vector<float> data(4096, 1.0f), out(4096);
    RETURN_IF_ERROR(communicator.reduce_scatter(4, 1024, data.data(), out.data()));
    communicator.set_deadline_ns(clock.now_ns() + 60 * kMs);
    while (communicator.rank() == 1 && ended.load() < world() - 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Status status = communicator.reduce_scatter(4, 1024, data.data(), out.data());
    ended.fetch_add(1);
    return status;
  });
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (rank == 1) continue;
    ASSERT_FALSE(results[rank].ok());
    EXPECT_EQ(results[rank].error().code, Errc::kDeadlineExceeded) << to_string(results[rank].error());
  }
}

}  // namespace
}  // namespace krait::collectives
