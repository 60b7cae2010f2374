// The JSON header of a safetensors file as text to structs, without a file: what a fuzzer feeds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"

namespace krait {

struct SafetensorsEntry final {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;  // bytes from the start of the data
  int64_t end = 0;
};

/// Entries in the order of their data, checked against each other: every one has its shape's bytes and together they
/// cover [0, data_bytes) without gap or overlap. `path` stands in messages. Errors as SafetensorsFile::open.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                                               std::string_view path);

}  // namespace krait
