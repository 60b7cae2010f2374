// What all sequences of a request share is there once: memory is counted, however large stop strings and biases are.
#include "tests/support/allocations/allocations.h"
#include "tests/unit/coordinator/requests/core_fixture.h"

namespace krait::test {
namespace {

struct Allocation : CoreFixture {
  void SetUp() override {
    make(1);
    core->from_group(0, serving());
    take<wire::Hello>();
  }

  /// A thousand sequences, with as much as a request can have beside its prompts, or none of that.
  static requests::GenerationSpec thousand(bool much) {
    auto spec = spec_of(8);
    spec.n = 128;
    if (!much) return spec;
    std::vector<std::string> stop;
    for (char first = 'a'; first < 'a' + limits::kMaxStopStrings; ++first)
      stop.push_back(first + std::string(4 * limits::kMaxStopStringCharacters, 'x'));
    spec.shared.stop = std::make_shared<const tokenizer::StopStrings>(std::move(stop));
    for (int32_t token = 0; token < limits::kMaxLogitBias; ++token)
      spec.shared.sampling.logit_bias.push_back({token, 1.5f});
    return spec;
  }

  size_t bytes_of_submit(bool much) {
    auto spec = thousand(much);
    const auto sink = std::make_shared<RecordingSink>(spec.sequences());
    const size_t before = allocations().bytes;
    core->submit(++last_id, std::move(spec), sink);
    const size_t bytes = allocations().bytes - before;
    core->cancel(last_id);
    return bytes;
  }
};

TEST_F(Allocation, StopStringsAndBiasesAreThereOnceForAllSequences) {
  const size_t little = bytes_of_submit(false);
  const size_t much = bytes_of_submit(true);
  EXPECT_LT(much, little + 64 * kKiB) << "a copy of the biases is 8 KiB, of the stop strings 64 KiB and their nodes";
  EXPECT_LT(little, 1024 * 2 * kKiB);
}

TEST_F(Allocation, ASubmitIsMadeWhenItIsItsTurnToBeSent) {
  submit(thousand(true));
  for (int i = 0; i < 1024; ++i) {
    const size_t before = allocations().bytes;
    const auto out = core->next_outgoing();
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(std::get<wire::Submit>(out->message).sampling.logit_bias.size(), size_t{limits::kMaxLogitBias});
    EXPECT_GT(allocations().bytes - before, 8 * kKiB);
  }
  EXPECT_FALSE(core->next_outgoing().has_value());
}

}  // namespace
}  // namespace krait::test
