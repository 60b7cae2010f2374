#include "common/tensor/dtype.h"

#include <array>

#include "common/base/check.h"

namespace krait {
namespace {

struct Row final {
  DType dtype;
  std::string_view name;
  int64_t bytes;         // of a block
  int64_t elements = 1;  // of a block
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
                                            {DType::kBool, "BOOL", 1},
                                            {DType::kI4, "I4", 0, 0},
                                            {DType::kQ80, "Q8_0", 34, 32},
                                            {DType::kQ40, "Q4_0", 18, 32},
                                            {DType::kQ6K, "Q6_K", 210, 256}});

struct WeightType final {
  DType dtype;
  std::string_view name;
};
constexpr auto kWeightTypes = std::to_array<WeightType>(
    {{DType::kF32, "f32"}, {DType::kBF16, "bf16"}, {DType::kI8, "int8"}, {DType::kI4, "int4"}});

}  // namespace

StoredBlock stored_block(DType dtype) {
  CHECK(dtype != DType::kI4);
  const Row& row = kTable.at(static_cast<size_t>(dtype));
  return {row.elements, row.bytes};
}

int64_t dtype_bytes(DType dtype) {
  const StoredBlock block = stored_block(dtype);
  CHECK_EQ(block.elements, 1);
  return block.bytes;
}

int64_t stored_bytes(DType dtype, int64_t elements) {
  const StoredBlock block = stored_block(dtype);
  return elements / block.elements * block.bytes;
}

std::string_view dtype_name(DType dtype) {
  return kTable.at(static_cast<size_t>(dtype)).name;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name && row.elements == 1) return row.dtype;
  }
  return std::nullopt;
}

std::string_view weight_type_name(DType dtype) {
  for (const WeightType& type : kWeightTypes) {
    if (type.dtype == dtype) return type.name;
  }
  check_failed(__FILE__, __LINE__, "a type of weights", std::string(dtype_name(dtype)));
}

std::vector<std::string> weight_type_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kWeightTypes));
  for (const WeightType& type : kWeightTypes)
    names.emplace_back(type.name);
  return names;
}

std::optional<DType> weight_type_from_name(std::string_view name) {
  for (const WeightType& type : kWeightTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

}  // namespace krait
