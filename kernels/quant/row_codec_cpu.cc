#include "kernels/quant/row_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define KRAIT_SIMD_BODY "kernels/quant/row_codec.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {
namespace {

constexpr int64_t kLargestBlockBytes = kCodecBlock * 2;

void encode_blocks(CpuPath path, RowFormat format, const float* x, int64_t blocks, std::byte* out) {
  switch (format) {
    case RowFormat::kBf16:
      return KRAIT_SIMD_CALL(path, encode_bf16_blocks, x, blocks, out);
    case RowFormat::kInt8:
      return KRAIT_SIMD_CALL(path, encode_int8_blocks, x, blocks, out);
    case RowFormat::kInt4:
      return KRAIT_SIMD_CALL(path, encode_int4_blocks, x, blocks, out);
  }
}

void decode_blocks(CpuPath path, RowFormat format, const std::byte* in, int64_t blocks, float* x) {
  switch (format) {
    case RowFormat::kBf16:
      return KRAIT_SIMD_CALL(path, decode_bf16_blocks, in, blocks, x);
    case RowFormat::kInt8:
      return KRAIT_SIMD_CALL(path, decode_int8_blocks, in, blocks, x);
    case RowFormat::kInt4:
      return KRAIT_SIMD_CALL(path, decode_int4_blocks, in, blocks, x);
  }
}

}  // namespace

int64_t encoded_bytes(RowFormat format, int64_t count) {
  constexpr int64_t kScaleBytes = 2;
  const int64_t rest = count % 32;
  switch (format) {
    case RowFormat::kBf16:
      return count * 2;
    case RowFormat::kInt8:
      return count + (count + 127) / 128 * kScaleBytes;
    case RowFormat::kInt4:
      return count / 32 * (kScaleBytes + 16) + (rest == 0 ? 0 : kScaleBytes + std::min<int64_t>(rest, 16));
  }
  return 0;
}

void encode_row(CpuPath path, RowFormat format, const float* x, int64_t count, std::byte* out) {
  const int64_t blocks = count / kCodecBlock;
  encode_blocks(path, format, x, blocks, out);
  const int64_t rest = count % kCodecBlock;
  if (rest == 0) return;
  // A short block is the beginning of one that goes on with zeros.
  float block[kCodecBlock] = {};
  std::byte encoded[kLargestBlockBytes];
  std::copy_n(x + blocks * kCodecBlock, rest, block);
  encode_blocks(path, format, block, 1, encoded);
  std::copy_n(encoded, encoded_bytes(format, rest), out + encoded_bytes(format, blocks * kCodecBlock));
}

void decode_row(CpuPath path, RowFormat format, const std::byte* in, int64_t count, float* x) {
  const int64_t blocks = count / kCodecBlock;
  decode_blocks(path, format, in, blocks, x);
  const int64_t rest = count % kCodecBlock;
  if (rest == 0) return;
  float block[kCodecBlock];
  std::byte encoded[kLargestBlockBytes] = {};
  std::copy_n(in + encoded_bytes(format, blocks * kCodecBlock), encoded_bytes(format, rest), encoded);
  decode_blocks(path, format, encoded, 1, block);
  std::copy_n(block, rest, x + blocks * kCodecBlock);
}

void rotate_row(CpuPath path, float* x, int64_t count) {
  KRAIT_SIMD_CALL(path, rotate_blocks, x, count, false);
}

void rotate_row_back(CpuPath path, float* x, int64_t count) {
  KRAIT_SIMD_CALL(path, rotate_blocks, x, count, true);
}

}  // namespace krait::kernels
