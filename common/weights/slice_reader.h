// Reads the part of a tensor that one rank holds, a row at a time, as float32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/model/partition.h"
#include "common/model/tensor_spec.h"
#include "common/tensor/stored_tensor.h"
#include "common/weights/tensor_source.h"

namespace krait {

/// The rank's slice of one tensor. A reader serves one thread; several readers may share a source.
class SliceReader final {
 public:
  /// `whole` is a tensor of `source` with the spec's stored shape and a type of weights; else kCorrupt or
  /// kUnsupported, param the tensor's name. `rank` is below partition.world.
  static Result<SliceReader> make(std::shared_ptr<const TensorSource> source, const StoredTensor& whole,
                                  const TensorSpec& spec, const Partition& partition, int rank);

  /// The slice's own shape; an extent may be 0.
  const Shape& local_shape() const { return local_shape_; }
  DType stored_dtype() const { return whole_.dtype; }
  /// All axes but the last, multiplied; a tensor of one axis is one row.
  int64_t rows() const { return rows_; }
  /// Elements of a row: the last axis.
  int64_t row_elements() const { return row_elements_; }

  /// Row `local_row` of the slice, converted exactly; out.size() == row_elements(). Small rows read best in ascending
  /// order: they are read ahead. Errors: TensorSource::read.
  Status read_row(int64_t local_row, std::span<float> out);
  /// The whole slice, row-major; out.size() == rows() * row_elements().
  Status read_all(std::span<float> out);

  /// How many of the elements read so far are NaN or infinite: a caller counts and warns.
  int64_t nonfinite() const { return nonfinite_; }

 private:
  SliceReader() = default;
  Status read_piece(int64_t whole_element, std::span<float> out);

  std::shared_ptr<const TensorSource> source_;
  StoredTensor whole_;
  Shape local_shape_;
  std::vector<Range> parts_;       // of the cut axis
  bool cut_is_last_axis_ = false;  // parts are columns of each row
  int64_t cut_extent_ = 1;         // of the cut axis: whole, local
  int64_t local_extent_ = 1;
  int64_t inner_rows_ = 1;  // rows of the last axis for each index of the cut axis
  int64_t rows_ = 0;
  int64_t row_elements_ = 0;
  int64_t first_element_ = 0;      // of the stored tensor, where the spec's view of it begins
  int64_t row_step_ = 0;           // elements from row to row of the view
  std::vector<std::byte> window_;  // bytes of the stored tensor from window_begin_ on
  int64_t window_begin_ = 0;
  std::vector<float> blocks_;  // of a piece that begins or ends inside a block
  int64_t nonfinite_ = 0;
};

}  // namespace krait
