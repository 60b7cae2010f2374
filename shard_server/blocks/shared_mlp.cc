// The MLP of a hybrid's shared transformer on one rank's channels, with one sum over ranks, and the layer's own linear:
//
//   u = rms_norm(side)                                  every rank, whole
//   g = gelu(gate_proj u) * (up_proj u)                 plus this layer's low-rank adapters
//   side = linear (sum over ranks of down_proj g)       H a row; linear on every rank, whole
#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/gelu_gate.h"
#include "shard_server/blocks/block_math.h"

namespace krait::shard {
namespace {

using kernels::PackedMatrix;

struct MlpWeights final {
  float* norm = nullptr;                      // [H]
  PackedMatrix gate_proj, up_proj;            // [F][H]
  PackedMatrix adapter_a;                     // [r][H], or empty
  PackedMatrix gate_adapter_b, up_adapter_b;  // [F][r], or empty
  PackedMatrix down_proj;                     // [H][F]
  PackedMatrix linear;                        // [H][H]
};

class SharedMlpBlock final : public Block {
 public:
  SharedMlpBlock(const ModelConfig& config, const MlpWeights& weights)
      : hidden_(config.hidden_size), norm_eps_(config.shared.norm_eps), w_(weights) {}

  BlockNeeds needs(int64_t max_rows) const override;
  Status start(const BlockContext& context, const Batch& batch) const override;
  Status complete(const BlockContext& context, const Batch& batch) const override;

 private:
  const int64_t hidden_;
  const float norm_eps_;
  const MlpWeights w_;
};

BlockNeeds SharedMlpBlock::needs(int64_t max_rows) const {
  BlockNeeds needs;
  needs.sum_width = hidden_;
  for (const int64_t width : {hidden_, w_.adapter_a.n, w_.gate_proj.n, w_.up_proj.n})
    needs.scratch_bytes += Scratch::bytes_of(max_rows * width);
  needs.scratch_bytes += Scratch::bytes_of(shared_floats(max_rows, w_.gate_proj));
  const std::vector<const PackedMatrix*> matrices{&w_.gate_proj, &w_.adapter_a, &w_.gate_adapter_b, &w_.down_proj,
                                                  &w_.linear};
  needs.gemm_workspace_bytes = product_workspace_bytes(max_rows, matrices);
  needs.side_rows = true;
  return needs;
}

Status SharedMlpBlock::start(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  Scratch scratch(context.scratch);
  const auto buffer = [&](int64_t width) { return Rows{scratch.floats(rows * width), width}; };
  const Rows u = buffer(hidden_);
  const Rows low = buffer(w_.adapter_a.n);
  const Rows gate = buffer(w_.gate_proj.n);
  const Rows up = buffer(w_.up_proj.n);
  const Rows side{context.side, hidden_};
  float* const room = scratch.floats(shared_floats(rows, w_.gate_proj));
  kernels::rms_norm(context.stream, {.rows = rows,
                                     .width = hidden_,
                                     .x = side.data,
                                     .x_stride = hidden_,
                                     .weight = w_.norm,
                                     .eps = norm_eps_,
                                     .out = u.data,
                                     .out_stride = hidden_});
  const SharedRows input = share_rows(context, u, rows, w_.gate_proj, room);
  product(context, input, rows, w_.gate_proj, gate);
  product(context, input, rows, w_.up_proj, up);
  if (w_.adapter_a.n > 0) {
    product(context, input, rows, w_.adapter_a, low);
    product(context, low, rows, w_.gate_adapter_b, gate, nullptr, true);
    product(context, low, rows, w_.up_adapter_b, up, nullptr, true);
  }
  kernels::gelu_gate(context.stream,
                     {.rows = rows, .width = gate.stride, .gate = gate.data, .up = up.data, .stride = gate.stride});
  const Rows down{context.sum.rows, hidden_};
  product(context, gate, rows, w_.down_proj, down);
  return begin_hidden_sum(context, down, rows);
}

Status SharedMlpBlock::complete(const BlockContext& context, const Batch& batch) const {
  RETURN_IF_ERROR(finish_hidden_sum(context));
  product(context, Rows{context.sum.rows, hidden_}, batch.rows(), w_.linear, {context.side, hidden_});
  return {};
}

}  // namespace

Result<std::unique_ptr<Block>> make_shared_mlp_block(const BlockSource& source) {
  auto& loader = source.loader;
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  MlpWeights w;
  ASSIGN_OR_RETURN(const auto norm, loader.norm(spec("norm.weight"), source.config.hidden_size, 1));
  w.norm = norm.weight;
  const MatrixRows normed{.factors = norm.factors};
  ASSIGN_OR_RETURN(w.gate_proj, loader.matrix(spec("gate_proj.weight"), 1, normed));
  ASSIGN_OR_RETURN(w.up_proj, loader.matrix(spec("up_proj.weight"), 1, normed));
  if (source.config.shared.mlp_adapters) {
    ASSIGN_OR_RETURN(w.adapter_a, loader.matrix(spec("adapter_a.weight"), 1, normed));
    ASSIGN_OR_RETURN(w.gate_adapter_b, loader.matrix(spec("gate_adapter_b.weight"), 1));
    ASSIGN_OR_RETURN(w.up_adapter_b, loader.matrix(spec("up_adapter_b.weight"), 1));
  }
  ASSIGN_OR_RETURN(w.down_proj, loader.matrix(spec("down_proj.weight"), loader.partition().leaves()));
  ASSIGN_OR_RETURN(w.linear, loader.matrix(spec("linear.weight"), 1));
  return std::unique_ptr<Block>(std::make_unique<SharedMlpBlock>(source.config, w));
}

}  // namespace krait::shard
