#include "tests/support/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

/// A config under way: draws values and writes the fields down.
class Draft final {
 public:
  explicit Draft(SplitMix64& random) : random_(random), even_(flip()) {}

  bool even() const { return even_; }
  bool flip() { return random_.below(2) == 0; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low + 1)));
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + between(0, static_cast<int64_t>(values.size()) - 1));
  }
  /// Something to share out: a multiple of eight in models that are even.
  int64_t shared(int64_t low, int64_t high) { return even_ ? 8 * between(1, (high + 7) / 8) : between(low, high); }
  int64_t divisor_of(int64_t number) {
    std::vector<int64_t> divisors;
    for (int64_t i = 1; i <= number; ++i) {
      if (number % i == 0) divisors.push_back(i);
    }
    return divisors[random_.below(divisors.size())];
  }

  template <class T>
  T add(std::string_view name, T value) {
    fields_.push_back(fmt::format("\"{}\": {}", name, value));
    return value;
  }
  void add_word(std::string_view name, std::string_view word) { add(name, fmt::format("\"{}\"", word)); }
  bool add_flag(std::string_view name) { return add(name, flip()); }
  void add_object(std::string_view name, const Draft& object) { add(name, object.text()); }
  std::string text() const { return fmt::format("{{{}}}", fmt::join(fields_, ", ")); }

 private:
  SplitMix64& random_;
  std::vector<std::string> fields_;
  bool even_;
};

int64_t state_size(Draft& draft) {
  const int64_t small = draft.between(1, 20);
  const int64_t large = draft.one_of({8, 16, 32, 64, 128, 256, 77, 200});
  return draft.flip() ? small : large;
}

/// Two to four as published, sometimes more.
int64_t conv_kernel(Draft& draft) {
  return draft.one_of({2, 3, 4, 4, 2, 3, 4, 8});
}

void add_dt_rank(Draft& draft, std::string_view name) {
  if (draft.between(0, 3) == 0) {
    draft.add_word(name, "auto");
  } else {
    draft.add(name, draft.between(1, 9));
  }
}

void add_eps(Draft& draft, std::string_view name) {
  if (draft.flip()) draft.add(name, draft.one_of({"1e-05", "1e-06", "0.001"}));
}

void add_common(Draft& draft, std::string_view model_type) {
  draft.add_word("model_type", model_type);
  draft.add("vocab_size", draft.between(3, 200));
  draft.add("eos_token_id", 0);
  draft.add_flag("tie_word_embeddings");
}

void add_silu(Draft& draft, std::string_view name) {
  draft.add_word(name, draft.one_of({"silu", "swish"}));
}

void mamba(Draft& draft) {
  const int64_t hidden = draft.add("hidden_size", draft.between(5, 90));
  // Falcon-Mamba's published config has both, and they disagree.
  if (draft.between(0, 2) > 0) draft.add("intermediate_size", draft.shared(3, 150));
  draft.add("expand", draft.between(1, std::max<int64_t>(1, 150 / hidden)));
  draft.add("state_size", state_size(draft));
  draft.add("conv_kernel", conv_kernel(draft));
  add_dt_rank(draft, "time_step_rank");
  draft.add("num_hidden_layers", draft.between(1, 3));
  draft.add_flag("use_bias");
  draft.add_flag("use_conv_bias");
  add_silu(draft, "hidden_act");
  add_eps(draft, "layer_norm_epsilon");
}

/// Infinity as Python writes it, and as transformers does.
std::string time_step_limit(Draft& draft) {
  const std::string high = draft.one_of({"0.5", "0.02", "Infinity", R"({"__float__": "Infinity"})"});
  return fmt::format("[{}, {}]", draft.one_of({"0.0", "0.001", "0.01"}), high);
}

void mamba2(Draft& draft) {
  // hidden_size x expand = num_heads x head_dim.
  const int64_t heads = draft.add("num_heads", draft.shared(1, 12));
  const int64_t head_dim = draft.add("head_dim", draft.between(1, 20));
  const int64_t expand = draft.add("expand", draft.divisor_of(heads * head_dim));
  draft.add("hidden_size", heads * head_dim / expand);
  draft.add("n_groups", draft.divisor_of(heads));
  draft.add("state_size", state_size(draft));
  draft.add("conv_kernel", conv_kernel(draft));
  draft.add("num_hidden_layers", draft.between(1, 3));
  draft.add_flag("use_bias");
  draft.add_flag("use_conv_bias");
  if (draft.flip()) draft.add("time_step_limit", time_step_limit(draft));
  draft.add("chunk_size", draft.between(3, 32));
  add_silu(draft, "hidden_act");
  add_eps(draft, "layer_norm_epsilon");
}

