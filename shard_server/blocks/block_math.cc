#include "shard_server/blocks/block_math.h"

#include <algorithm>
#include <utility>

#include "common/base/units.h"
#include "kernels/conv/causal_conv1d.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"

namespace krait::shard {
namespace {

/// `prepared`: the rows of `a` prepared for these weights, or null.
void multiply(const BlockContext& context, const Rows& a, const kernels::PreparedRows* prepared, int64_t rows,
              const kernels::PackedMatrix& weights, const Rows& out, const float* bias, bool accumulate) {
  // Its failure is for finish to tell.
  if (context.sums_are_moving) static_cast<void>(context.communicator.progress());
  if (weights.n == 0) return;
  if (weights.k == 0) {
    CHECK(bias == nullptr);
    for (int64_t row = 0; row < rows && !accumulate; ++row)
      std::fill_n(out.data + row * out.stride, weights.n, 0.0f);
    return;
  }
  kernels::GemmArgs args;
  args.a = a.data;
  args.lda = a.stride;
  args.prepared = prepared;
  args.m = rows;
  args.weights = &weights;
  args.out = out.data;
  args.ldo = out.stride;
  args.accumulate = accumulate;
  args.bias = bias;
  args.workspace = context.gemm_workspace;
  kernels::gemm(context.stream, args);
}

}  // namespace

void product(const BlockContext& context, const Rows& a, int64_t rows, const kernels::PackedMatrix& weights,
             const Rows& out, const float* bias, bool accumulate) {
  multiply(context, a, nullptr, rows, weights, out, bias, accumulate);
}

void product(const BlockContext& context, const SharedRows& a, int64_t rows, const kernels::PackedMatrix& weights,
             const Rows& out, const float* bias, bool accumulate) {
  const bool fit = a.prepared.fit(weights);
  multiply(context, a.rows, fit ? &a.prepared : nullptr, rows, weights, out, bias, accumulate);
}

SharedRows share_rows(const BlockContext& context, const Rows& a, int64_t rows, const kernels::PackedMatrix& weights,
                      float* room) {
  const auto bytes = static_cast<size_t>(shared_floats(rows, weights)) * sizeof(float);
  return {a, kernels::prepare_rows(context.stream, a.data, a.stride, rows, weights,
                                   {reinterpret_cast<std::byte*>(room), bytes})};
}

int64_t shared_floats(int64_t max_rows, const kernels::PackedMatrix& weights) {
  return ceil_div(kernels::gemm_workspace_bytes(max_rows, weights.k, weights.dtype), int64_t{sizeof(float)});
}

int64_t product_workspace_bytes(int64_t max_rows, std::span<const kernels::PackedMatrix* const> matrices) {
  int64_t bytes = 0;
  for (const auto* matrix : matrices)
    bytes = std::max(bytes, kernels::gemm_workspace_bytes(max_rows, matrix->k, matrix->dtype));
  return bytes;
}

void mixer_input(const BlockContext& context, bool follows_shared, const float* norm, float eps, int64_t hidden,
                 int64_t rows, float* u) {
  const float* x = context.h;
  if (follows_shared) {
    kernels::add_rows(context.stream, context.side, hidden, context.h, hidden, rows, hidden);
    x = context.side;
  }
  kernels::rms_norm(context.stream, {.rows = rows,
                                     .width = hidden,
                                     .x = x,
                                     .x_stride = hidden,
                                     .weight = norm,
                                     .eps = eps,
                                     .out = u,
                                     .out_stride = hidden});
}

Status begin_hidden_sum(const BlockContext& context, const Rows& data, int64_t rows, int64_t exact_lanes) {
  if (context.communicator.world() == 1) return {};
  ASSIGN_OR_RETURN(context.sum.ticket, context.communicator.begin_all_reduce(rows, data.stride, data.data, data.data,
                                                                             {context.codec, exact_lanes}));
  return {};
}

Status finish_hidden_sum(const BlockContext& context) {
  const auto ticket = std::exchange(context.sum.ticket, std::nullopt);
  return ticket ? context.communicator.finish(*ticket) : Status{};
}

Status begin_residual_product(const BlockContext& context, const Rows& a, int64_t rows,
                              const kernels::PackedMatrix& weights, const float* bias) {
  if (context.communicator.world() == 1) {
    // The same additions in the same order, while the sums are still in registers.
    product(context, a, rows, weights, {context.h, weights.n}, bias, true);
    return {};
  }
  const Rows delta{context.sum.rows, weights.n};
  product(context, a, rows, weights, delta);
  return begin_hidden_sum(context, delta, rows);
}

Status finish_residual_product(const BlockContext& context, const float* bias, int64_t hidden, int64_t rows) {
  if (context.communicator.world() == 1) return {};
  RETURN_IF_ERROR(finish_hidden_sum(context));
  add_to_residual(context, {context.sum.rows, hidden}, bias, hidden, rows);
  return {};
}

void add_to_residual(const BlockContext& context, const Rows& delta, const float* bias, int64_t hidden, int64_t rows) {
  if (bias != nullptr) kernels::add_rows(context.stream, delta.data, delta.stride, bias, 0, rows, hidden);
  kernels::add_rows(context.stream, context.h, hidden, delta.data, delta.stride, rows, hidden);
}

void convolve(const BlockContext& context, const Batch& batch, const Rows& x, const Convolution& conv) {
  kernels::CausalConv1dArgs args;
  args.channels = x.stride;
  args.kernel = conv.taps;
  args.x = args.out = x.data;
  args.x_stride = args.out_stride = x.stride;
  args.weight = conv.weight;
  args.bias = conv.bias;
  args.state = context.states.base() + conv.state_offset;
  args.slot_stride = context.states.slot_stride();
  args.runs = batch.runs;
  args.taps = batch.taps;
  kernels::causal_conv1d(context.stream, args);
}

Status load_conv_taps(WeightLoader& loader, const TensorSpec& spec, int64_t taps, std::span<const int64_t> places,
                      int64_t first, int64_t columns, float* out) {
  ASSIGN_OR_RETURN(const auto by_channel, loader.values(spec));
  const auto channels = static_cast<int64_t>(by_channel.size()) / taps;
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t at = first + (places.empty() ? c : places[static_cast<size_t>(c)]);
    CHECK_LT(at, columns);
    for (int64_t j = 0; j < taps; ++j)
      out[j * columns + at] = by_channel[static_cast<size_t>(c * taps + j)];
  }
  return {};
}

void export_conv(const float* state, int64_t taps, int64_t columns, std::span<const int64_t> places, int64_t first,
                 int64_t channels, float* out) {
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t at = first + (places.empty() ? c : places[static_cast<size_t>(c)]);
    for (int64_t j = 0; j < taps; ++j)
      out[c * taps + j] = state[j * columns + at];
  }
}

}  // namespace krait::shard
