// The Mamba-1 block on one rank's channels: h += out_proj(scan(conv(in_proj(norm(h))))) with at most two sums over
// ranks.
//
//   u = rms_norm(h)                                     every rank, whole
//   x = silu(conv(in_proj_x u)), z = in_proj_z u        C channels a rank
//   [dt | B | C] = sum over ranks of x_proj x           R + 2N a row and head: fp32, hidden behind in_proj_z
//   y = scan(x, softplus(dt_proj dt + bias), B, C) * silu(z)
//   h += sum over ranks of out_proj y                   H a row
//
// A mixer of several heads (Zamba) has an x_proj and a dt_proj for each. A head that one rank holds needs no sum of its
// [dt | B | C]; one that some ranks share is summed among them. Falcon-Mamba norms dt, B and C, each for itself.
#include <algorithm>
#include <numbers>

#include "kernels/norm/rms_norm.h"
#include "kernels/scan/selective_scan.h"
#include "shard_server/blocks/block_math.h"
#include "shard_server/blocks/channel_layout.h"

namespace krait::shard {
namespace {

using kernels::PackedMatrix;

/// H, C = this rank's channels, P = their padded layout, P16 = one part's. Null pointers: the model has no such bias.
struct MambaWeights final {
  float* norm = nullptr;              // [H]
  PackedMatrix in_proj_x, in_proj_z;  // [P][H]
  float* in_proj_x_bias = nullptr;    // [P]
  float* in_proj_z_bias = nullptr;    // [P]
  float* conv = nullptr;              // [K][P]
  float* conv_bias = nullptr;         // [P]
  std::vector<PackedMatrix> x_proj;   // of each part: [R + 2N][its channels]
  std::vector<PackedMatrix> dt_proj;  // of each part: [P16][R]
  float* dt_bias = nullptr;           // [P]
  float* a = nullptr;                 // [P / 16][N][16]
  float* d = nullptr;                 // [P]
  const float* out_scale = nullptr;   // [P], or null
  PackedMatrix out_proj;              // [H][C]
  float* out_proj_bias = nullptr;     // [H]
};

class MambaBlock final : public Block {
 public:
  MambaBlock(const BlockSource& source, ChannelLayout layout, MambaWeights weights, const LayerState& state)
      : layer_(source.plan.layer),
        range_(source.loader.range(Unit::kChannel)),
        hidden_(source.config.hidden_size),
        norm_eps_(source.config.norm_eps),
        mixer_(source.config.mixer),
        follows_shared_(source.plan.follows_shared),
        head_sum_(part_sum(source.config, source.loader.partition(), Unit::kChannel)),
        layout_(std::move(layout)),
        w_(std::move(weights)),
        state_(state) {}

  BlockNeeds needs(int64_t max_rows) const override;
  Status start(const BlockContext& context, const Batch& batch) const override;
  Status complete(const BlockContext& context, const Batch& batch) const override;
  void export_state(const SlotState& slot, WholeState& whole) const override;

 private:
  int64_t head_width() const { return mixer_.dt_rank + 2 * mixer_.state_size; }
  /// Floats of a row of [dt | B | C]: of all heads where every rank adds, else of this rank's own.
  int64_t dt_b_c_width() const {
    return head_width() *
           (head_sum_ == PartSum::kEveryRank ? mixer_.heads : static_cast<int64_t>(layout_.parts().size()));
  }
  int64_t dt_b_c_column(size_t part) const {
    const int64_t head = head_sum_ == PartSum::kEveryRank ? layout_.parts()[part].piece : static_cast<int64_t>(part);
    return head * head_width();
  }
  void project_heads(const BlockContext& context, int64_t rows, const Rows& x, const Rows& dt_b_c) const;
  void norm_heads(const BlockContext& context, int64_t rows, const Rows& dt_b_c) const;
  void scan(const BlockContext& context, const Batch& batch, size_t index, const Rows& x, const Rows& z,
            const Rows& dt_b_c, const Rows& dt_and_y) const;

