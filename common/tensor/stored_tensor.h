// A tensor as it lies in a file that somebody else reads: what it is and where it begins.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/dtype.h"

namespace krait {

using Shape = std::vector<int64_t>;

struct StoredTensor final {
  DType dtype = DType::kF32;
  Shape shape;         // row-major; of a type in blocks, rows are whole blocks
  int64_t offset = 0;  // of its first byte, from the beginning of the file; at any alignment

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape)
      count *= extent;
    return count;
  }
  int64_t bytes() const { return stored_bytes(dtype, elements()); }
};

}  // namespace krait
