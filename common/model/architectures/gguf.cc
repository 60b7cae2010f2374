// Mamba, Falcon-Mamba and Mamba-2 as llama.cpp keeps them in a GGUF file: sizes under keys of their own, other names of
// tensors, A in place of A_log, axes of one left out or put in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/model/architecture.h"
#include "common/model/gguf_names.h"
#include "common/model/mamba1_parts.h"
#include "common/model/mamba2_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({kGgufType});

// What llama.cpp's own keys say of every model; a Mamba has no use for it.
constexpr auto kHarmless = std::to_array<std::string_view>(
    {"attention.head_count", "attention.head_count_kv", "context_length", "feed_forward_length"});

// Falcon-Mamba norms dt, B and C with this; the file says only that it does.
constexpr float kDtBCNormEps = 1e-6f;

void read_mamba1(ConfigReader& reader, const std::string& prefix, ModelConfig& config) {
  config.mixer.dt_rank = reader.integer(prefix + "ssm.time_step_rank", 1, limits::kMaxHidden);
  reader.integer(prefix + "ssm.group_count", 0, 1, 0);
  if (reader.boolean(prefix + "ssm.dt_b_c_rms", false)) config.mixer.dt_b_c_norm_eps = kDtBCNormEps;
  set_channel_units(config);
}

void read_mamba2(ConfigReader& reader, const std::string& prefix, ModelConfig& config) {
  const std::string heads = prefix + "ssm.time_step_rank";
  const std::string groups = prefix + "ssm.group_count";
  config.mixer.heads = reader.integer(heads, 1, limits::kMaxHidden);
  config.mixer.groups = reader.integer(groups, 1, limits::kMaxHidden);
  config.mixer.gate_norm_eps = config.norm_eps;
  check_mamba2_sizes(reader, config, heads, groups);
  set_head_units(config);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kArchitecture = "general.architecture";
  const std::string architecture = reader.word(kArchitecture, "");
  if (architecture != "mamba" && architecture != "mamba2") {
    reader.fail(Errc::kUnsupported, kArchitecture,
                fmt::format("is '{:.64}'; of GGUF files mamba and mamba2 are served", architecture));
    return;
  }
  const std::string prefix = architecture + ".";
  config.vocab_size = reader.integer(kGgufVocabField, 1, limits::kMaxVocab);
  reader.must_agree(prefix + "vocab_size", config.vocab_size, kGgufVocabField);
  config.hidden_size = reader.integer(prefix + "embedding_length", 1, limits::kMaxHidden);
  config.layers = reader.integer(prefix + "block_count", 1, limits::kMaxLayers);
  config.norm_eps = static_cast<float>(reader.number(prefix + "attention.layer_norm_rms_epsilon", 0, 1));
  config.tie_word_embeddings = !reader.boolean(kGgufHeadField, false);
  MixerConfig& mixer = config.mixer;
  mixer.inner_size = reader.integer(prefix + "ssm.inner_size", 1, limits::kMaxHidden);
  mixer.state_size = reader.integer(prefix + "ssm.state_size", 1, limits::kMaxStateSize);
  mixer.conv_kernel = reader.integer(prefix + "ssm.conv_kernel", 2, limits::kMaxConvKernel);
  mixer.use_conv_bias = true;
  if (architecture == "mamba2") {
    read_mamba2(reader, prefix, config);
  } else {
    read_mamba1(reader, prefix, config);
  }
  for (const std::string_view field : kHarmless)
    reader.get(prefix + std::string(field));
  set_vocab_units(config);
}

/// One tensor of Hugging Face's layout and what it is called here: outside the layers, and of one layer's mixer.
struct Name final {
  std::string_view ours;
  std::string_view gguf;
};
constexpr auto kOuterNames = std::to_array<Name>({{"backbone.embeddings.weight", kGgufEmbedding},
                                                  {"backbone.norm_f.weight", "output_norm.weight"},
                                                  {"lm_head.weight", kGgufHead}});
constexpr auto kLayerNames = std::to_array<Name>({{"norm.weight", "attn_norm.weight"},
                                                  {"mixer.in_proj.weight", "ssm_in.weight"},
                                                  {"mixer.conv1d.weight", "ssm_conv1d.weight"},
                                                  {"mixer.conv1d.bias", "ssm_conv1d.bias"},
                                                  {"mixer.x_proj.weight", "ssm_x.weight"},
                                                  {"mixer.dt_proj.weight", "ssm_dt.weight"},
                                                  {"mixer.dt_proj.bias", "ssm_dt.bias"},
                                                  {"mixer.dt_bias", "ssm_dt.bias"},
                                                  {"mixer.A_log", "ssm_a"},
                                                  {"mixer.D", "ssm_d"},
                                                  {"mixer.norm.weight", "ssm_norm.weight"},
                                                  {"mixer.out_proj.weight", "ssm_out.weight"}});

std::string gguf_name(std::span<const Name> names, std::string_view ours) {
  const auto at = std::find_if(names.begin(), names.end(), [&](const Name& name) { return name.ours == ours; });
  CHECK(at != names.end());
  return std::string(at->gguf);
}

/// The shape under which the file keeps a tensor of such a name: without leading axes of one.
Shape gguf_shape(std::string_view name, Shape shape, const MixerConfig& mixer) {
  if (name == "ssm_conv1d.weight") shape.erase(shape.begin() + 1);
  if (mixer.dt_rank == 0 && (name == "ssm_a" || name == "ssm_d")) shape.push_back(1);
  if (name == "ssm_norm.weight") shape = {mixer.groups, mixer.inner_size / mixer.groups};
  while (shape.size() > 1 && shape.front() == 1)
    shape.erase(shape.begin());
  return shape;
}

void rename(TensorSpec& spec, int layer, const MixerConfig& mixer) {
  if (layer < 0) {
    spec.name = gguf_name(kOuterNames, spec.name);
    if (!spec.source.empty()) spec.source = gguf_name(kOuterNames, spec.source);
  }
  std::string name = layer < 0 ? spec.name : std::string();
  if (layer >= 0) {
    const std::string prefix = fmt::format("backbone.layers.{}.", layer);
    name = gguf_name(kLayerNames, std::string_view(spec.name).substr(prefix.size()));
    spec.name = fmt::format("blk.{}.{}", layer, name);
  }
  const Shape stored = gguf_shape(name, spec.stored_shape(), mixer);
  if (stored != spec.shape) spec.view.stored_shape = stored;
  if (spec.role == "A_log") spec.role = "A";
}

ModelPlan make_plan(const ModelConfig& config) {
  ModelPlan plan = config.mixer.dt_rank > 0 ? make_mamba1_plan(config)
                                            : make_mamba2_plan(config, std::string(kOuterNames.front().ours));
  for (BlockPlan& block : plan.blocks) {
    for (TensorSpec& spec : block.tensors)
      rename(spec, block.layer, config.mixer);
  }
  plan.harmless_tensors.clear();  // a stored output.weight is read: see read_config
  return plan;
}

}  // namespace

const Architecture kArchitecture_gguf{
    .name = "gguf", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
