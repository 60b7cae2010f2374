#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/tensor/half.h"
#include "kernels/quant/row_codec.h"

namespace krait::kernels {
namespace {

int64_t group_size(RowFormat format) {
  return format == RowFormat::kInt8 ? 128 : 32;
}

float scale_of(const float* x, int64_t count, float limit) {
  float largest = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(x[i]));
  }
  const auto up = std::bit_cast<uint32_t>(largest * (1.0f / limit)) + 0xffffu;
  return std::max(std::bit_cast<float>(up & 0xffff0000u), 0x1p-126f);
}

void put_half(std::byte* out, uint16_t half) {
  std::memcpy(out, &half, sizeof half);
}

uint16_t get_half(const std::byte* in) {
  uint16_t half;
  std::memcpy(&half, in, sizeof half);
  return half;
}

// A stage adds and subtracts elements `distance` apart.
void rotate(float* x, int64_t size, float factor) {
  for (int64_t distance = 1; distance < size; distance *= 2) {
    for (int64_t i = 0; i < size; ++i) {
      if ((i & distance) != 0) continue;
      const float lower = x[i], upper = x[i + distance];
      x[i] = lower + upper;
      x[i + distance] = lower - upper;
    }
  }
  for (int64_t i = 0; i < size; ++i)
    x[i] *= factor;
}

void rotate_all(float* x, int64_t count, bool back) {
  while (count >= 16) {
    const int bits = std::min(7, static_cast<int>(std::bit_width(static_cast<uint64_t>(count))) - 1);
    rotate(x, int64_t{1} << bits, std::ldexp(1.0f, back ? -(bits / 2) : -((bits + 1) / 2)));
    x += int64_t{1} << bits;
    count -= int64_t{1} << bits;
  }
}

}  // namespace

void encode_row_reference(RowFormat format, const float* x, int64_t count, std::byte* out) {
  if (format == RowFormat::kBf16) {
    for (int64_t i = 0; i < count; ++i)
      put_half(out + i * 2, std::isnan(x[i]) ? uint16_t{0x7fc0} : f32_to_bf16(x[i]));
    return;
  }
  const float limit = format == RowFormat::kInt8 ? 127.0f : 7.0f;
  for (int64_t begin = 0; begin < count; begin += group_size(format)) {
    const int64_t size = std::min(group_size(format), count - begin);
    const float scale = scale_of(x + begin, size, limit);
    put_half(out, static_cast<uint16_t>(std::bit_cast<uint32_t>(scale) >> 16));
    out += 2;
    const auto q = [&](int64_t i) {
      const float whole = i < size ? std::nearbyint(x[begin + i] * (1.0f / scale)) : 0.0f;
      return std::isnan(scale) ? 0 : static_cast<int>(whole);
    };
    for (int64_t i = 0; i < (format == RowFormat::kInt8 ? size : std::min<int64_t>(size, 16)); ++i) {
      const int value = format == RowFormat::kInt8 ? q(i) : (q(i) + 8) + 16 * (q(i + 16) + 8);
      *out++ = static_cast<std::byte>(value);
    }
  }
}

void decode_row_reference(RowFormat format, const std::byte* in, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) {
    if (format == RowFormat::kBf16) {
      x[i] = bf16_to_f32(get_half(in + i * 2));
      continue;
    }
    const int64_t begin = i / group_size(format) * group_size(format);
    const std::byte* group = in + encoded_bytes(format, begin);
    const float scale = bf16_to_f32(get_half(group));
    const int64_t at = i - begin;
    const int byte = static_cast<int>(group[2 + (format == RowFormat::kInt8 ? at : at % 16)]);
    const int q = format == RowFormat::kInt8 ? static_cast<int8_t>(byte) : (at < 16 ? byte % 16 : byte / 16) - 8;
    x[i] = static_cast<float>(q) * scale;
  }
}

void rotate_row_reference(float* x, int64_t count) {
  rotate_all(x, count, false);
}

void rotate_row_back_reference(float* x, int64_t count) {
  rotate_all(x, count, true);
}

}  // namespace krait::kernels
