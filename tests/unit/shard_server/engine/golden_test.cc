// Each family's fixture against the reference that transformers computed in float32, at every world size and chunking.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/cluster/engine_group.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

/// float32 against float32 in another order of operations. The references themselves are 1e-6 to 1e-5 from float64,
/// Zamba's up to 8e-5.
struct Family final {
  const char* name;
  double tolerance;
};
constexpr Family kFamilies[] = {
    {"mamba", 3e-5}, {"falcon_mamba", 3e-5}, {"mamba2", 3e-5}, {"zamba", 3e-4}, {"zamba2", 1e-4}};

std::vector<float> conv_of(const shard::WholeState& state) {
  std::vector<float> all;
  for (const auto& layer : state.layers)
    all.insert(all.end(), layer.conv.begin(), layer.conv.end());
  return all;
}

std::vector<float> ssm_of(const shard::WholeState& state) {
  std::vector<float> all;
  for (const auto& layer : state.layers)
    all.insert(all.end(), layer.ssm.begin(), layer.ssm.end());
  return all;
}

double worst(const std::vector<float>& got, const float* want, size_t count) {
  double worst = 0;
  for (size_t i = 0; i < count; ++i)
    worst = std::max(worst, std::abs(double{got[i]} - want[i]));
  return std::isnan(worst) ? HUGE_VAL : worst;
}

/// Drops the oldest column of [.., K] states: the reference keeps K inputs, a window needs K - 1.
std::vector<float> without_oldest(const std::vector<float>& states, size_t k) {
  std::vector<float> out;
  for (size_t i = 0; i < states.size(); ++i) {
    if (i % k != 0) out.push_back(states[i]);
  }
  return out;
}

struct Case final {
  Family family;
  int world;
  int threads;
  std::vector<double> shares;
};

class Golden : public testing::TestWithParam<Case> {};

void check_prompt(EngineGroup& group, const Reference& reference, const std::string& prompt, int64_t chunk,
                  double tolerance) {
  const auto ids = reference.ints(prompt + ".input_ids");
  const auto logits = reference.floats(prompt + ".logits");
  const auto greedy = reference.ints(prompt + ".greedy");
  const auto greedy_logits = reference.floats(prompt + ".greedy_logits");
  const auto vocab = static_cast<size_t>(group.config().vocab_size);
  const auto length = static_cast<int64_t>(ids.size());
  const auto got = run_sequence(group, 1, ids, chunk == 0 ? length : chunk, 24, scored_greedily());

  ASSERT_EQ(got.prompt_logits.size(), ids.size());
  double used = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    used = std::max(used, worst(got.prompt_logits[t], &logits[t * vocab], vocab));
  }
  for (size_t i = 0; i < got.decode_logits.size(); ++i) {
    used = std::max(used, worst(got.decode_logits[i], &greedy_logits[(i + 1) * vocab], vocab));
  }
  EXPECT_LE(used, tolerance);
  EXPECT_EQ(got.tokens, greedy);

  const auto check_keys = [&](const shard::WholeState& state) {
    std::vector<float> keys;
    std::vector<float> values;
    for (const auto& layer : state.layers) {
      keys.insert(keys.end(), layer.keys.begin(), layer.keys.end());
      values.insert(values.end(), layer.values.begin(), layer.values.end());
    }
    if (keys.empty()) return;
    const auto want_keys = reference.floats(prompt + ".k");
    const auto want_values = reference.floats(prompt + ".v");
    ASSERT_EQ(keys.size(), want_keys.size());
    used = std::max(
        {used, worst(keys, want_keys.data(), want_keys.size()), worst(values, want_values.data(), want_values.size())});
  };
  const auto check_state = [&](const shard::WholeState& state, const std::string& conv, const std::string& ssm) {
    const auto want_conv =
        without_oldest(reference.floats(conv), static_cast<size_t>(group.config().mixer.conv_kernel));
    const auto want_ssm = reference.floats(ssm);
    const auto got_conv = conv_of(state);
    const auto got_ssm = ssm_of(state);
    ASSERT_EQ(got_conv.size(), want_conv.size());
    ASSERT_EQ(got_ssm.size(), want_ssm.size());
    used = std::max(
        {used, worst(got_conv, want_conv.data(), want_conv.size()), worst(got_ssm, want_ssm.data(), want_ssm.size())});
  };
  check_state(got.after_prompt, prompt + ".conv", prompt + ".ssm");
  check_keys(got.after_prompt);
  EXPECT_EQ(got.after_prompt.layers[0].keys.empty() && got.after_prompt.layers[1].keys.empty() &&
                got.after_prompt.layers[2].keys.empty(),
            group.config().shared.layers.empty());
  // One more row reads the last generated token, then the state is that of prompt and all 24 tokens.
  wire::Step last;
  auto& run = last.runs.emplace_back();
  run.in_slot = run.out_slot = run.sequence_slot = 1;
  run.position = static_cast<uint32_t>(length) + 23;
  group.step(last);
  check_state(group.state(1, length + 24), prompt + ".conv_end", prompt + ".ssm_end");
  EXPECT_LE(used, tolerance);
  testing::Test::RecordProperty("tolerance_used", std::to_string(used / tolerance));
  std::printf("  %s, chunks of %ld: %.0f %% of the tolerance used\n", prompt.c_str(), long{chunk},
              100 * used / tolerance);
}

TEST_P(Golden, LogitsTokensAndStates) {
  const std::string folder = fmt::format("models/{}", GetParam().family.name);
  const Reference reference(golden_path(folder + "/reference.safetensors"));
  EngineGroupOptions options;
  options.model_dir = golden_path(folder);
  options.world = GetParam().world;
  options.threads = GetParam().threads;
  options.shares = GetParam().shares;
  EngineGroup group(options);
  group.keep_logits();
  for (const char* prompt : {"p0", "p1", "p2"}) {
    // Many ranks take long over each of many steps: the longest prompt goes through them one by one with --long only.
    const bool one_by_one = GetParam().world <= 2 || prompt != std::string_view("p2") ||
                            draws({.usual = 0, .sanitized = 0, .long_run = 1}) == 1;
    for (const int64_t chunk : one_by_one ? std::vector<int64_t>{0, 7, 1} : std::vector<int64_t>{0, 7})
      check_prompt(group, reference, prompt, chunk, GetParam().family.tolerance);
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Family& family : kFamilies) {
    for (const int world : {1, 2, 3, 4, 8})
      cases.push_back({family, world, 1, {}});
    cases.push_back({family, 1, 2, {}});
    cases.push_back({family, 3, 1, {3, 1, 2}});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(all_cases()), [](const auto& info) {
  return fmt::format("{}World{}Threads{}{}", info.param.family.name, info.param.world, info.param.threads,
                     info.param.shares.empty() ? "" : "Shares");
});

}  // namespace
}  // namespace krait::test
