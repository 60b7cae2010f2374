// Quantized weights on every processor: plain loops, one row at a time.
#include <cmath>
#include <cstring>

#include "common/tensor/half.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/integer_groups.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

constexpr int64_t kStepBytes = 256;  // of a panel: 64 cells of 4 bytes

/// One cell of each column times its activations.
template <IntegerFormat kFormat, int kColumns>
void add_cells(const int8_t* a, const uint8_t* w, int32_t (&sums)[kColumns]) {
  for (int c = 0; c < kColumns; ++c) {
    for (int i = 0; i < 4; ++i) {
      const uint8_t byte = w[c * 4 + i];
      if constexpr (kFormat.cell_k == 4) {
        sums[c] += byte * a[i];
      } else {
        sums[c] += (byte & 0xf) * a[i] + (byte >> 4) * a[i + 4];
      }
    }
  }
}

float scale_of(const uint8_t* scales, int column) {
  uint16_t bits = 0;
  std::memcpy(&bits, scales + column / 32 * 64 + column % 16 * 4 + column / 16 % 2 * 2, sizeof(bits));
  return bf16_to_f32(bits);
}

template <IntegerFormat kFormat>
struct Tile final {
  template <int kRows, int kVectors>
  static void run(const TileArgs& args) {
    for (int r = 0; r < kRows; ++r)
      row<kVectors * kVectorColumns>(args, r);
  }

  template <int kColumns>
  static void row(const TileArgs& args, int r) {
    TileSums<1, kColumns> tile;
    const auto* a = static_cast<const std::byte*>(args.a) + r * args.a_stride;
    const auto* w = reinterpret_cast<const uint8_t*>(args.panel);
    for (int leaf = 0; leaf < args.leaves; ++leaf) {
      std::fill_n(tile.sums, kColumns, 0.0f);
      for (int64_t k = 0; k < args.leaf_k; k += kFormat.group_k) {
        ActivationGroup group;
        std::memcpy(&group, a, sizeof(group));
        a += sizeof(group);
        const uint8_t* const scales = w;
        w += kScaleBytes;
        int32_t sums[kColumns];
        std::fill_n(sums, kColumns, group.start);
        for (int64_t i = 0; i < kFormat.group_k; i += kFormat.cell_k) {
          add_cells<kFormat>(reinterpret_cast<const int8_t*>(a), w, sums);
          a += kFormat.cell_k;
          w += kStepBytes;
        }
        for (int c = 0; c < kColumns; ++c)
          tile.sums[c] = std::fma(group.scale * scale_of(scales, c), static_cast<float>(sums[c]), tile.sums[c]);
      }
      tile.add_to_tree(leaf, args.leaves);
    }
    TileArgs out = args;
    out.out += r * args.ldo;
    tile.write_out(out);
  }
};

template <IntegerFormat kFormat>
void quantize(const float* from, int leaves, int64_t leaf_k, int64_t, std::byte* to) {
  quantize_row<kFormat>(from, leaves, leaf_k, to);
}

template <IntegerFormat kFormat>
constexpr TileTable make_table() {
  return make_tile_table<Tile<kFormat>>(quantize<kFormat>, 1, TileCells());
}

}  // namespace

constinit const TileTable kPortableInt8 = make_table<kInt8Format>();
constinit const TileTable kPortableInt4 = make_table<kInt4Format>();

}  // namespace krait::kernels
