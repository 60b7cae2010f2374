// A tensor in memory that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tensor/dtype.h"

namespace krait {

using Shape = std::vector<int64_t>;

struct TensorView final {
  DType dtype = DType::kF32;
  Shape shape;                      // row-major
  const std::byte* data = nullptr;  // may be unaligned (files)

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape)
      count *= extent;
    return count;
  }
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
};

}  // namespace krait
