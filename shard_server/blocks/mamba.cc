// The Mamba-1 block on one rank's channels: h += out_proj(scan(conv(in_proj(norm(h))))) with two sums over ranks.
//
//   u = rms_norm(h)                                     every rank, whole
//   x = silu(conv(in_proj_x u)), z = in_proj_z u        C channels a rank
//   [dt | B | C] = sum over ranks of x_proj x           R + 2N a row: fp32, hidden behind in_proj_z
//   y = scan(x, softplus(dt_proj dt + bias), B, C) * silu(z)
//   h += sum over ranks of out_proj y                   H a row
#include <algorithm>
#include <cmath>

#include "kernels/conv/causal_conv1d.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"
#include "kernels/scan/selective_scan.h"
#include "shard_server/blocks/block.h"

namespace krait::shard {
namespace {

using kernels::PackedMatrix;

/// H, C = this rank's channels, C16 = C padded to blocks of 16. Null pointers: the model has no such bias.
struct MambaWeights final {
  float* norm = nullptr;              // [H]
  PackedMatrix in_proj_x, in_proj_z;  // [C16][H]
  float* in_proj_x_bias = nullptr;    // [C16]
  float* in_proj_z_bias = nullptr;    // [C16]
  float* conv = nullptr;              // [K][C16]
  float* conv_bias = nullptr;         // [C16]
  PackedMatrix x_proj;                // [R + 2N][C]
  PackedMatrix dt_proj;               // [C16][R]
  float* dt_bias = nullptr;           // [C16]
  float* a = nullptr;                 // [C16 / 16][N][16]
  float* d = nullptr;                 // [C16]
  PackedMatrix out_proj;              // [H][C]
  float* out_proj_bias = nullptr;     // [H]
};

class MambaBlock final : public Block {
 public:
  MambaBlock(const ModelConfig& config, int64_t channels, const MambaWeights& weights, const LayerState& state)
      : hidden_(config.hidden_size),
        channels_(channels),
        padded_(kernels::padded_channels(channels)),
        state_size_(config.state_size),
        dt_rank_(config.dt_rank),
        conv_kernel_(config.conv_kernel),
        norm_eps_(config.norm_eps),
        w_(weights),
        state_(state) {}

  BlockNeeds needs(int64_t max_rows) const override;
  Status forward(const BlockContext& context, const Batch& batch) const override;

 private:
  int64_t x_proj_width() const { return dt_rank_ + 2 * state_size_; }
  void product(const BlockContext& context, const float* a, int64_t lda, int64_t rows, const PackedMatrix& weights,
               const float* bias, float* out) const;
  void convolve(const BlockContext& context, const Batch& batch, float* x) const;
  void scan(const BlockContext& context, const Batch& batch, const float* x, const float* z, const float* dt_b_c,
            float* dt_and_y) const;

