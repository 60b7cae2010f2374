#include "tests/support/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace krait::test {
namespace {

class Sizes final {
 public:
  explicit Sizes(SplitMix64& random) : random_(random), even_(random.below(2) == 0) {}

  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low + 1)));
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
  const char* flag() { return random_.below(2) == 0 ? "true" : "false"; }

  std::string common() {
    return fmt::format(R"("vocab_size": {}, "eos_token_id": 0, "tie_word_embeddings": {})", between(3, 200), flag());
  }
  /// At least one layer of each kind.
  std::string layer_types(int64_t layers) {
    std::vector<std::string> types;
    for (int64_t i = 0; i < layers; ++i)
      types.emplace_back(i == 1 || (i > 1 && random_.below(2) == 0) ? "\"hybrid\"" : "\"mamba\"");
    return fmt::format(R"("num_hidden_layers": {}, "layers_block_type": [{}])", layers, fmt::join(types, ", "));
  }

 private:
  SplitMix64& random_;
  bool even_;
};

std::string mamba(Sizes& sizes, std::string_view type) {
  return fmt::format(
      R"({{"model_type": "{}", "hidden_size": {}, "intermediate_size": {}, "state_size": {}, "time_step_rank": {},
          "conv_kernel": {}, "num_hidden_layers": {}, "use_bias": {}, "use_conv_bias": {}, "hidden_act": "silu",
          "layer_norm_epsilon": 1e-5, {}}})",
      type, sizes.between(5, 90), sizes.shared(3, 150), sizes.between(1, 20), sizes.between(1, 9), sizes.between(2, 4),
      sizes.between(1, 3), sizes.flag(), sizes.flag(), sizes.common());
}

std::string mamba2(Sizes& sizes) {
  // hidden_size x expand = num_heads x head_dim.
  const int64_t heads = sizes.shared(1, 12);
  const int64_t head_dim = sizes.between(1, 20);
  const int64_t expand = sizes.divisor_of(heads * head_dim);
  return fmt::format(
      R"({{"model_type": "mamba2", "hidden_size": {}, "expand": {}, "num_heads": {}, "head_dim": {}, "n_groups": {},
          "state_size": {}, "conv_kernel": {}, "num_hidden_layers": {}, "use_bias": {}, "use_conv_bias": {},
          "time_step_limit": [0.001, 0.5], "hidden_act": "silu", "layer_norm_epsilon": 1e-5, {}}})",
      heads * head_dim / expand, expand, heads, head_dim, sizes.divisor_of(heads), sizes.between(1, 20),
      sizes.between(2, 4), sizes.between(1, 3), sizes.flag(), sizes.flag(), sizes.common());
}

std::string state_spaces(Sizes& sizes) {
  const bool second = sizes.between(0, 1) == 1;
  const int64_t head_dim = sizes.between(1, 12);
  const int64_t hidden = head_dim * sizes.shared(1, 8);
  const std::string mixer = second ? fmt::format(R"("layer": "Mamba2", "headdim": {}, "ngroups": 1)", head_dim)
                                   : fmt::format(R"("layer": "Mamba1", "dt_rank": {})", sizes.between(1, 9));
  return fmt::format(
      R"({{"d_model": {}, "n_layer": {}, "vocab_size": {}, "pad_vocab_size_multiple": {}, "rms_norm": true,
          "residual_in_fp32": true, "fused_add_norm": true, "tie_embeddings": {},
          "ssm_cfg": {{{}, "d_state": {}, "d_conv": {}, "expand": {}, "conv_bias": {}}}}})",
      hidden, sizes.between(1, 3), sizes.between(3, 150), sizes.between(1, 16), sizes.flag(), mixer,
      sizes.between(1, 20), sizes.between(2, 4), sizes.between(1, 2), sizes.flag());
}

/// Attention runs over 2 H columns: heads that divide H.
struct Attention final {
  explicit Attention(Sizes& sizes) : heads(sizes.shared(1, 6)), hidden(heads * sizes.between(1, 6)) {}
  std::string text(Sizes& sizes) const {
    return fmt::format(R"("num_attention_heads": {}, "num_key_value_heads": {}, "intermediate_size": {})", heads,
                       sizes.divisor_of(heads), sizes.shared(3, 60));
  }
  int64_t heads, hidden;
};

std::string zamba(Sizes& sizes) {
  const Attention attention(sizes);
  const int64_t expand = sizes.between(1, 3);
  return fmt::format(
      R"({{"model_type": "zamba", "hidden_size": {}, "mamba_expand": {}, "n_mamba_heads": {}, "mamba_d_state": {},
          "mamba_d_conv": {}, "mamba_dt_rank": {}, "mamba_proj_bias": {}, "mamba_conv_bias": {}, {}, {}, {}}})",
      attention.hidden, expand, sizes.divisor_of(expand * attention.hidden), sizes.between(1, 20), sizes.between(2, 4),
      sizes.between(1, 9), sizes.flag(), sizes.flag(), attention.text(sizes), sizes.layer_types(sizes.between(2, 4)),
      sizes.common());
}

std::string zamba2(Sizes& sizes) {
  const Attention attention(sizes);
  const int64_t expand = sizes.between(1, 3);
  const int64_t heads = sizes.divisor_of(expand * attention.hidden);
  return fmt::format(
      R"({{"model_type": "zamba2", "hidden_size": {}, "mamba_expand": {}, "n_mamba_heads": {}, "mamba_headdim": {},
          "mamba_ngroups": {}, "mamba_d_state": {}, "mamba_d_conv": {}, "num_mem_blocks": {}, "adapter_rank": {},
          "use_shared_attention_adapter": {}, "use_mem_rope": {}, "rope_theta": 10000.0, {}, {}, {}}})",
      attention.hidden, expand, heads, expand * attention.hidden / heads, sizes.divisor_of(heads), sizes.between(1, 20),
      sizes.between(2, 4), sizes.between(1, 2), sizes.between(1, 5), sizes.flag(), sizes.flag(), attention.text(sizes),
      sizes.layer_types(sizes.between(2, 5)), sizes.common());
}

}  // namespace

std::string random_config(std::string_view architecture, SplitMix64& random) {
  Sizes sizes(random);
  if (architecture == "mamba" || architecture == "falcon_mamba") return mamba(sizes, architecture);
  if (architecture == "mamba2") return mamba2(sizes);
  if (architecture == "state_spaces") return state_spaces(sizes);
  if (architecture == "zamba") return zamba(sizes);
  if (architecture == "zamba2") return zamba2(sizes);
  throw std::runtime_error(fmt::format("random_config does not know {}: teach it", architecture));
}

}  // namespace krait::test
