// Brings one rank's slices of the weights from the checkpoint to the device, in the form in which kernels read them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/model_plan.h"
#include "common/model/partition.h"
#include "common/weights/checkpoint.h"
#include "kernels/device/arena.h"
#include "kernels/device/stream.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::shard {

/// Which local rows of a matrix are packed, and where. Rows are columns of the product.
struct MatrixRows final {
  int64_t first = 0;
  int64_t count = -1;               // -1: all from `first` on
  int64_t columns = -1;             // laid out, those without a row zero; -1: `count`
  std::span<const float> factors;   // of each k, for every row alike; empty: none (norm())
  std::span<const int64_t> places;  // the column of each packed row; empty: one after another
};

/// The type in which a matrix of such a spec is packed, in a run whose weights have type `dtype`.
DType packed_type(const TensorSpec& spec, DType dtype);

/// Bytes that a rank will keep of one tensor, as a block that reads it for itself keeps it.
int64_t kept_bytes(const TensorSpec& spec, const Partition& partition, int rank, DType dtype);

/// Bytes that a rank will keep of a model's tensors, but for the few that pad channels. The embedding stays in its
/// file.
int64_t kept_bytes(const ModelPlan& plan, const Partition& partition, int rank, DType dtype);

/// A norm's weights, and what the matrices that read its rows have to make up for (smoothing.h).
struct LoadedNorm final {
  float* weight = nullptr;     // [padded]
  std::vector<float> factors;  // of each k of those matrices, for MatrixRows; empty: none
};

/// D of a mixer's channels, and what of it the matrix that reads their outputs has to make up for (smoothing.h).
struct LoadedSkip final {
  float* weight = nullptr;           // [padded]: D as it is
  const float* out_scale = nullptr;  // [padded]: to multiply the outputs by; null: all are 1
  std::vector<float> factors;        // of each k of that matrix, for MatrixRows; empty: none
};

/// Reads a row at a time and converts on the way, so that a rank's peak is what it keeps, plus a row of each thread.
/// Matrices and vectors live in the arena; the stream's threads share the rows of a matrix.
class WeightLoader final {
 public:
  /// `dtype` is the type of packed matrices, as weight_type_name() knows them; vectors are always float32.
  WeightLoader(const Checkpoint& checkpoint, const Partition& partition, int rank, DType dtype, kernels::Arena& arena,
               kernels::Stream& stream)
      : checkpoint_(checkpoint), partition_(partition), rank_(rank), dtype_(dtype), arena_(arena), stream_(stream) {}

  int rank() const { return rank_; }
  const Partition& partition() const { return partition_; }
  Range range(Unit unit) const { return partition_.range(unit, rank_); }

  /// A rank's matrix, packed; its k is the local row length, cut into `leaves`. A tensor that several layers share is
  /// packed once: who asks for it again gets the same memory.
  Result<kernels::PackedMatrix> matrix(const TensorSpec& spec, int leaves, const MatrixRows& wanted = {});

  /// A rank's vector, float32: element i at places[i] of `padded`, zeros elsewhere. No places: one after another.
  Result<float*> vector(const TensorSpec& spec, int64_t padded, std::span<const int64_t> places = {});

  /// A norm's weights, laid out as vector() does. In quantized types what stands out of its group is moved into the
  /// matrices; their k is cut into `leaves`.
  Result<LoadedNorm> norm(const TensorSpec& spec, int64_t padded, int leaves, std::span<const int64_t> places = {});

  /// D of a mixer, laid out as vector() does. In quantized types a channel whose D stands out of its group gives
  /// smaller outputs and the columns of out_proj, whose k is cut into `leaves`, make up for it.
  Result<LoadedSkip> skip(const TensorSpec& spec, int64_t padded, int leaves, std::span<const int64_t> places = {});

  /// A whole local tensor, float32 row-major, not in the arena: for what a block rearranges before it keeps it.
  Result<std::vector<float>> values(const TensorSpec& spec);

  /// A of a mixer's block, as values() has tensors: as it is stored, or -exp(A_log), in double, so that the float32
  /// result does not hang on one library's rounding.
  Result<std::vector<float>> decays(const BlockPlan& plan);

  Result<float*> floats(int64_t count);

  /// Looks through this rank's share of the tensors that no block has read, because they stay in the file.
  Status count_unread(const ModelPlan& plan);

  /// Logs which tensors had NaN or infinite values, in one line, and returns how many there were of them.
  int64_t log_nonfinite() const;

 private:
  Result<SliceReader> open(const TensorSpec& spec);
  Result<float*> lay_out(std::span<const float> values, int64_t padded, std::span<const int64_t> places);
  Status pack_rows(const TensorSpec& spec, const MatrixRows& wanted, int64_t rows, kernels::PackedMatrix& packed);
  void count_nonfinite(const TensorSpec& spec, const SliceReader& reader);

  const Checkpoint& checkpoint_;
  const Partition& partition_;
  const int rank_;
  const DType dtype_;
  kernels::Arena& arena_;
  kernels::Stream& stream_;
  std::map<std::string, kernels::PackedMatrix> shared_;  // by what was asked for
  std::map<std::string, int64_t> nonfinite_;             // of every stored tensor that was read
};

/// The tensor of that role. A plan without it is a fault of the architecture's file, so this CHECKs.
const TensorSpec& tensor_of(const BlockPlan& block, std::string_view role);

}  // namespace krait::shard
