// What quantized weights cost on a trained model, also one whose channels differ widely, and what they take in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/tensor/half.h"
#include "common/weights/safetensors.h"
#include "shard_server/weights/smoothing.h"
#include "shard_server/weights/weight_loader.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

wire::SamplingParams sampled(uint64_t seed) {
  wire::SamplingParams sampling = scored_greedily();
  sampling.temperature = 1;
  sampling.seed = seed;
  return sampling;
}

using Logits = std::vector<std::vector<float>>;

Logits logits_of(const std::string& model, DType dtype, const std::vector<int32_t>& tokens) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.dtype = dtype;
  EngineGroup group(options);
  group.keep_logits();
  return run_sequence(group, 0, tokens, 64, 1, sampled(1)).prompt_logits;
}

/// A text that the demo model itself tells, as it does in float32.
std::vector<int32_t> own_text(uint64_t seed, uint32_t length) {
  EngineGroupOptions options;
  options.model_dir = source_path("deploy/demo_model");
  EngineGroup group(options);
  std::vector<int32_t> tokens{0};
  const auto told = run_sequence(group, 0, tokens, 1, length, sampled(seed)).tokens;
  tokens.insert(tokens.end(), told.begin(), told.end());
  return tokens;
}

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp(double{logit});
  std::vector<double> out;
  for (const float logit : logits)
    out.push_back(double{logit} - std::log(sum));
  return out;
}

struct Distance final {
  double divergence =
      0;  // Kullback-Leibler, a token: what the logarithm of the perplexity grows by, on the model's own text
  double relative = 0;  // root mean square of the logits' differences, over that of the logits less their mean
};

Distance distance(const Logits& wanted, const Logits& found) {
  Distance all;
  double squares = 0, lost = 0;
  for (size_t t = 0; t < wanted.size(); ++t) {
    const auto p = log_softmax(wanted[t]);
    const auto q = log_softmax(found[t]);
    double mean = 0;
    for (const float logit : wanted[t])
      mean += double{logit} / static_cast<double>(wanted[t].size());
    for (size_t i = 0; i < p.size(); ++i) {
      all.divergence += std::exp(p[i]) * (p[i] - q[i]) / static_cast<double>(wanted.size());
      squares += std::pow(double{wanted[t][i]} - mean, 2);
      lost += std::pow(double{wanted[t][i]} - double{found[t][i]}, 2);
    }
  }
  all.relative = std::sqrt(lost / squares);
  return all;
}

/// The demo model's tensors as float32.
std::vector<TensorToWrite> demo_tensors() {
  const auto file = SafetensorsFile::open(source_path("deploy/demo_model/model.safetensors")).value();
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, stored] : file->tensors()) {
    std::vector<std::byte> bytes(static_cast<size_t>(stored.bytes()));
    EXPECT_TRUE(file->read(stored, 0, bytes).ok());
    std::vector<float> values(static_cast<size_t>(stored.elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (stored.dtype == DType::kF32) {
        std::memcpy(&values[i], &bytes[i * 4], 4);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, &bytes[i * 2], 2);
        values[i] = bf16_to_f32(bits);
      }
    }
    tensors.push_back({name, DType::kF32, stored.shape, encode_floats(values, DType::kF32)});
  }
  return tensors;
}

void scale_floats(TensorToWrite& tensor, size_t first, size_t step, float factor) {
  for (size_t i = first; i < tensor.bytes.size() / 4; i += step) {
    float value = 0;
    std::memcpy(&value, &tensor.bytes[i * 4], 4);
    value *= factor;
    std::memcpy(&tensor.bytes[i * 4], &value, 4);
  }
}

/// In every layer one channel of the norm a hundred times as large and in_proj's column as small: the same function.
std::vector<TensorToWrite> with_outliers(std::vector<TensorToWrite> tensors) {
  constexpr size_t kHidden = 256;
  for (TensorToWrite& tensor : tensors) {
    const size_t at = tensor.name.find("layers.");
    if (at == std::string::npos) continue;
    const size_t channel = (37 * static_cast<size_t>(tensor.name[at + 7] - '0') + 11) % kHidden;
    if (tensor.name.ends_with(".norm.weight")) scale_floats(tensor, channel, kHidden, 100.0f);
    if (tensor.name.ends_with("in_proj.weight")) scale_floats(tensor, channel, kHidden, 0.01f);
  }
  return tensors;
}

/// In every layer one channel's D a hundred times as large and its column of out_proj as small. No factor can be put
/// into all of what a channel gives out_proj, (C h + D x) silu(z), without changing the function: B and C belong to all
/// channels, and x, dt and the gate come from functions that are not linear. So this is another model, whose own
/// float32 logits are the measure.
std::vector<TensorToWrite> with_outliers_in_d(std::vector<TensorToWrite> tensors) {
  constexpr size_t kInner = 512;
  for (TensorToWrite& tensor : tensors) {
    const size_t at = tensor.name.find("layers.");
    if (at == std::string::npos) continue;
    const size_t channel = (101 * static_cast<size_t>(tensor.name[at + 7] - '0') + 11) % kInner;
    if (tensor.name.ends_with(".D")) scale_floats(tensor, channel, kInner, 100.0f);
    if (tensor.name.ends_with("out_proj.weight")) scale_floats(tensor, channel, kInner, 0.01f);
  }
  return tensors;
}

