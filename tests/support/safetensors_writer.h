// Safetensors files and whole checkpoints made by tests, sound ones and bad ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/model_plan.h"
#include "common/tensor/stored_tensor.h"

namespace krait::test {

struct TensorToWrite final {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string bytes;  // little-endian elements
};

/// Elements of a float dtype from float32 values: F32, BF16 (nearest even) or F16 (towards zero).
std::string encode_floats(std::span<const float> values, DType dtype);

/// A file: length, header, data.
std::string safetensors_file(std::string_view header_json, std::string_view data);
/// A sound file of these tensors, in this order.
std::string safetensors_file(std::span<const TensorToWrite> tensors);

/// Which elements of the stored tensor a spec views, in the view's order.
std::vector<int64_t> stored_elements(const TensorSpec& spec);

/// Tensors for every spec of the plan (a tied one is not stored), with seeded random values that keep a small model
/// in range: norms and D about 1, A_log in [0, 2.5], dt_proj.bias in [-5, -2], the rest uniform about 0 with variance
/// 1 / fan-in.
std::vector<TensorToWrite> random_tensors(const ModelPlan& plan, uint64_t seed, DType dtype = DType::kF32);

/// Writes config.json and these tensors into `directory`: model.safetensors, or with files > 1 that many files and
/// their index, tensors dealt out in turn.
void write_checkpoint(const std::string& directory, std::string_view config_json,
                      std::span<const TensorToWrite> tensors, int files = 1);

}  // namespace krait::test
