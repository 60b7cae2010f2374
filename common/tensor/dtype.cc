#include "common/tensor/dtype.h"

#include <array>

namespace krait {
namespace {

struct Row final {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr auto kTable = std::to_array<Row>({{DType::kF32, "F32", 4},
                                            {DType::kBF16, "BF16", 2},
                                            {DType::kF16, "F16", 2},
                                            {DType::kF64, "F64", 8},
                                            {DType::kI64, "I64", 8},
                                            {DType::kI32, "I32", 4},
                                            {DType::kI16, "I16", 2},
                                            {DType::kI8, "I8", 1},
                                            {DType::kU8, "U8", 1},
                                            {DType::kBool, "BOOL", 1}});

}  // namespace

int64_t dtype_bytes(DType dtype) {
  return kTable.at(static_cast<size_t>(dtype)).bytes;
}

std::string_view dtype_name(DType dtype) {
  return kTable.at(static_cast<size_t>(dtype)).name;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace krait
