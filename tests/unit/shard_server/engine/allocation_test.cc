// A step allocates for what it returns and nothing for what it computes: not by rows, layers or the file it reads.
#include <gtest/gtest.h>

#include "common/model/architecture.h"
#include "shard_server/collectives/loopback.h"
#include "shard_server/engine/engine.h"
#include "tests/support/allocations/allocations.h"
#include "tests/support/golden.h"
#include "tests/support/random_model.h"

namespace krait::test {
namespace {

/// Allocations of the last of some steps of its kind, when every buffer has its size: a prefill of so many rows, or a
/// decode.
int64_t allocations_of_a_step(const std::string& model, DType dtype, size_t rows) {
  const auto checkpoint = Checkpoint::open(model).value();
  shard::EngineOptions options;
  options.partition = make_partition(checkpoint->config(), 1).value();
  options.dtype = dtype;
  options.slots = 2;
  options.kv_pages = 32;
  const auto engine = shard::Engine::load(checkpoint, options).value();
  collectives::Options peers;
  peers.name = "test";
  peers.max_rows = 8;
  peers.max_width = checkpoint->config().hidden_size;
  peers.hub = collectives::make_loopback_hub();
  const auto communicators =
      collectives::GroupCommunicators::form(collectives::make_loopback_communicator, peers, std::nullopt).value();
  const SteadyClock clock;
  int64_t last = 0;
  for (uint64_t number = 1; number <= 4; ++number) {
    wire::Step step;
    step.step = number;
    auto& run = step.runs.emplace_back();
    run.position = static_cast<uint32_t>((number - 1) * rows);
    run.in_slot = number == 1 ? -1 : 0;
    run.sample = true;
    if (number == 1) {
      step.admissions.push_back({0, 1000, {}});
      for (uint32_t page = 0; page < engine->kv_pages(); ++page)
        step.admissions[0].pages.push_back(static_cast<int32_t>(page));
    }
    if (number == 1 || rows > 1) run.tokens.assign(rows, 2);
    const int64_t before = allocations().count;
    const auto done = engine->step(step, *communicators, clock);
    last = allocations().count - before;
    EXPECT_TRUE(done.ok()) << to_string(done.error());
  }
  return last;
}

TEST(StepAllocation, IsForTheAnswerAloneInEveryFamily) {
  constexpr int64_t kLeast = 1;  // the answer's list of samples: else the counter does not count
  for (const Architecture* architecture : all_architectures()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const ScratchDir folder;
      const RandomModel model = write_random_model(folder.path(), architecture->name, seed);
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
        for (const size_t rows : {size_t{1}, size_t{60}})
          EXPECT_EQ(allocations_of_a_step(folder.path(), dtype, rows), kLeast)
              << rows << " rows, " << model.config_json;
      }
    }
  }
}

}  // namespace
}  // namespace krait::test