  const int64_t hidden_, channels_, padded_, state_size_, dt_rank_, conv_kernel_;
  const float norm_eps_;
  const MambaWeights w_;
  const LayerState state_;
};

BlockNeeds MambaBlock::needs(int64_t max_rows) const {
  BlockNeeds needs;
  needs.scratch_bytes = 2 * Scratch::bytes_of(max_rows * hidden_) + 3 * Scratch::bytes_of(max_rows * padded_) +
                        Scratch::bytes_of(max_rows * x_proj_width());
  for (const auto* matrix : {&w_.in_proj_x, &w_.x_proj, &w_.dt_proj, &w_.out_proj}) {
    needs.gemm_workspace_bytes =
        std::max(needs.gemm_workspace_bytes, kernels::gemm_workspace_bytes(max_rows, matrix->k, matrix->dtype));
  }
  return needs;
}

void MambaBlock::product(const BlockContext& context, const float* a, int64_t lda, int64_t rows,
                         const PackedMatrix& weights, const float* bias, float* out) const {
  if (weights.n == 0) return;
  if (weights.k == 0) {  // A rank without channels adds nothing.
    std::fill_n(out, rows * weights.n, 0.0f);
    return;
  }
  kernels::GemmArgs args;
  args.a = a;
  args.lda = lda;
  args.m = rows;
  args.weights = &weights;
  args.out = out;
  args.ldo = weights.n;
  args.bias = bias;
  args.workspace = context.gemm_workspace;
  kernels::gemm(context.stream, args);
}

void MambaBlock::convolve(const BlockContext& context, const Batch& batch, float* x) const {
  if (padded_ == 0) return;
  kernels::CausalConv1dArgs args;
  args.channels = padded_;
  args.kernel = conv_kernel_;
  args.x = args.out = x;
  args.x_stride = args.out_stride = padded_;
  args.weight = w_.conv;
  args.bias = w_.conv_bias;
  args.state = context.states.base() + state_.conv_offset;
  args.slot_stride = context.states.slot_stride();
  args.runs = batch.runs;
  args.taps = batch.taps;
  kernels::causal_conv1d(context.stream, args);
}

void MambaBlock::scan(const BlockContext& context, const Batch& batch, const float* x, const float* z,
                      const float* dt_b_c, float* dt_and_y) const {
  if (padded_ == 0) return;
  kernels::SelectiveScanArgs args;
  args.channels = padded_;
  args.state_size = state_size_;
  args.x = x;
  args.z = z;
  args.dt_raw = dt_and_y;
  args.x_stride = args.z_stride = args.dt_stride = padded_;
  args.dt_bias = w_.dt_bias;
  args.b = dt_b_c + dt_rank_;
  args.c = dt_b_c + dt_rank_ + state_size_;
  args.b_stride = args.c_stride = x_proj_width();
  args.a = w_.a;
  args.d = w_.d;
  args.state = context.states.base() + state_.ssm_offset;
  args.slot_stride = context.states.slot_stride();
  args.out = dt_and_y;
  args.out_stride = padded_;
  args.runs = batch.runs;
  args.taps = batch.taps;
  kernels::selective_scan(context.stream, args);
}

Status MambaBlock::forward(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  Scratch scratch(context.scratch);
  float* u = scratch.floats(rows * hidden_);
  float* delta = scratch.floats(rows * hidden_);
  float* x = scratch.floats(rows * padded_);
  float* z = scratch.floats(rows * padded_);
  float* dt = scratch.floats(rows * padded_);
  float* dt_b_c = scratch.floats(rows * x_proj_width());

  kernels::rms_norm(context.stream, {.rows = rows,
                                     .width = hidden_,
                                     .x = context.h,
                                     .x_stride = hidden_,
                                     .weight = w_.norm,
                                     .eps = norm_eps_,
                                     .out = u,
                                     .out_stride = hidden_});
  product(context, u, hidden_, rows, w_.in_proj_x, w_.in_proj_x_bias, x);
  convolve(context, batch, x);
  product(context, x, padded_, rows, w_.x_proj, nullptr, dt_b_c);
  ASSIGN_OR_RETURN(const auto small_sum, context.communicator.begin_all_reduce(rows, x_proj_width(), dt_b_c, dt_b_c));
  product(context, u, hidden_, rows, w_.in_proj_z, w_.in_proj_z_bias, z);
  RETURN_IF_ERROR(context.communicator.finish(small_sum));
  product(context, dt_b_c, x_proj_width(), rows, w_.dt_proj, nullptr, dt);
  scan(context, batch, x, z, dt_b_c, dt);
  product(context, dt, padded_, rows, w_.out_proj, nullptr, delta);
  RETURN_IF_ERROR(context.communicator.all_reduce(rows, hidden_, delta, delta));
  if (w_.out_proj_bias != nullptr)
    kernels::add_rows(context.stream, delta, hidden_, w_.out_proj_bias, 0, rows, hidden_);
  kernels::add_rows(context.stream, context.h, hidden_, delta, hidden_, rows, hidden_);
  return {};
}

/// conv1d.weight [C, 1, K] as [K][C16].
Result<float*> load_conv(WeightLoader& loader, const TensorSpec& spec, int64_t channels, int64_t padded, int64_t taps) {
  ASSIGN_OR_RETURN(const auto by_channel, loader.values(spec));
  ASSIGN_OR_RETURN(float* by_tap, loader.floats(taps * padded));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < taps; ++j)
      by_tap[j * padded + c] = by_channel[static_cast<size_t>(c * taps + j)];
  }
  return by_tap;
}

