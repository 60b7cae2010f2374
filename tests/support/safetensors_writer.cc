#include "tests/support/safetensors_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>

#include "common/base/rng.h"
#include "common/tensor/half.h"

namespace krait::test {
namespace {

void write_file(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// The half next to it towards zero: exact for every value that a half holds.
uint16_t f16_towards_zero(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  if (exponent > 15) throw std::runtime_error(fmt::format("{} is no half", value));
  if (exponent < -14) return sign | static_cast<uint16_t>(std::abs(value) * 0x1p24f);
  return static_cast<uint16_t>(sign | (exponent + 15) << 10 | (bits >> 13 & 0x3ff));
}

float random_value(const TensorSpec& spec, SplitMix64& random) {
  const double u = random.uniform();
  if (spec.role == "norm.weight" || spec.role == "gate_norm.weight" || spec.role == "D")
    return static_cast<float>(0.75 + u / 2);
  if (spec.role == "A_log") return static_cast<float>(2.5 * u);
  if (spec.role == "A") return static_cast<float>(-std::exp(2.5 * u));
  if (spec.role == "dt_proj.bias" || spec.role == "dt_bias") return static_cast<float>(-5 + 3 * u);
  const double fan_in = spec.shape.size() < 2 ? 16 : static_cast<double>(spec.shape.back());
  return static_cast<float>((2 * u - 1) * std::sqrt(3 / fan_in));
}

}  // namespace

std::string encode_floats(std::span<const float> values, DType dtype) {
  std::string bytes;
  for (const float value : values) {
    if (dtype == DType::kF32) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
      continue;
    }
    const uint16_t bits = dtype == DType::kBF16 ? f32_to_bf16(value) : f16_towards_zero(value);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
  return bytes;
}

std::string safetensors_file(std::string_view header_json, std::string_view data) {
  const uint64_t length = header_json.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file.append(header_json).append(data);
}

std::string safetensors_file(std::span<const TensorToWrite> tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const TensorToWrite& tensor : tensors) {
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                          dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), data.size(),
                          data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  return safetensors_file(header + "}", data);
}

std::vector<int64_t> stored_elements(const TensorSpec& spec) {
  const int64_t count = StoredTensor{.shape = spec.shape}.elements();
  const int64_t rows = spec.shape.empty() ? 1 : spec.shape[0];
  const int64_t row = rows == 0 ? 0 : count / rows;
  const int64_t step = spec.view.row_step != 0 ? spec.view.row_step : row;
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(spec.view.first_element + i / row * step + i % row);
  return elements;
}

std::vector<TensorToWrite> random_tensors(const ModelPlan& plan, uint64_t seed, DType dtype) {
  SplitMix64 random(seed);
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<float>> values;  // of each tensor
  std::map<std::string, size_t> index;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      if (!spec.source.empty() && index.contains(spec.source) && spec.view.stored_shape.empty()) continue;
      const auto [at, is_new] = index.emplace(spec.stored_name(), tensors.size());
      if (is_new) {
        tensors.push_back({spec.stored_name(), dtype, spec.stored_shape(), ""});
        values.emplace_back(static_cast<size_t>(StoredTensor{.shape = spec.stored_shape()}.elements()));
      }
      for (const int64_t element : stored_elements(spec))
        values[at->second].at(static_cast<size_t>(element)) = random_value(spec, random);
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].bytes = encode_floats(values[i], dtype);
  return tensors;
}

void write_checkpoint(const std::string& directory, std::string_view config_json,
                      std::span<const TensorToWrite> tensors, int files) {
  write_file(directory + "/config.json", config_json);
  if (files == 1) return write_file(directory + "/model.safetensors", safetensors_file(tensors));
  std::string map;
  for (int file = 0; file < files; ++file) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files);
    std::vector<TensorToWrite> part;
    for (size_t i = static_cast<size_t>(file); i < tensors.size(); i += static_cast<size_t>(files)) {
      part.push_back(tensors[i]);
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensors[i].name, name);
    }
    write_file(directory + "/" + name, safetensors_file(part));
  }
  write_file(directory + "/model.safetensors.index.json",
             fmt::format(R"({{"metadata":{{"total_size":1}},"weight_map":{{{}}}}})", map));
}

}  // namespace krait::test
