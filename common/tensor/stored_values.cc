#include "common/tensor/stored_values.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/tensor/half.h"

namespace krait {
namespace {

constexpr auto kWeightDtypes =
    std::to_array<DType>({DType::kF32, DType::kBF16, DType::kF16, DType::kQ80, DType::kQ40, DType::kQ6K});

uint16_t bits_at(const std::byte* data) {
  uint16_t bits;
  std::memcpy(&bits, data, sizeof bits);  // files do not align
  return bits;
}

template <class Convert>
void widen_halves(const std::byte* data, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = convert(bits_at(data + 2 * i));
}

void widen_q8_0(const std::byte* block, float* out) {
  const float scale = f16_to_f32(bits_at(block));
  for (int i = 0; i < 32; ++i)
    out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

void widen_q4_0(const std::byte* block, float* out) {
  const float scale = f16_to_f32(bits_at(block));
  for (int i = 0; i < 16; ++i) {
    const int pair = std::to_integer<int>(block[2 + i]);
    out[i] = scale * static_cast<float>((pair & 15) - 8);
    out[16 + i] = scale * static_cast<float>((pair >> 4) - 8);
  }
}

void widen_q6_k(const std::byte* block, float* out) {
  const std::byte* scales = block + 192;
  const float scale = f16_to_f32(bits_at(block + 208));
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + 64 * half;
    const std::byte* high = block + 128 + 32 * half;
    for (int i = 0; i < 128; ++i) {
      const int part = i / 32;  // which bits of `high`
      const int at = i % 32;
      const int four = std::to_integer<int>(low[32 * (part % 2) + at]) >> (part < 2 ? 0 : 4) & 15;
      const int two = std::to_integer<int>(high[at]) >> (2 * part) & 3;
      const float scaled = scale * static_cast<float>(static_cast<int8_t>(scales[8 * half + i / 16]));
      out[128 * half + i] = scaled * static_cast<float>((four | two << 4) - 32);
    }
  }
}

template <class Widen>
void widen_blocks(DType dtype, const std::byte* data, std::span<float> out, Widen widen_block) {
  const StoredBlock block = stored_block(dtype);
  CHECK_EQ(static_cast<int64_t>(out.size()) % block.elements, 0);
  const auto blocks = static_cast<int64_t>(out.size()) / block.elements;
  for (int64_t i = 0; i < blocks; ++i)
    widen_block(data + i * block.bytes, out.data() + i * block.elements);
}

}  // namespace

bool is_weight_dtype(DType dtype) {
  return std::find(kWeightDtypes.begin(), kWeightDtypes.end(), dtype) != kWeightDtypes.end();
}

std::string weight_dtype_names() {
  std::string names;
  for (const DType dtype : kWeightDtypes) {
    const bool last = dtype == kWeightDtypes.back();
    names += (names.empty() ? "" : last ? " and " : ", ") + std::string(dtype_name(dtype));
  }
  return names;
}

void widen(DType dtype, const std::byte* data, std::span<float> out) {
  switch (dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), data, out.size_bytes());
      return;
    case DType::kBF16:
      return widen_halves(data, out, bf16_to_f32);
    case DType::kF16:
      return widen_halves(data, out, f16_to_f32);
    case DType::kQ80:
      return widen_blocks(dtype, data, out, widen_q8_0);
    case DType::kQ40:
      return widen_blocks(dtype, data, out, widen_q4_0);
    case DType::kQ6K:
      return widen_blocks(dtype, data, out, widen_q6_k);
    default:
      check_failed(__FILE__, __LINE__, "a dtype of weights", std::string(dtype_name(dtype)));
  }
}

}  // namespace krait
