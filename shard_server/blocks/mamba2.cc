// The Mamba-2 block on one rank's heads: h += out_proj(gated_norm(scan(conv(in_proj(norm(h)))))), one sum over ranks
// where B and C have one group, at most one small one more.
//
//   u = rms_norm(h)                                     every rank, whole
//   [x | B | C] = silu(conv([x | B | C] of in_proj u))  C channels a rank, and the groups that they use
//   v = scan(x, dt, B, C) * silu(z)                     dt = clamp(softplus(in_proj_dt u + bias))
//   v = v / rms(v of its group) * weight
//   h += sum over ranks of out_proj v                   H a row
//
// With one group the norm's sum of squares goes over all ranks. It is one number a row, so that it commutes with
// out_proj: it rides as a lane of the out_proj sum and divides afterwards. With more groups it is needed before
// out_proj, and only where ranks share a group.
#include <algorithm>

#include "kernels/norm/gated_norm.h"
#include "kernels/scan/head_scan.h"
#include "shard_server/blocks/block_math.h"
#include "shard_server/blocks/channel_layout.h"

namespace krait::shard {
namespace {

using kernels::PackedMatrix;

/// H, C = this rank's channels, P = their padded layout, Q = P + its groups' B and C. Null: the model has no such bias.
struct Mamba2Weights final {
  float* norm = nullptr;              // [H]
  PackedMatrix in_proj_z, in_proj_x;  // [P][H]
  PackedMatrix in_proj_b, in_proj_c;  // [groups * N][H]
  PackedMatrix in_proj_dt;            // [heads][H]
  float* in_proj_z_bias = nullptr;    // [P]
  float* in_proj_xbc_bias = nullptr;  // [Q]
  float* in_proj_dt_bias = nullptr;   // [heads]
  float* conv = nullptr;              // [K][Q]
  float* conv_bias = nullptr;         // [Q]
  float* dt_bias = nullptr;           // [heads]
  float* a = nullptr;                 // [heads]
  float* d = nullptr;                 // [P]
  std::vector<int32_t> head_of;       // [P]: among this rank's heads
  float* gate_norm = nullptr;         // [P]
  PackedMatrix out_proj;              // [H][C]
  float* out_proj_bias = nullptr;     // [H]
};

/// What one rank holds of the mixer, and where it lies in the rows of the conv's buffer: [x | B | C].
struct Mamba2Shape final {
  Mamba2Shape(const ModelConfig& config, const Partition& partition, int rank)
      : mixer(config.mixer),
        head_dim(mixer.inner_size / mixer.heads),
        heads(partition.range(Unit::kHead, rank)),
        groups(cover(partition, Unit::kHead, rank, mixer.groups)),
        layout({heads.begin * head_dim, heads.end * head_dim}, mixer.inner_size, mixer.groups) {}

  int64_t shared() const { return groups.size() * mixer.state_size; }
  int64_t padded_shared() const { return kernels::padded_channels(shared()); }
  int64_t b_column() const { return layout.padded(); }
  int64_t c_column() const { return b_column() + padded_shared(); }
  int64_t conv_width() const { return c_column() + padded_shared(); }

  const MixerConfig mixer;
  const int64_t head_dim;
  const Range heads;
  const Range groups;
  const ChannelLayout layout;
};

class Mamba2Block final : public Block {
 public:
  Mamba2Block(const BlockSource& source, const Mamba2Shape& shape, Mamba2Weights weights, const LayerState& state)
      : layer_(source.plan.layer),
        hidden_(source.config.hidden_size),
        norm_eps_(source.config.norm_eps),
        follows_shared_(source.plan.follows_shared),
        one_group_(source.config.mixer.groups == 1),
        norm_sum_(part_sum(source.config, source.loader.partition(), Unit::kHead)),
        part_leaves_(source.loader.partition().leaves_of_part(source.config.mixer.groups)),
        shape_(shape),
        w_(std::move(weights)),
        state_(state) {}

  BlockNeeds needs(int64_t max_rows) const override;
  Status start(const BlockContext& context, const Batch& batch) const override;
  Status complete(const BlockContext& context, const Batch& batch) const override;
  void export_state(const SlotState& slot, WholeState& whole) const override;

