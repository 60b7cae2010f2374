// A model as a list of blocks with their tensors: all that loader and engine need to know about an architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/model_config.h"
#include "common/model/tensor_spec.h"

namespace krait {

enum class BlockKind : uint8_t {
  kEmbedding,  // roles: embedding.weight [V, H]
  kMamba,      // roles: norm.weight [H]; in_proj_x.weight, in_proj_z.weight [I, H] and .bias? [I];
               // conv1d.weight [I, 1, K], conv1d.bias? [I]; x_proj.J.weight [R + 2N, I / heads] for each head J;
               // dt_proj.weight [I, R], dt_proj.bias [I]; A_log [I, N], or A = -exp(A_log); D [I];
               // out_proj.weight [H, I], out_proj.bias? [H] (whole on every rank: add it after the sum)
  kMamba2,  // roles: norm.weight [H]; in_proj_P.weight and .bias? for P = z, x [I, H], b, c [G * N, H], dt [heads, H];
            // conv1d_P.weight [.., 1, K] and .bias? for P = x, b, c; dt_bias, A_log (or A), D [heads]; gate_norm.weight
            // [I]; out_proj.weight [H, I], out_proj.bias? [H]
  kSharedAttention,  // roles: norm.weight [2H]; q_proj.weight [heads * D, 2H], k_proj.weight, v_proj.weight
                     // [kv_heads * D, 2H]; P_adapter_a.weight? [r, 2H] and P_adapter_b.weight? for P = q, k, v;
                     // o_proj.weight [H, heads * D]
  kSharedMlp,        // roles: norm.weight [H]; gate_proj.weight, up_proj.weight [F, H]; adapter_a.weight? [r, H],
               // gate_adapter_b.weight?, up_adapter_b.weight? [F, r]; down_proj.weight [H, F]; linear.weight [H, H]
  kLmHead,  // roles: norm.weight [H]; lm_head.weight [V, H], cut by vocabulary
};

/// "embedding", "mamba", "mamba2", "shared_attention", "shared_mlp", "lm_head".
std::string_view block_kind_name(BlockKind kind);

struct BlockPlan final {
  BlockKind kind = BlockKind::kEmbedding;
  int layer = -1;               // index among the model's layers; -1 for embedding and lm_head
  bool follows_shared = false;  // a mixer whose input is the residual stream plus the shared transformer's output
  std::vector<TensorSpec> tensors;

  /// The tensor of that role, or nullptr: roles with "?" above are present only where the config says so.
  const TensorSpec* find(std::string_view role) const;
};

struct ModelPlan final {
  ModelConfig config;
  std::vector<BlockPlan> blocks;  // in the order of the forward pass
  /// Names that a checkpoint may hold without being read (a stored copy of a tied lm_head).
  std::vector<std::string> harmless_tensors;
};

/// The plan of a parsed config. Error: kUnsupported for an architecture that architectures.def does not have.
Result<ModelPlan> make_model_plan(const ModelConfig& config);

}  // namespace krait
