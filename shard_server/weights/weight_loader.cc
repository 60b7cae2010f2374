#include "shard_server/weights/weight_loader.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "shard_server/weights/smoothing.h"

namespace krait::shard {

const TensorSpec& tensor_of(const BlockPlan& block, std::string_view role) {
  const TensorSpec* spec = block.find(role);
  CHECK(spec != nullptr);
  return *spec;
}

DType packed_type(const TensorSpec& spec, DType dtype) {
  CHECK(spec.packing != Packing::kNone);
  return spec.packing == Packing::kFineMatrix && dtype == DType::kI4 ? DType::kI8 : dtype;
}

int64_t kept_bytes(const TensorSpec& spec, const Partition& partition, int rank, DType dtype) {
  const Shape shape = local_shape(spec, partition, rank);
  int64_t elements = 1;
  for (const int64_t extent : shape)
    elements *= extent;
  if (spec.packing == Packing::kNone) return elements * dtype_bytes(DType::kF32);
  int leaves = 1;
  if (!spec.cut.whole() && spec.cut.axis == 1) {
    const Segment& columns = spec.cut.segments.front();
    leaves = partition.leaves_of_part(partition.of(columns.unit).back().end / columns.count);
  }
  return kernels::packed_bytes(packed_type(spec, dtype), shape[0], round_up(shape[1], leaves), leaves);
}

int64_t kept_bytes(const ModelPlan& plan, const Partition& partition, int rank, DType dtype) {
  int64_t bytes = 0;
  for (const BlockPlan& block : plan.blocks) {
    if (block.kind == BlockKind::kEmbedding) continue;
    for (const TensorSpec& spec : block.tensors) {
      if (spec.shared && !spec.source.empty()) continue;  // another layer's memory
      bytes += kept_bytes(spec, partition, rank, dtype);
    }
  }
  return bytes;
}

Result<SliceReader> WeightLoader::open(const TensorSpec& spec) {
  ASSIGN_OR_RETURN(auto reader, checkpoint_.slice(spec, partition_, rank_));
  if (!reader) return Error{Errc::kCorrupt, fmt::format("tensor {} is missing", spec.stored_name()), spec.name};
  return *std::move(reader);
}

void WeightLoader::count_nonfinite(const TensorSpec& spec, const SliceReader& reader) {
  nonfinite_[spec.stored_name()] += reader.nonfinite();
}

Status WeightLoader::count_unread(const ModelPlan& plan) {
  std::vector<float> row;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      if (nonfinite_.contains(spec.stored_name()) || checkpoint_.find(spec.stored_name()) == nullptr) continue;
      ASSIGN_OR_RETURN(auto reader, open(spec));
      row.resize(static_cast<size_t>(reader.row_elements()));
      // Each rank looks at its part of what all could see, so that ranks' counts add up.
      const int64_t end = reader.rows() * (rank_ + 1) / partition_.world;
      for (int64_t i = reader.rows() * rank_ / partition_.world; i < end; ++i)
        RETURN_IF_ERROR(reader.read_row(i, row));
      count_nonfinite(spec, reader);
    }
  }
  return {};
}

int64_t WeightLoader::log_nonfinite() const {
  constexpr int kNamed = 8;
  int64_t count = 0;
  int tensors = 0;
  std::string names;
  for (const auto& [name, values] : nonfinite_) {
    if (values == 0) continue;
    count += values;
    if (++tensors <= kNamed) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, values);
  }
  if (count == 0) return 0;
  log_warning("{} weights are NaN or infinite, in {} tensors: {}{}", count, tensors, names,
              tensors > kNamed ? " and others" : "");
  return count;
}

Result<float*> WeightLoader::floats(int64_t count) {
  ASSIGN_OR_RETURN(std::byte * bytes, arena_.allocate(count * static_cast<int64_t>(sizeof(float))));
  return reinterpret_cast<float*>(bytes);
}

Result<kernels::PackedMatrix> WeightLoader::matrix(const TensorSpec& spec, int leaves, const MatrixRows& wanted) {
  const std::string key =
      spec.shared ? fmt::format("{}+{}", spec.stored_name(), spec.view.first_element) : std::string();
  if (const auto at = shared_.find(key); spec.shared && at != shared_.end()) return at->second;
  ASSIGN_OR_RETURN(const auto reader, open(spec));
  const int64_t rows = wanted.count < 0 ? reader.rows() - wanted.first : wanted.count;
  CHECK_LE(wanted.first + rows, reader.rows());
  CHECK(wanted.places.empty() || static_cast<int64_t>(wanted.places.size()) == rows);
  kernels::PackedMatrix packed;
  packed.dtype = packed_type(spec, dtype_);
  packed.n = wanted.columns < 0 ? rows : wanted.columns;
  packed.k = reader.row_elements();
  packed.leaves = leaves;
  CHECK_LE(rows, packed.n);
  CHECK(wanted.factors.empty() || std::ssize(wanted.factors) == packed.k);
  ASSIGN_OR_RETURN(packed.data, arena_.allocate(kernels::packed_bytes(packed.dtype, packed.n, packed.k, leaves)));
  RETURN_IF_ERROR(pack_rows(spec, wanted, rows, packed));
  if (spec.shared) shared_.emplace(key, packed);
  return packed;
}