 private:
  /// A row of the out_proj sum: with one group, the norm's sum of squares after it.
  int64_t delta_width() const { return hidden_ + (one_group_ ? 1 : 0); }
  /// Sums of squares of a row: of all groups where every rank adds, else of this rank's own.
  int64_t sums_width() const { return norm_sum_ == PartSum::kEveryRank ? shape_.mixer.groups : shape_.groups.size(); }
  int64_t sums_column(const ChannelPart& part) const {
    return norm_sum_ == PartSum::kEveryRank ? part.piece : part.piece - shape_.groups.begin;
  }
  void scan(const BlockContext& context, const Batch& batch, const Rows& xbc, const Rows& z, const Rows& dt,
            const Rows& decay) const;
  void square(const BlockContext& context, int64_t rows, const Rows& v, const float* weight, const Rows& sums) const;
  Status norm_groups(const BlockContext& context, int64_t rows, const Rows& v, const Rows& sums) const;

  const int layer_;
  const int64_t hidden_;
  const float norm_eps_;
  const bool follows_shared_;
  const bool one_group_;    // the sum of squares rides as a lane of the out_proj sum
  const PartSum norm_sum_;  // else: of a group's sum of squares
  const int part_leaves_;
  const Mamba2Shape shape_;
  const Mamba2Weights w_;
  const LayerState state_;
};

BlockNeeds Mamba2Block::needs(int64_t max_rows) const {
  BlockNeeds needs;
  needs.sum_width = delta_width();
  for (const int64_t width :
       {hidden_, shape_.layout.padded(), shape_.conv_width(), shape_.heads.size(), shape_.heads.size(), sums_width()}) {
    needs.scratch_bytes += Scratch::bytes_of(max_rows * width);
  }
  needs.scratch_bytes += Scratch::bytes_of(shared_floats(max_rows, w_.in_proj_x));
  const std::vector<const PackedMatrix*> matrices{&w_.in_proj_z, &w_.in_proj_x,  &w_.in_proj_b,
                                                  &w_.in_proj_c, &w_.in_proj_dt, &w_.out_proj};
  needs.gemm_workspace_bytes = product_workspace_bytes(max_rows, matrices);
  return needs;
}

void Mamba2Block::scan(const BlockContext& context, const Batch& batch, const Rows& xbc, const Rows& z, const Rows& dt,
                       const Rows& decay) const {
  kernels::head_steps(context.stream, {.rows = batch.rows(),
                                       .heads = shape_.heads.size(),
                                       .dt = dt.data,
                                       .dt_stride = dt.stride,
                                       .decay = decay.data,
                                       .decay_stride = decay.stride,
                                       .dt_bias = w_.dt_bias,
                                       .a = w_.a,
                                       .dt_min = shape_.mixer.dt_min,
                                       .dt_max = shape_.mixer.dt_max});
  const int64_t state_size = shape_.mixer.state_size;
  for (const ChannelPart& part : shape_.layout.parts()) {
    kernels::HeadScanArgs args;
    args.channels = part.padded();
    args.state_size = state_size;
    args.x = xbc.data + part.offset;
    args.x_stride = xbc.stride;
    args.z = z.data + part.offset;
    args.z_stride = args.out_stride = z.stride;
    args.dt = dt.data;
    args.decay = decay.data;
    args.step_stride = dt.stride;
    args.head_of = w_.head_of.data() + part.offset;
    args.b = xbc.data + shape_.b_column() + (part.piece - shape_.groups.begin) * state_size;
    args.c = args.b + (shape_.c_column() - shape_.b_column());
    args.b_stride = args.c_stride = xbc.stride;
    args.d = w_.d + part.offset;
    args.state = context.states.base() + state_.ssm_offset + part.offset * state_size;
    args.slot_stride = context.states.slot_stride();
    args.out = z.data + part.offset;
    args.runs = batch.runs;
    args.taps = batch.taps;
    kernels::head_scan(context.stream, args);
  }
}

void Mamba2Block::square(const BlockContext& context, int64_t rows, const Rows& v, const float* weight,
                         const Rows& sums) const {
  for (const ChannelPart& part : shape_.layout.parts()) {
    kernels::SumSquaresArgs args;
    args.rows = rows;
    args.width = part.channels;
    args.leaves = part_leaves_;
    args.x = v.data + part.offset;
    args.x_stride = v.stride;
    args.weight = weight == nullptr ? nullptr : weight + part.offset;
    args.sums = sums.data + (one_group_ ? 0 : sums_column(part));
    args.sum_stride = sums.stride;
    kernels::sum_squares(context.stream, args);
  }
}

Status Mamba2Block::norm_groups(const BlockContext& context, int64_t rows, const Rows& v, const Rows& sums) const {
  if (norm_sum_ == PartSum::kEveryRank) std::fill_n(sums.data, rows * sums.stride, 0.0f);
  square(context, rows, v, nullptr, sums);
  if (norm_sum_ != PartSum::kNobody) {
    auto& adders = norm_sum_ == PartSum::kSubGroup ? *context.sub_communicator : context.small_communicator;
    RETURN_IF_ERROR(adders.all_reduce(rows, sums.stride, sums.data, sums.data));
  }
  for (const ChannelPart& part : shape_.layout.parts()) {
    kernels::ScaleByRootMeanArgs args;
    args.rows = rows;
    args.width = part.channels;
    args.x = v.data + part.offset;
    args.x_stride = v.stride;
    args.sums = sums.data + sums_column(part);
    args.sum_stride = sums.stride;
    args.count = shape_.mixer.inner_size / shape_.mixer.groups;
    args.eps = shape_.mixer.gate_norm_eps;
    args.weight = w_.gate_norm + part.offset;
    kernels::scale_by_root_mean(context.stream, args);
  }
  return {};
}

Status Mamba2Block::start(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  Scratch scratch(context.scratch);
  const auto buffer = [&](int64_t width) { return Rows{scratch.floats(rows * width), width}; };
  const Rows u = buffer(hidden_);
  const Rows delta{context.sum.rows, delta_width()};
  const Rows z = buffer(shape_.layout.padded());
  const Rows xbc = buffer(shape_.conv_width());
  const Rows dt = buffer(shape_.heads.size());
  const Rows decay = buffer(shape_.heads.size());
  const Rows sums = one_group_ ? delta.from(hidden_) : buffer(sums_width());
  float* const room = scratch.floats(shared_floats(rows, w_.in_proj_x));
  const float* xbc_bias = w_.in_proj_xbc_bias;
  const auto bias_from = [&](int64_t column) { return xbc_bias == nullptr ? nullptr : xbc_bias + column; };

  mixer_input(context, follows_shared_, w_.norm, norm_eps_, hidden_, rows, u.data);
  if (shape_.heads.size() > 0) {
    const SharedRows input = share_rows(context, u, rows, w_.in_proj_x, room);
    product(context, input, rows, w_.in_proj_x, xbc, bias_from(0));
    product(context, input, rows, w_.in_proj_b, xbc.from(shape_.b_column()), bias_from(shape_.b_column()));
    product(context, input, rows, w_.in_proj_c, xbc.from(shape_.c_column()), bias_from(shape_.c_column()));
    product(context, input, rows, w_.in_proj_dt, dt, w_.in_proj_dt_bias);
    product(context, input, rows, w_.in_proj_z, z, w_.in_proj_z_bias);
    convolve(context, batch, xbc, {shape_.mixer.conv_kernel, w_.conv, w_.conv_bias, state_.conv_offset});
    scan(context, batch, xbc, z, dt, decay);
  }
  if (one_group_) {
    if (shape_.heads.size() == 0) std::fill_n(delta.data, rows * delta.stride, 0.0f);
    square(context, rows, z, w_.gate_norm, sums);
  } else {
    RETURN_IF_ERROR(norm_groups(context, rows, z, sums));
  }
  shape_.layout.compact(context.stream, z.data, rows);
  if (!one_group_) return begin_residual_product(context, z, rows, w_.out_proj, w_.out_proj_bias);
  product(context, z, rows, w_.out_proj, delta);
  return begin_hidden_sum(context, delta, rows, delta.stride - hidden_);
}

Status Mamba2Block::complete(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  if (!one_group_) return finish_residual_product(context, w_.out_proj_bias, hidden_, rows);
  RETURN_IF_ERROR(finish_hidden_sum(context));
  const Rows delta{context.sum.rows, delta_width()};
  kernels::scale_by_root_mean(context.stream, {.rows = rows,
                                               .width = hidden_,
                                               .x = delta.data,
                                               .x_stride = delta.stride,
                                               .sums = delta.data + hidden_,
                                               .sum_stride = delta.stride,
                                               .count = shape_.mixer.inner_size,
                                               .eps = shape_.mixer.gate_norm_eps});
  add_to_residual(context, delta, w_.out_proj_bias, hidden_, rows);
  return {};
}

void Mamba2Block::export_state(const SlotState& slot, WholeState& whole) const {
  const MixerConfig& mixer = shape_.mixer;
  const int64_t taps = mixer.conv_kernel - 1;
  const int64_t all_shared = mixer.groups * mixer.state_size;
  const int64_t channel = shape_.heads.begin * shape_.head_dim;
  WholeLayerState& layer = whole.layer(layer_);
  layer.conv.resize(static_cast<size_t>((mixer.inner_size + 2 * all_shared) * taps));
  layer.ssm.resize(static_cast<size_t>(mixer.inner_size * mixer.state_size));
  const float* base = slot.state;
  const auto conv = [&](std::span<const int64_t> places, int64_t first, int64_t channels, int64_t to) {
    export_conv(base + state_.conv_offset, taps, shape_.conv_width(), places, first, channels,
                layer.conv.data() + to * taps);
  };
  const int64_t group = mixer.inner_size + shape_.groups.begin * mixer.state_size;
  conv(shape_.layout.places(), 0, shape_.layout.channels(), channel);
  conv({}, shape_.b_column(), shape_.shared(), group);
  conv({}, shape_.c_column(), shape_.shared(), group + all_shared);
  shape_.layout.unblock(base + state_.ssm_offset, mixer.state_size, layer.ssm.data() + channel * mixer.state_size);
}

/// The three views of a packed [x; B; C], each with the place of its elements in a row of the conv's buffer.
template <class Visit>
Status for_xbc(const BlockSource& source, const Mamba2Shape& shape, std::string_view tensor, std::string_view kind,
               const Visit& visit) {
  const auto spec = [&](char part) -> const TensorSpec& {
    return tensor_of(source.plan, fmt::format("{}_{}.{}", tensor, part, kind));
  };
  RETURN_IF_ERROR(visit(spec('x'), std::span<const int64_t>(shape.layout.places()), int64_t{0}));
  RETURN_IF_ERROR(visit(spec('b'), std::span<const int64_t>(), shape.b_column()));
  return visit(spec('c'), std::span<const int64_t>(), shape.c_column());
}

Result<float*> load_xbc_vector(const BlockSource& source, const Mamba2Shape& shape, std::string_view tensor) {
  ASSIGN_OR_RETURN(float* out, source.loader.floats(shape.conv_width()));
  RETURN_IF_ERROR(for_xbc(source, shape, tensor, "bias",
                          [&](const TensorSpec& spec, std::span<const int64_t> places, int64_t first) {
                            return load_conv_taps(source.loader, spec, 1, places, first, shape.conv_width(), out);
                          }));
  return out;
}

Status load_in_proj(const BlockSource& source, const Mamba2Shape& shape, Mamba2Weights& w) {
  auto& loader = source.loader;
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  const std::span<const int64_t> places = shape.layout.places();
  ASSIGN_OR_RETURN(const auto norm, loader.norm(spec("norm.weight"), source.config.hidden_size, 1));
  w.norm = norm.weight;
  const MatrixRows rows{.columns = shape.layout.padded(), .factors = norm.factors, .places = places};
  const MatrixRows shared{.columns = shape.padded_shared(), .factors = norm.factors};
  ASSIGN_OR_RETURN(w.in_proj_z, loader.matrix(spec("in_proj_z.weight"), 1, rows));
  ASSIGN_OR_RETURN(w.in_proj_x, loader.matrix(spec("in_proj_x.weight"), 1, rows));
  ASSIGN_OR_RETURN(w.in_proj_b, loader.matrix(spec("in_proj_b.weight"), 1, shared));
  ASSIGN_OR_RETURN(w.in_proj_c, loader.matrix(spec("in_proj_c.weight"), 1, shared));
  ASSIGN_OR_RETURN(w.in_proj_dt, loader.matrix(spec("in_proj_dt.weight"), 1, {.factors = norm.factors}));
  if (!source.config.mixer.use_bias) return {};
  ASSIGN_OR_RETURN(w.in_proj_z_bias, loader.vector(spec("in_proj_z.bias"), shape.layout.padded(), places));
  ASSIGN_OR_RETURN(w.in_proj_dt_bias, loader.vector(spec("in_proj_dt.bias"), shape.heads.size()));
  ASSIGN_OR_RETURN(w.in_proj_xbc_bias, load_xbc_vector(source, shape, "in_proj"));
  return {};
}

Status load_conv(const BlockSource& source, const Mamba2Shape& shape, Mamba2Weights& w) {
  const int64_t taps = source.config.mixer.conv_kernel;
  ASSIGN_OR_RETURN(w.conv, source.loader.floats(taps * shape.conv_width()));
  RETURN_IF_ERROR(for_xbc(source, shape, "conv1d", "weight",
                          [&](const TensorSpec& spec, std::span<const int64_t> places, int64_t first) {
                            return load_conv_taps(source.loader, spec, taps, places, first, shape.conv_width(), w.conv);
                          }));
  if (source.config.mixer.use_conv_bias) {
    ASSIGN_OR_RETURN(w.conv_bias, load_xbc_vector(source, shape, "conv1d"));
  }
  return {};
}

/// dt_bias, A, and D of each channel's head.
Status load_heads(const BlockSource& source, const Mamba2Shape& shape, Mamba2Weights& w) {
  auto& loader = source.loader;
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  ASSIGN_OR_RETURN(w.dt_bias, loader.vector(spec("dt_bias"), shape.heads.size()));
  ASSIGN_OR_RETURN(const auto a, loader.decays(source.plan));
  ASSIGN_OR_RETURN(w.a, loader.floats(shape.heads.size()));
  std::copy(a.begin(), a.end(), w.a);
  ASSIGN_OR_RETURN(const auto d, loader.values(spec("D")));
  ASSIGN_OR_RETURN(w.d, loader.floats(shape.layout.padded()));
  w.head_of.assign(static_cast<size_t>(shape.layout.padded()), 0);
  for (const ChannelPart& part : shape.layout.parts()) {
    for (int64_t lane = 0; lane < part.padded(); ++lane) {
      // Padded lanes go on with the last head, so that a block of one head stays one.
      const int64_t channel = part.first + std::min(lane, part.channels - 1);
      const int64_t head = channel / shape.head_dim;
      w.head_of[static_cast<size_t>(part.offset + lane)] = static_cast<int32_t>(head);
      if (lane < part.channels) w.d[part.offset + lane] = d[static_cast<size_t>(head)];
    }
  }
  return {};
}

Result<Mamba2Weights> load_weights(const BlockSource& source, const Mamba2Shape& shape) {
  auto& loader = source.loader;
  const auto spec = [&](std::string_view role) -> const TensorSpec& { return tensor_of(source.plan, role); };
  Mamba2Weights w;
  RETURN_IF_ERROR(load_in_proj(source, shape, w));
  RETURN_IF_ERROR(load_conv(source, shape, w));
  RETURN_IF_ERROR(load_heads(source, shape, w));
  const int leaves = loader.partition().leaves();
  ASSIGN_OR_RETURN(const auto gate_norm,
                   loader.norm(spec("gate_norm.weight"), shape.layout.padded(), leaves, shape.layout.places()));
  w.gate_norm = gate_norm.weight;
  ASSIGN_OR_RETURN(w.out_proj, loader.matrix(spec("out_proj.weight"), leaves, {.factors = gate_norm.factors}));
  if (source.config.mixer.use_bias) {
    ASSIGN_OR_RETURN(w.out_proj_bias, loader.vector(spec("out_proj.bias"), source.config.hidden_size));
  }
  return w;
}

}  // namespace

Result<std::unique_ptr<Block>> make_mamba2_block(const BlockSource& source) {
  const Mamba2Shape shape(source.config, source.loader.partition(), source.loader.rank());
  ASSIGN_OR_RETURN(Mamba2Weights weights, load_weights(source, shape));
  const auto state = source.states.reserve((shape.mixer.conv_kernel - 1) * shape.conv_width(),
                                           shape.layout.padded() * shape.mixer.state_size);
  return std::unique_ptr<Block>(std::make_unique<Mamba2Block>(source, shape, std::move(weights), state));
}

}  // namespace krait::shard
