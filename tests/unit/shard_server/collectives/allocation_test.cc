// After the group has formed, operations allocate nothing: they run inside a step.
#include <gtest/gtest.h>

#include "shard_server/collectives/codec.h"
#include "shard_server/collectives/loopback.h"
#include "tests/support/allocations/allocations.h"
#include "tests/support/rank_threads.h"

namespace krait::collectives {
namespace {

TEST(CollectiveAllocation, OperationsAllocateNothing) {
  Options options = fresh_options(3, ReduceOrder::kRankOrder);
  options.stage_bytes = 4096;
  options.two_shot_bytes = 1024;
  const auto results = run_ranks(make_loopback_communicator, options, [](Communicator& communicator) -> Status {
    std::vector<float> data(10'000, 1.0f), gathered(30'000);
    const std::vector<int64_t> sizes = {4, 0, 8};
    const int64_t before = test::allocations().count;
    RETURN_IF_ERROR(communicator.all_reduce(10, 1000, data.data(), data.data()));
    RETURN_IF_ERROR(communicator.all_reduce(1, 10, data.data(), data.data()));
    for (const CodecEntry& codec : all_codecs())
      RETURN_IF_ERROR(communicator.all_reduce(10, 1000, data.data(), data.data(), {codec.codec, 1}));
    RETURN_IF_ERROR(communicator.all_gather(40'000, data.data(), gathered.data()));
    RETURN_IF_ERROR(communicator.all_gather_rows(5, sizes, data.data(), gathered.data()));
    RETURN_IF_ERROR(communicator.broadcast(1, 4000, data.data()));
    RETURN_IF_ERROR(communicator.reduce_scatter(10, 1000, data.data(), gathered.data()));
    const int rank = communicator.rank();
    ASSIGN_OR_RETURN(const Ticket sent, communicator.begin_send((rank + 1) % 3, 40'000, data.data()));
    RETURN_IF_ERROR(communicator.recv((rank + 2) % 3, 40'000, gathered.data()));
    RETURN_IF_ERROR(communicator.progress());
    RETURN_IF_ERROR(communicator.finish(sent));
    RETURN_IF_ERROR(communicator.barrier());
    if (test::allocations().count != before)
      return Error{Errc::kInternal, fmt::format("{} allocations", test::allocations().count - before), ""};
    return {};
  });
  EXPECT_GT(test::allocations().count, 0);  // the counter counts
  for (const Status& result : results)
    EXPECT_TRUE(result.ok()) << to_string(result.error());
}

}  // namespace
}  // namespace krait::collectives
