// What blocks do alike: products with packed weights, the mixer's input, the way back to the residual stream.
#pragma once

#include <cstdint>
#include <span>

#include "shard_server/blocks/block.h"

namespace krait::shard {

/// Rows of floats, `stride` apart.
struct Rows final {
  float* data = nullptr;
  int64_t stride = 0;

  Rows from(int64_t column) const { return {data + column, stride}; }
};

/// out[rows][n] = a[rows][k] weights^T + bias, or added to what `out` holds. A matrix without rows gives nothing, one
/// without columns zeros: a rank without channels adds nothing to a sum.
void product(const BlockContext& context, const Rows& a, int64_t rows, const kernels::PackedMatrix& weights,
             const Rows& out, const float* bias = nullptr, bool accumulate = false);

/// Rows that several products read: rounded or quantized once for all of them whose weights are of one type.
struct SharedRows final {
  Rows rows;
  kernels::PreparedRows prepared;
};

/// Prepares `a`, which stays as it is, for products with `weights` and their like. `room` is of shared_floats().
SharedRows share_rows(const BlockContext& context, const Rows& a, int64_t rows, const kernels::PackedMatrix& weights,
                      float* room);
int64_t shared_floats(int64_t max_rows, const kernels::PackedMatrix& weights);

void product(const BlockContext& context, const SharedRows& a, int64_t rows, const kernels::PackedMatrix& weights,
             const Rows& out, const float* bias = nullptr, bool accumulate = false);

/// The workspace that the hungriest of these products needs.
int64_t product_workspace_bytes(int64_t max_rows, std::span<const kernels::PackedMatrix* const> matrices);

/// u[rows][H] = rms_norm(h), or of h + side after a shared transformer (which is then used up).
void mixer_input(const BlockContext& context, bool follows_shared, const float* norm, float eps, int64_t hidden,
                 int64_t rows, float* u);

/// Begins data[rows][stride] = its sum over all ranks, whose parts travel as the group's codec for hidden sums has it,
/// but for the last `exact_lanes` of a row; a rank alone has it already.
Status begin_hidden_sum(const BlockContext& context, const Rows& data, int64_t rows, int64_t exact_lanes = 0);
/// Waits for it, if there is one.
Status finish_hidden_sum(const BlockContext& context);

/// The end of a block's start, and its complete: h += sum over ranks of (a weights^T) + bias. The sum has [rows][H].
Status begin_residual_product(const BlockContext& context, const Rows& a, int64_t rows,
                              const kernels::PackedMatrix& weights, const float* bias);
Status finish_residual_product(const BlockContext& context, const float* bias, int64_t hidden, int64_t rows);

/// h += delta + bias, H columns.
void add_to_residual(const BlockContext& context, const Rows& delta, const float* bias, int64_t hidden, int64_t rows);

/// A mixer's convolution over whole rows, in place, from and to the slots of the batch's runs.
struct Convolution final {
  int64_t taps = 0;               // K
  const float* weight = nullptr;  // [K][width of a row]
  const float* bias = nullptr;    // [width], or null
  int64_t state_offset = 0;       // of conv_state within a slot
};
void convolve(const BlockContext& context, const Batch& batch, const Rows& x, const Convolution& conv);

/// conv1d.weight [C, 1, K] of a rank's channels as [K][columns]: channel c at first + c, or at first + places[c] where
/// there are places. A vector is of one tap.
Status load_conv_taps(WeightLoader& loader, const TensorSpec& spec, int64_t taps, std::span<const int64_t> places,
                      int64_t first, int64_t columns, float* out);

/// A slot's conv_state [taps][columns], at those columns, as rows of [channels][taps].
void export_conv(const float* state, int64_t taps, int64_t columns, std::span<const int64_t> places, int64_t first,
                 int64_t channels, float* out);

}  // namespace krait::shard