struct Bound final {
  DType dtype;
  double divergence;
  double relative;
};
// About twice what was found: 1e-5 and 0.002, 5e-4 and 0.015, 0.018 and 0.09.
constexpr Bound kBounds[] = {{DType::kBF16, 5e-5, 0.005}, {DType::kI8, 0.001, 0.03}, {DType::kI4, 0.035, 0.15}};

void check_quality(const std::string& model, const Logits& wanted, const std::vector<int32_t>& tokens,
                   std::string_view name) {
  for (const Bound& bound : kBounds) {
    const Distance found = distance(wanted, logits_of(model, bound.dtype, tokens));
    std::printf("  %s %s: divergence %.5f, relative error of logits %.4f\n", std::string(name).c_str(),
                std::string(weight_type_name(bound.dtype)).c_str(), found.divergence, found.relative);
    EXPECT_LE(found.divergence, bound.divergence) << name << " " << weight_type_name(bound.dtype);
    EXPECT_LE(found.relative, bound.relative) << name << " " << weight_type_name(bound.dtype);
  }
}

TEST(Quantized, LogitsOfATrainedModelStayNear) {
  const auto tokens = own_text(3, 400);
  const std::string demo = source_path("deploy/demo_model");
  check_quality(demo, logits_of(demo, DType::kF32, tokens), tokens, "demo model");
}

TEST(Quantized, ChannelsThatStandOutChangeNothing) {
  const auto tokens = own_text(4, 400);
  const std::string demo = source_path("deploy/demo_model");
  const Logits wanted = logits_of(demo, DType::kF32, tokens);
  const ScratchDir folder;
  write_checkpoint(folder.path(), read_file(demo + "/config.json"), with_outliers(demo_tensors()));
  EXPECT_LE(distance(wanted, logits_of(folder.path(), DType::kF32, tokens)).relative, 1e-5) << "the same function";
  check_quality(folder.path(), wanted, tokens, "with outliers");
}

TEST(Quantized, ChannelsWhoseDStandsOutChangeLittle) {
  const auto tokens = own_text(5, 400);
  const ScratchDir folder;
  const std::string config = read_file(source_path("deploy/demo_model") + "/config.json");
  write_checkpoint(folder.path(), config, with_outliers_in_d(demo_tensors()));
  check_quality(folder.path(), logits_of(folder.path(), DType::kF32, tokens), tokens, "with outliers in D");
}

TEST(Quantized, FactorsAreOfGroupsAndPowersOfTwo) {
  std::vector<float> norm(2 * 96, 0.5f);
  norm[3] = -50.0f;   // 100 times its neighbours
  norm[95] = 1.5f;    // 3 times, in the rest of the first leaf
  norm[100] = 0.01f;  // small ones stay
  norm[191] = std::numeric_limits<float>::infinity();
  const auto factors = shard::smoothing_factors(norm, 2);
  for (size_t i = 0; i < norm.size(); ++i)
    EXPECT_EQ(factors[i], i == 3 ? 64.0f : i == 95 ? 2.0f : 1.0f) << i;
  const auto half = shard::smoothing_factors(std::span(norm).first(96), 1);
  EXPECT_TRUE(std::equal(half.begin(), half.end(), factors.begin())) << "a rank finds what the whole has";
  EXPECT_EQ(shard::smoothing_factors(std::vector<float>(5, 0.0f), 1), std::vector<float>(5, 1.0f));
  EXPECT_TRUE(shard::smoothing_factors({}, 8).empty());
}

/// What the daemon counts on before it loads is what the engine then has.
TEST(Quantized, MemoryIsForeseen) {
  for (const char* model : {"deploy/demo_model", "mamba", "falcon_mamba", "mamba2", "zamba", "zamba2"}) {
    const std::string folder = std::string_view(model).starts_with("deploy")
                                   ? source_path(model)
                                   : golden_path(fmt::format("models/{}", model));
    const auto checkpoint = Checkpoint::open(folder).value();
    for (const int world : {1, 2}) {
      const auto partition = make_partition(checkpoint->config(), world).value();
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
        EngineGroupOptions options;
        options.model_dir = folder;
        options.world = world;
        options.dtype = dtype;
        const EngineGroup group(options);
        for (int rank = 0; rank < world; ++rank) {
          const auto foreseen = static_cast<double>(shard::kept_bytes(checkpoint->plan(), partition, rank, dtype));
          const auto found = static_cast<double>(group.weight_bytes(rank));
          EXPECT_NEAR(found / foreseen, 1.0, 0.05) << model << " " << weight_type_name(dtype) << " rank " << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace krait::test