Status WeightLoader::pack_rows(const TensorSpec& spec, const MatrixRows& wanted, int64_t rows,
                               kernels::PackedMatrix& packed) {
  const auto place = [&](int64_t i) { return wanted.places.empty() ? i : wanted.places[static_cast<size_t>(i)]; };
  const auto pack = [&](int64_t begin, int64_t end, SliceReader& reader) -> Status {
    std::vector<float> row(static_cast<size_t>(packed.k));
    for (int64_t i = begin; i < end; ++i) {
      RETURN_IF_ERROR(reader.read_row(wanted.first + i, row));
      for (size_t j = 0; j < wanted.factors.size(); ++j)
        row[j] *= wanted.factors[j];
      kernels::pack_row(packed, place(i), row.data());
    }
    return {};
  };
  // Threads share rows by panels: places ascend, so a panel's rows are neighbours.
  const auto panel_begin = [&](int64_t i) {
    while (i > 0 && i < rows && place(i) / kernels::kPanelColumns == place(i - 1) / kernels::kPanelColumns)
      ++i;
    return i;
  };
  std::mutex mutex;
  Status status;
  bool out_of_memory = false;  // what a thread of the team throws goes nowhere, so it is thrown again here
  stream_.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    try {
      auto reader = open(spec);
      Status packed_all = reader.ok() ? pack(panel_begin(begin), panel_begin(end), *reader) : Status(reader.error());
      const std::scoped_lock lock(mutex);
      if (reader.ok()) count_nonfinite(spec, *reader);
      if (status.ok()) status = std::move(packed_all);
    } catch (const std::bad_alloc&) {
      const std::scoped_lock lock(mutex);
      out_of_memory = true;
    }
  });
  if (out_of_memory) throw std::bad_alloc();
  return status;
}

Result<float*> WeightLoader::vector(const TensorSpec& spec, int64_t padded, std::span<const int64_t> places) {
  ASSIGN_OR_RETURN(const auto all, values(spec));
  return lay_out(all, padded, places);
}

Result<float*> WeightLoader::lay_out(std::span<const float> values, int64_t padded, std::span<const int64_t> places) {
  ASSIGN_OR_RETURN(float* out, floats(padded));
  CHECK(places.empty() || places.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = places.empty() ? static_cast<int64_t>(i) : places[i];
    CHECK_LT(at, padded);
    out[at] = values[i];
  }
  return out;
}

Result<LoadedNorm> WeightLoader::norm(const TensorSpec& spec, int64_t padded, int leaves,
                                      std::span<const int64_t> places) {
  ASSIGN_OR_RETURN(auto all, values(spec));
  LoadedNorm norm;
  if (kernels::is_quantized(dtype_)) {
    norm.factors = smoothing_factors(all, leaves);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] /= norm.factors[i];
  }
  ASSIGN_OR_RETURN(norm.weight, lay_out(all, padded, places));
  return norm;
}

Result<LoadedSkip> WeightLoader::skip(const TensorSpec& spec, int64_t padded, int leaves,
                                      std::span<const int64_t> places) {
  ASSIGN_OR_RETURN(auto all, values(spec));
  LoadedSkip skip;
  ASSIGN_OR_RETURN(skip.weight, lay_out(all, padded, places));
  if (!kernels::is_quantized(dtype_)) return skip;
  auto factors = smoothing_factors(all, leaves);
  if (std::all_of(factors.begin(), factors.end(), [](float factor) { return factor == 1; })) return skip;
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = 1 / factors[i];  // powers of two: exact
  ASSIGN_OR_RETURN(skip.out_scale, lay_out(all, padded, places));
  skip.factors = std::move(factors);
  return skip;
}

Result<std::vector<float>> WeightLoader::decays(const BlockPlan& plan) {
  if (const TensorSpec* stored = plan.find("A")) return values(*stored);
  ASSIGN_OR_RETURN(auto a, values(tensor_of(plan, "A_log")));
  for (float& value : a)
    value = static_cast<float>(-std::exp(double{value}));
  return a;
}

Result<std::vector<float>> WeightLoader::values(const TensorSpec& spec) {
  ASSIGN_OR_RETURN(auto reader, open(spec));
  std::vector<float> out(static_cast<size_t>(reader.rows() * reader.row_elements()));
  RETURN_IF_ERROR(reader.read_all(out));
  count_nonfinite(spec, reader);
  return out;
}

}  // namespace krait::shard