void state_spaces(Draft& draft, SplitMix64& random) {
  Draft mixer(random);
  const bool second = draft.flip();
  const int64_t head_dim = draft.between(1, 12);
  const int64_t heads = draft.shared(1, 8);
  const int64_t expand = mixer.add("expand", draft.between(1, 2));
  mixer.add_word("layer", second ? "Mamba2" : "Mamba1");
  if (second) {
    mixer.add("headdim", head_dim);
    mixer.add("ngroups", draft.divisor_of(heads * expand));
  } else {
    add_dt_rank(mixer, "dt_rank");
  }
  mixer.add("d_state", state_size(draft));
  mixer.add("d_conv", conv_kernel(draft));
  mixer.add_flag("bias");
  mixer.add_flag("conv_bias");
  draft.add("d_model", head_dim * heads);
  draft.add("n_layer", draft.between(1, 3));
  draft.add("vocab_size", draft.between(3, 150));
  draft.add("pad_vocab_size_multiple", draft.between(1, 16));
  draft.add_flag("tie_embeddings");
  for (const char* name : {"rms_norm", "residual_in_fp32", "fused_add_norm"})
    draft.add(name, true);
  draft.add_object("ssm_cfg", mixer);
}

void gguf(Draft& draft) {
  const bool second = draft.flip();
  const std::string prefix = second ? "mamba2." : "mamba.";
  const int64_t heads = draft.shared(1, 12);
  draft.add_word("model_type", "gguf");
  draft.add_word("general.architecture", second ? "mamba2" : "mamba");
  draft.add("rows of token_embd.weight", draft.between(3, 200));
  draft.add_flag("has output.weight");
  draft.add(prefix + "embedding_length", draft.between(5, 90));
  draft.add(prefix + "block_count", draft.between(1, 3));
  draft.add(prefix + "attention.layer_norm_rms_epsilon", draft.one_of({"1e-05", "1e-06", "0.001"}));
  draft.add(prefix + "ssm.state_size", state_size(draft));
  draft.add(prefix + "ssm.conv_kernel", conv_kernel(draft));
  draft.add(prefix + "ssm.inner_size", second ? heads * draft.between(1, 20) : draft.shared(3, 150));
  draft.add(prefix + "ssm.time_step_rank", second ? heads : draft.between(1, 9));
  if (second) draft.add(prefix + "ssm.group_count", draft.divisor_of(heads));
  if (!second) draft.add_flag("mamba.ssm.dt_b_c_rms");
  draft.add("eos_token_id", "[0]");
}

/// Attention over 2 H columns; returns H. `plain` heads share those evenly and have keys of their own, which adapters
/// need. transformers takes no Zamba2 whose heads cannot be halved, rotary or not: `even_heads`.
int64_t add_attention(Draft& draft, bool plain, bool even_heads) {
  const int64_t heads = draft.add("num_attention_heads", draft.shared(1, 6));
  const int64_t hidden =
      draft.add("hidden_size", heads * draft.between(1, 6) + (plain || draft.even() ? 0 : draft.between(0, 1)));
  draft.add("num_key_value_heads", plain ? heads : draft.divisor_of(heads));
  const bool odd = 2 * hidden / heads % 2 != 0;
  if (!plain && (draft.flip() || (even_heads && odd)))
    draft.add("attention_head_dim", even_heads ? 2 * draft.between(1, 8) : draft.between(1, 17));
  if (draft.flip()) draft.add("attention_hidden_size", 2 * hidden);
  draft.add("intermediate_size", draft.shared(3, 60));
  return hidden;
}

/// At least one layer is a hybrid, anywhere. Returns their places.
std::vector<int64_t> add_layers(Draft& draft, int64_t layers) {
  std::vector<std::string_view> types;
  std::vector<int64_t> hybrids;
  for (int64_t i = 0; i < layers; ++i) {
    const bool hybrid = draft.flip() || (i == layers - 1 && hybrids.empty());
    types.push_back(hybrid ? R"("hybrid")" : draft.one_of({R"("mamba")", R"("linear_attention")"}));
    if (hybrid) hybrids.push_back(i);
  }
  draft.add("num_hidden_layers", layers);
  draft.add("layers_block_type", fmt::format("[{}]", fmt::join(types, ", ")));
  return hybrids;
}

