#include "shard_server/weights/weight_loader.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"

namespace krait::shard {

const TensorSpec& tensor_of(const BlockPlan& block, std::string_view role) {
  const TensorSpec* spec = block.find(role);
  CHECK(spec != nullptr);
  return *spec;
}

Result<SliceReader> WeightLoader::open(const TensorSpec& spec) const {
  ASSIGN_OR_RETURN(auto reader, checkpoint_.slice(spec, partition_, rank_));
  if (!reader) return Error{Errc::kCorrupt, fmt::format("tensor {} is missing", spec.stored_name()), spec.name};
  return *std::move(reader);
}

void WeightLoader::count_nonfinite(const TensorSpec& spec, const SliceReader& reader) {
  if (reader.nonfinite() == 0) return;
  log_warning("tensor {}: {} values are NaN or infinite", spec.stored_name(), reader.nonfinite());
  nonfinite_ += reader.nonfinite();
}

Result<float*> WeightLoader::floats(int64_t count) {
  ASSIGN_OR_RETURN(std::byte * bytes, arena_.allocate(count * static_cast<int64_t>(sizeof(float))));
  return reinterpret_cast<float*>(bytes);
}

Result<kernels::PackedMatrix> WeightLoader::matrix(const TensorSpec& spec, int leaves, int64_t first_row, int64_t rows,
                                                   int64_t columns) {
  ASSIGN_OR_RETURN(auto reader, open(spec));
  if (rows < 0) rows = reader.rows() - first_row;
  CHECK_LE(first_row + rows, reader.rows());
  kernels::PackedMatrix packed;
  packed.dtype = dtype_;
  packed.n = std::max(rows, columns);
  packed.k = reader.row_elements();
  packed.leaves = leaves;
  ASSIGN_OR_RETURN(packed.data, arena_.allocate(kernels::packed_bytes(dtype_, packed.n, packed.k, leaves)));
  std::vector<float> row(static_cast<size_t>(packed.k));
  for (int64_t i = 0; i < rows; ++i) {
    reader.read_row(first_row + i, row);
    kernels::pack_row(packed, i, row.data());
  }
  count_nonfinite(spec, reader);
  return packed;
}

Result<float*> WeightLoader::vector(const TensorSpec& spec, int64_t padded, int64_t first, int64_t count) {
  ASSIGN_OR_RETURN(auto reader, open(spec));
  CHECK_EQ(reader.rows(), 1);
  if (count < 0) count = reader.row_elements() - first;
  CHECK_LE(count, padded);
  ASSIGN_OR_RETURN(float* out, floats(padded));
  std::vector<float> all(static_cast<size_t>(reader.row_elements()));
  reader.read_row(0, all);
  std::copy_n(all.begin() + first, count, out);
  count_nonfinite(spec, reader);
  return out;
}

Result<std::vector<float>> WeightLoader::values(const TensorSpec& spec) {
  ASSIGN_OR_RETURN(auto reader, open(spec));
  std::vector<float> out(static_cast<size_t>(reader.rows() * reader.row_elements()));
  reader.read_all(out);
  count_nonfinite(spec, reader);
  return out;
}

}  // namespace krait::shard
