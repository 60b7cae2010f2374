// Element types of tensors in files and in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace krait {

/// kI4 has no element of its own bytes: it is only found in packed matrices, two in a byte.
enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool, kI4 };

/// Bytes of one element; not of kI4.
int64_t dtype_bytes(DType dtype);
/// As safetensors spells it ("BF16"), and back; nothing for a spelling that we do not know.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// As `--dtype` spells the types that a run's matrices may have: "f32", "bf16", "int8", "int4"; and back.
std::string_view weight_type_name(DType dtype);
std::optional<DType> weight_type_from_name(std::string_view name);
/// All of them.
std::vector<std::string> weight_type_names();

}  // namespace krait
