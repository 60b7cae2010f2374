// Element types of tensors in files and in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace krait {

enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool };

/// Bytes of one element.
int64_t dtype_bytes(DType dtype);
/// As safetensors spells it ("BF16"), and back; nothing for a spelling that we do not know.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

}  // namespace krait