/// a = -exp(A_log), blocked. In double, so that the float32 result does not hang on one library's rounding.
Result<float*> load_a(WeightLoader& loader, const TensorSpec& spec, int64_t channels, int64_t state_size) {
  ASSIGN_OR_RETURN(auto plain, loader.values(spec));
  for (float& value : plain)
    value = static_cast<float>(-std::exp(double{value}));
  ASSIGN_OR_RETURN(float* blocked, loader.floats(kernels::padded_channels(channels) * state_size));
  kernels::to_blocked(plain.data(), channels, state_size, blocked);
  return blocked;
}

Result<MambaWeights> load_weights(const BlockSource& source) {
  auto& loader = source.loader;
  const ModelConfig& config = source.config;
  const int64_t channels = loader.channels().size();
  const int64_t padded = kernels::padded_channels(channels);
  const int leaves = loader.partition().leaves();
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  MambaWeights w;
  ASSIGN_OR_RETURN(w.norm, loader.vector(spec("norm.weight"), config.hidden_size));
  const TensorSpec& in_proj = spec("in_proj.weight");
  ASSIGN_OR_RETURN(w.in_proj_x, loader.matrix(in_proj, 1, 0, channels, padded));
  ASSIGN_OR_RETURN(w.in_proj_z, loader.matrix(in_proj, 1, channels, channels, padded));
  if (const auto* bias = source.plan.find("in_proj.bias"); bias != nullptr) {
    ASSIGN_OR_RETURN(w.in_proj_x_bias, loader.vector(*bias, padded, 0, channels));
    ASSIGN_OR_RETURN(w.in_proj_z_bias, loader.vector(*bias, padded, channels, channels));
  }
  ASSIGN_OR_RETURN(w.conv, load_conv(loader, spec("conv1d.weight"), channels, padded, config.conv_kernel));
  if (const auto* bias = source.plan.find("conv1d.bias"); bias != nullptr) {
    ASSIGN_OR_RETURN(w.conv_bias, loader.vector(*bias, padded));
  }
  ASSIGN_OR_RETURN(w.x_proj, loader.matrix(spec("x_proj.weight"), leaves));
  ASSIGN_OR_RETURN(w.dt_proj, loader.matrix(spec("dt_proj.weight"), 1, 0, channels, padded));
  ASSIGN_OR_RETURN(w.dt_bias, loader.vector(spec("dt_proj.bias"), padded));
  ASSIGN_OR_RETURN(w.a, load_a(loader, spec("A_log"), channels, config.state_size));
  ASSIGN_OR_RETURN(w.d, loader.vector(spec("D"), padded));
  ASSIGN_OR_RETURN(w.out_proj, loader.matrix(spec("out_proj.weight"), leaves));
  if (const auto* bias = source.plan.find("out_proj.bias"); bias != nullptr) {
    ASSIGN_OR_RETURN(w.out_proj_bias, loader.vector(*bias, config.hidden_size));
  }
  return w;
}

}  // namespace

Result<std::unique_ptr<Block>> make_mamba_block(const BlockSource& source) {
  ASSIGN_OR_RETURN(const MambaWeights weights, load_weights(source));
  const ModelConfig& config = source.config;
  const int64_t channels = source.loader.channels().size();
  const int64_t padded = kernels::padded_channels(channels);
  const auto state = source.states.reserve((config.conv_kernel - 1) * padded, padded * config.state_size);
  return std::unique_ptr<Block>(std::make_unique<MambaBlock>(config, channels, weights, state));
}

}  // namespace krait::shard