  const int layer_;
  const Range range_;
  const int64_t hidden_;
  const float norm_eps_;
  const MixerConfig mixer_;
  const bool follows_shared_;
  const PartSum head_sum_;  // of a head's [dt | B | C]
  const ChannelLayout layout_;
  const MambaWeights w_;
  const LayerState state_;
};

BlockNeeds MambaBlock::needs(int64_t max_rows) const {
  BlockNeeds needs;
  needs.sum_width = hidden_;
  needs.scratch_bytes = Scratch::bytes_of(max_rows * hidden_) + 3 * Scratch::bytes_of(max_rows * layout_.padded()) +
                        Scratch::bytes_of(max_rows * dt_b_c_width()) +
                        Scratch::bytes_of(shared_floats(max_rows, w_.in_proj_x));
  std::vector<const PackedMatrix*> matrices{&w_.in_proj_x, &w_.out_proj};
  for (size_t part = 0; part < layout_.parts().size(); ++part) {
    matrices.push_back(&w_.x_proj[part]);
    matrices.push_back(&w_.dt_proj[part]);
  }
  needs.gemm_workspace_bytes = product_workspace_bytes(max_rows, matrices);
  return needs;
}

void MambaBlock::project_heads(const BlockContext& context, int64_t rows, const Rows& x, const Rows& dt_b_c) const {
  const auto& parts = layout_.parts();
  // Heads that this rank has no part of, it adds nothing to.
  if (head_sum_ == PartSum::kEveryRank && static_cast<int64_t>(parts.size()) < mixer_.heads) {
    std::fill_n(dt_b_c.data, rows * dt_b_c.stride, 0.0f);
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    product(context, x.from(parts[part].offset), rows, w_.x_proj[part], dt_b_c.from(dt_b_c_column(part)));
  }
}

void MambaBlock::norm_heads(const BlockContext& context, int64_t rows, const Rows& dt_b_c) const {
  if (!mixer_.dt_b_c_norm_eps) return;
  for (size_t part = 0; part < layout_.parts().size(); ++part) {
    int64_t column = dt_b_c_column(part);
    for (const int64_t width : {mixer_.dt_rank, mixer_.state_size, mixer_.state_size}) {
      float* x = dt_b_c.data + column;
      kernels::rms_norm(context.stream, {.rows = rows,
                                         .width = width,
                                         .x = x,
                                         .x_stride = dt_b_c.stride,
                                         .eps = *mixer_.dt_b_c_norm_eps,
                                         .out = x,
                                         .out_stride = dt_b_c.stride});
      column += width;
    }
  }
}

void MambaBlock::scan(const BlockContext& context, const Batch& batch, size_t index, const Rows& x, const Rows& z,
                      const Rows& dt_b_c, const Rows& dt_and_y) const {
  const ChannelPart& part = layout_.parts()[index];
  const Rows head = dt_b_c.from(dt_b_c_column(index));
  const Rows dt = dt_and_y.from(part.offset);
  product(context, head, batch.rows(), w_.dt_proj[index], dt);
  kernels::SelectiveScanArgs args;
  args.channels = part.padded();
  args.state_size = mixer_.state_size;
  args.x = x.data + part.offset;
  args.z = z.data + part.offset;
  args.dt_raw = dt.data;
  args.x_stride = args.z_stride = args.dt_stride = layout_.padded();
  args.dt_bias = w_.dt_bias + part.offset;
  args.b = head.data + mixer_.dt_rank;
  args.c = args.b + mixer_.state_size;
  args.b_stride = args.c_stride = head.stride;
  args.a = w_.a + part.offset * mixer_.state_size;
  args.d = w_.d + part.offset;
  if (w_.out_scale != nullptr) args.out_scale = w_.out_scale + part.offset;
  args.state = context.states.base() + state_.ssm_offset + part.offset * mixer_.state_size;
  args.slot_stride = context.states.slot_stride();
  args.out = dt.data;
  args.out_stride = layout_.padded();
  args.runs = batch.runs;
  args.taps = batch.taps;
  kernels::selective_scan(context.stream, args);
}

Status MambaBlock::start(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  const int64_t padded = layout_.padded();
  Scratch scratch(context.scratch);
  const Rows u{scratch.floats(rows * hidden_), hidden_};
  const Rows x{scratch.floats(rows * padded), padded};
  const Rows z{scratch.floats(rows * padded), padded};
  const Rows y{scratch.floats(rows * padded), padded};
  const Rows dt_b_c{scratch.floats(rows * dt_b_c_width()), dt_b_c_width()};
  float* const room = scratch.floats(shared_floats(rows, w_.in_proj_x));

  mixer_input(context, follows_shared_, w_.norm, norm_eps_, hidden_, rows, u.data);
  const SharedRows input = share_rows(context, u, rows, w_.in_proj_x, room);
  product(context, input, rows, w_.in_proj_x, x, w_.in_proj_x_bias);
  if (padded > 0) convolve(context, batch, x, {mixer_.conv_kernel, w_.conv, w_.conv_bias, state_.conv_offset});
  project_heads(context, rows, x, dt_b_c);
  collectives::Communicator& adders =
      head_sum_ == PartSum::kSubGroup ? *context.sub_communicator : context.small_communicator;
  collectives::Ticket small_sum;
  if (head_sum_ != PartSum::kNobody) {
    ASSIGN_OR_RETURN(small_sum, adders.begin_all_reduce(rows, dt_b_c.stride, dt_b_c.data, dt_b_c.data));
  }
  product(context, input, rows, w_.in_proj_z, z, w_.in_proj_z_bias);
  if (head_sum_ != PartSum::kNobody) RETURN_IF_ERROR(adders.finish(small_sum));
  norm_heads(context, rows, dt_b_c);
  for (size_t part = 0; part < layout_.parts().size(); ++part)
    scan(context, batch, part, x, z, dt_b_c, y);
  layout_.compact(context.stream, y.data, rows);
  return begin_residual_product(context, y, rows, w_.out_proj, w_.out_proj_bias);
}

Status MambaBlock::complete(const BlockContext& context, const Batch& batch) const {
  return finish_residual_product(context, w_.out_proj_bias, hidden_, batch.rows());
}

void MambaBlock::export_state(const SlotState& slot, WholeState& whole) const {
  const int64_t taps = mixer_.conv_kernel - 1;
  WholeLayerState& layer = whole.layer(layer_);
  layer.conv.resize(static_cast<size_t>(mixer_.inner_size * taps));
  layer.ssm.resize(static_cast<size_t>(mixer_.inner_size * mixer_.state_size));
  const float* base = slot.state;
  export_conv(base + state_.conv_offset, taps, layout_.padded(), layout_.places(), 0, range_.size(),
              layer.conv.data() + range_.begin * taps);
  layout_.unblock(base + state_.ssm_offset, mixer_.state_size, layer.ssm.data() + range_.begin * mixer_.state_size);
}

/// A / ln 2, blocked. Its float32 value does not hang on whether the file has A or its logarithm.
Result<float*> load_a(const BlockSource& source, const ChannelLayout& layout) {
  WeightLoader& loader = source.loader;
  const int64_t state_size = source.config.mixer.state_size;
  ASSIGN_OR_RETURN(auto plain, loader.decays(source.plan));
  for (float& value : plain)
    value = static_cast<float>(value * std::numbers::log2e);
  ASSIGN_OR_RETURN(float* blocked, loader.floats(layout.padded() * state_size));
  for (const ChannelPart& part : layout.parts()) {
    kernels::to_blocked(plain.data() + part.first * state_size, part.channels, state_size,
                        blocked + part.offset * state_size);
  }
  return blocked;
}

Status load_channels(const BlockSource& source, const ChannelLayout& layout, MambaWeights& w) {
  auto& loader = source.loader;
  const int64_t padded = layout.padded();
  const std::span<const int64_t> places = layout.places();
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  ASSIGN_OR_RETURN(const auto norm, loader.norm(spec("norm.weight"), source.config.hidden_size, 1));
  w.norm = norm.weight;
  const MatrixRows rows{.columns = padded, .factors = norm.factors, .places = places};
  ASSIGN_OR_RETURN(w.in_proj_x, loader.matrix(spec("in_proj_x.weight"), 1, rows));
  ASSIGN_OR_RETURN(w.in_proj_z, loader.matrix(spec("in_proj_z.weight"), 1, rows));
  if (source.config.mixer.use_bias) {
    ASSIGN_OR_RETURN(w.in_proj_x_bias, loader.vector(spec("in_proj_x.bias"), padded, places));
    ASSIGN_OR_RETURN(w.in_proj_z_bias, loader.vector(spec("in_proj_z.bias"), padded, places));
  }
  const int64_t taps = source.config.mixer.conv_kernel;
  ASSIGN_OR_RETURN(w.conv, loader.floats(taps * padded));
  RETURN_IF_ERROR(load_conv_taps(loader, spec("conv1d.weight"), taps, places, 0, padded, w.conv));
  if (source.config.mixer.use_conv_bias) {
    ASSIGN_OR_RETURN(w.conv_bias, loader.vector(spec("conv1d.bias"), padded, places));
  }
  ASSIGN_OR_RETURN(w.dt_bias, loader.vector(spec("dt_proj.bias"), padded, places));
  ASSIGN_OR_RETURN(w.a, load_a(source, layout));
  return {};
}

Result<MambaWeights> load_weights(const BlockSource& source, const ChannelLayout& layout) {
  auto& loader = source.loader;
  const Partition& partition = loader.partition();
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  MambaWeights w;
  RETURN_IF_ERROR(load_channels(source, layout, w));
  for (const ChannelPart& part : layout.parts()) {
    const std::string role = fmt::format("x_proj.{}.weight", part.piece);
    ASSIGN_OR_RETURN(auto x_proj, loader.matrix(spec(role), partition.leaves_of_part(source.config.mixer.heads)));
    w.x_proj.push_back(x_proj);
    const MatrixRows rows{.first = part.first, .count = part.channels, .columns = part.padded()};
    ASSIGN_OR_RETURN(auto dt_proj, loader.matrix(spec("dt_proj.weight"), 1, rows));
    w.dt_proj.push_back(dt_proj);
  }
  ASSIGN_OR_RETURN(const auto skip, loader.skip(spec("D"), layout.padded(), partition.leaves(), layout.places()));
  w.d = skip.weight;
  w.out_scale = skip.out_scale;
  ASSIGN_OR_RETURN(w.out_proj, loader.matrix(spec("out_proj.weight"), partition.leaves(), {.factors = skip.factors}));
  if (source.config.mixer.use_bias) {
    ASSIGN_OR_RETURN(w.out_proj_bias, loader.vector(spec("out_proj.bias"), source.config.hidden_size));
  }
  return w;
}

}  // namespace

Result<std::unique_ptr<Block>> make_mamba_block(const BlockSource& source) {
  const MixerConfig& mixer = source.config.mixer;
  ChannelLayout layout(source.loader.range(Unit::kChannel), mixer.inner_size, mixer.heads);
  ASSIGN_OR_RETURN(MambaWeights weights, load_weights(source, layout));
  const auto state =
      source.states.reserve((mixer.conv_kernel - 1) * layout.padded(), layout.padded() * mixer.state_size);
  return std::unique_ptr<Block>(std::make_unique<MambaBlock>(source, std::move(layout), std::move(weights), state));
}

}  // namespace krait::shard
