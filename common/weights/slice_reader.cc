#include "common/weights/slice_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/base/units.h"
#include "common/tensor/stored_values.h"

namespace krait {
namespace {

constexpr int64_t kWindowBytes = 64 * kKiB;  // pieces below this are read together with what follows them

int64_t count_nonfinite(std::span<const float> values) {
  int64_t count = 0;
  for (const float value : values)
    count += (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  return count;
}

/// A tensor of no axes is read as one of one element.
Shape at_least_one_axis(const Shape& shape) {
  return shape.empty() ? Shape{1} : shape;
}

}  // namespace

Result<SliceReader> SliceReader::make(std::shared_ptr<const TensorSource> source, const StoredTensor& whole,
                                      const TensorSpec& spec, const Partition& partition, int rank) {
  if (!is_weight_dtype(whole.dtype)) {
    return Error{Errc::kUnsupported,
                 fmt::format("{}: tensor '{}' is {}; {} are served", source->name(), spec.stored_name(),
                             dtype_name(whole.dtype), weight_dtype_names()),
                 spec.stored_name()};
  }
  if (whole.shape != spec.stored_shape()) {
    return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' has another shape", source->name(), spec.stored_name()),
                 spec.stored_name()};
  }
  SliceReader reader;
  const Shape shape = at_least_one_axis(spec.shape);
  const auto axis = static_cast<size_t>(spec.cut.axis);
  CHECK_LT(axis, shape.size());
  reader.source_ = std::move(source);
  reader.whole_ = whole;
  reader.local_shape_ = krait::local_shape(spec, partition, rank);
  reader.parts_ = local_parts(spec, partition, rank);
  reader.cut_is_last_axis_ = axis + 1 == shape.size();
  reader.cut_extent_ = shape[axis];
  reader.first_element_ = spec.view.first_element;
  CHECK(spec.view.row_step == 0 || shape.size() == 2);
  reader.row_step_ = spec.view.row_step != 0 ? spec.view.row_step : shape.back();

  const Shape local = at_least_one_axis(reader.local_shape_);
  reader.local_extent_ = local[axis];
  reader.row_elements_ = local.back();
  reader.rows_ = 1;
  for (size_t i = 0; i + 1 < local.size(); ++i) {
    reader.rows_ *= local[i];
    if (i > axis) reader.inner_rows_ *= local[i];
  }
  return reader;
}

/// Elements that lie together, from `whole_element` of the whole tensor on.
Status SliceReader::read_piece(int64_t whole_element, std::span<float> out) {
  if (out.empty()) return {};
  const StoredBlock block = stored_block(whole_.dtype);
  const int64_t skipped = whole_element % block.elements;  // of the first block
  const int64_t blocks = ceil_div(skipped + static_cast<int64_t>(out.size()), block.elements);
  const int64_t begin = whole_element / block.elements * block.bytes;
  const int64_t bytes = blocks * block.bytes;
  const auto window_bytes = static_cast<int64_t>(window_.size());
  if (begin < window_begin_ || begin + bytes > window_begin_ + window_bytes) {
    window_.resize(static_cast<size_t>(std::min(std::max(bytes, kWindowBytes), whole_.bytes() - begin)));
    window_begin_ = begin;
    if (Status read = source_->read(whole_, begin, window_); !read.ok()) {
      window_.clear();
      return read;
    }
  }
  const std::byte* const data = window_.data() + (begin - window_begin_);
  if (blocks * block.elements == static_cast<int64_t>(out.size())) {
    widen(whole_.dtype, data, out);
  } else {
    blocks_.resize(static_cast<size_t>(blocks * block.elements));
    widen(whole_.dtype, data, blocks_);
    std::copy_n(blocks_.begin() + skipped, out.size(), out.begin());
  }
  return {};
}

Status SliceReader::read_row(int64_t local_row, std::span<float> out) {
  CHECK(local_row >= 0 && local_row < rows_);
  CHECK_EQ(static_cast<int64_t>(out.size()), row_elements_);
  if (cut_is_last_axis_) {
    const int64_t start = first_element_ + local_row * row_step_;
    size_t filled = 0;
    for (const Range& part : parts_) {
      const auto count = static_cast<size_t>(part.size());
      RETURN_IF_ERROR(read_piece(start + part.begin, out.subspan(filled, count)));
      filled += count;
    }
  } else {
    const int64_t inner = local_row % inner_rows_;
    const int64_t outer = local_row / inner_rows_ / local_extent_;
    int64_t at = local_row / inner_rows_ % local_extent_;  // within the local cut axis, then within the whole one
    for (const Range& part : parts_) {
      if (at < part.size()) {
        at += part.begin;
        break;
      }
      at -= part.size();
    }
    RETURN_IF_ERROR(read_piece(first_element_ + ((outer * cut_extent_ + at) * inner_rows_ + inner) * row_step_, out));
  }
  nonfinite_ += count_nonfinite(out);
  return {};
}

Status SliceReader::read_all(std::span<float> out) {
  CHECK_EQ(static_cast<int64_t>(out.size()), rows_ * row_elements_);
  const auto row_elements = static_cast<size_t>(row_elements_);
  for (int64_t row = 0; row < rows_; ++row) {
    RETURN_IF_ERROR(read_row(row, out.subspan(static_cast<size_t>(row) * row_elements, row_elements)));
  }
  return {};
}

}  // namespace krait