void zamba(Draft& draft) {
  const int64_t hidden = add_attention(draft, false, false);
  const int64_t expand = draft.add("mamba_expand", draft.between(1, 3));
  draft.add("n_mamba_heads", draft.divisor_of(expand * hidden));
  draft.add("mamba_d_state", state_size(draft));
  draft.add("mamba_d_conv", conv_kernel(draft));
  add_dt_rank(draft, "mamba_dt_rank");
  draft.add_flag("mamba_proj_bias");
  draft.add_flag("mamba_conv_bias");
  add_silu(draft, "hidden_mamba_act");
  add_eps(draft, "rms_norm_eps");
  if (draft.flip()) {
    add_layers(draft, draft.between(1, 4));
    return;
  }
  // Layer 2, and those of a period.
  draft.add("num_hidden_layers", draft.between(3, 6));
  draft.add("attn_layer_period", draft.between(1, 3));
  draft.add("attn_layer_offset", draft.between(0, 2));
}

void zamba2(Draft& draft) {
  const bool adapters = draft.add_flag("use_shared_attention_adapter");
  draft.add_flag("use_mem_rope");
  const int64_t hidden = add_attention(draft, adapters, true);
  const int64_t expand = draft.add("mamba_expand", draft.between(1, 3));
  const int64_t heads = draft.add("n_mamba_heads", draft.divisor_of(expand * hidden));
  if (draft.flip()) draft.add("mamba_headdim", expand * hidden / heads);
  draft.add("mamba_ngroups", draft.divisor_of(heads));
  draft.add("mamba_d_state", state_size(draft));
  draft.add("mamba_d_conv", conv_kernel(draft));
  draft.add("chunk_size", draft.between(3, 32));
  draft.add("num_mem_blocks", draft.between(1, 3));
  draft.add("adapter_rank", draft.between(1, 5));
  // Who wrote either of these meant the same; only the older one is heeded.
  if (draft.flip()) draft.add_flag(draft.one_of({"use_shared_mlp_adapter", "use_shared_block_lora"}));
  const std::string theta = draft.one_of({"10000.0", "300.0"});
  if (draft.flip()) {
    draft.add("rope_theta", theta);
  } else {
    draft.add("rope_parameters", fmt::format(R"({{"rope_theta": {}, "rope_type": "default"}})", theta));
  }
  if (draft.flip()) draft.add("time_step_min", draft.one_of({"0.001", "0.01", "0.1"}));
  draft.add_flag("use_conv_bias");
  add_eps(draft, "rms_norm_eps");
  const auto hybrids = add_layers(draft, draft.between(1, 5));
  if (draft.flip()) draft.add("hybrid_layer_ids", fmt::format("[{}]", fmt::join(hybrids, ", ")));
}

}  // namespace

std::string random_config(std::string_view architecture, SplitMix64& random) {
  Draft draft(random);
  if (architecture == "state_spaces") {
    state_spaces(draft, random);
    return draft.text();
  }
  if (architecture == "gguf") {
    gguf(draft);
    return draft.text();
  }
  add_common(draft, architecture);
  if (architecture == "mamba") {
    mamba(draft);
  } else if (architecture == "falcon_mamba") {
    mamba(draft);
    add_eps(draft, "mixer_rms_eps");
  } else if (architecture == "mamba2") {
    mamba2(draft);
  } else if (architecture == "zamba") {
    zamba(draft);
  } else if (architecture == "zamba2") {
    zamba2(draft);
  } else {
    throw std::runtime_error(fmt::format("random_config does not know {}: teach it", architecture));
  }
  return draft.text();
}

RandomModel write_random_model(const std::string& folder, std::string_view architecture, uint64_t seed) {
  SplitMix64 random(seed);
  RandomModel model;
  model.config_json = random_config(architecture, random);
  auto config = parse_model_config(model.config_json);
  if (!config.ok()) throw std::runtime_error(model.config_json + ": " + to_string(config.error()));
  model.config = *std::move(config);
  constexpr std::array kTypes{DType::kF32, DType::kBF16, DType::kF16};
  model.dtype = kTypes.at(random.below(kTypes.size()));
  model.files = 1 + static_cast<int>(random.below(3));
  const auto tensors = random_tensors(make_model_plan(model.config).value(), seed, model.dtype);
  write_checkpoint(folder, model.config_json, tensors, model.files);
  return model;
}

}  // namespace krait::test
