// Element types of tensors in files and in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace krait {

/// kI4 has no element of its own bytes: it is only found in packed matrices, two in a byte. kQ80, kQ40 and kQ6K are
/// found in files only, in blocks of elements that share a scale (stored_values.h).
enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool, kI4, kQ80, kQ40, kQ6K };

/// Elements that a file keeps together, and their bytes: one element, but of the types that come in blocks.
struct StoredBlock final {
  int64_t elements = 1;
  int64_t bytes = 0;
};

/// Not of kI4.
StoredBlock stored_block(DType dtype);
/// Bytes of one element, of a type that has such.
int64_t dtype_bytes(DType dtype);
/// Bytes of so many elements; they are whole blocks.
int64_t stored_bytes(DType dtype, int64_t elements);
/// As safetensors and GGUF spell it ("BF16", "Q8_0").
std::string_view dtype_name(DType dtype);
/// As safetensors spells it; nothing for a spelling that we do not know.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// As `--dtype` spells the types that a run's matrices may have: "f32", "bf16", "int8", "int4"; and back.
std::string_view weight_type_name(DType dtype);
std::optional<DType> weight_type_from_name(std::string_view name);
/// All of them.
std::vector<std::string> weight_type_names();

}  // namespace krait
