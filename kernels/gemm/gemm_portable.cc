// The path of every processor: plain loops, one row at a time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/tensor/half.h"
#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/integer_groups.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

// sum() adds one leaf to the sums of some columns, and moves past its activations and weights.

struct F32Leaf final {
  using Activation = float;

  template <int kColumns>
  static void sum(const float*& a, const std::byte*& w, int64_t leaf_k, float (&sums)[kColumns]) {
    for (int64_t i = 0; i < leaf_k; ++i, ++a, w += kLineBytes) {
      float line[kColumns];
      std::memcpy(line, w, sizeof(line));
      for (int c = 0; c < kColumns; ++c)
        sums[c] = std::fma(*a, line[c], sums[c]);
    }
  }
};

struct Bf16Leaf final {
  using Activation = float;

  template <int kColumns>
  static void sum(const float*& a, const std::byte*& w, int64_t leaf_k, float (&sums)[kColumns]) {
    for (int64_t i = 0; i < leaf_k; i += 2, a += 2, w += kLineBytes) {
      uint16_t line[kColumns][2];
      std::memcpy(line, w, sizeof(line));
      for (int c = 0; c < kColumns; ++c) {
        const float odd = std::fma(a[1], bf16_to_f32(line[c][1]), sums[c]);
        sums[c] = std::fma(a[0], bf16_to_f32(line[c][0]), odd);
      }
    }
  }
};

template <IntegerFormat kFormat>
struct IntegerLeaf final {
  using Activation = std::byte;

  template <int kColumns>
  static void sum(const std::byte*& a, const std::byte*& w, int64_t leaf_k, float (&sums)[kColumns]) {
    for (int64_t k = 0; k < leaf_k; k += kFormat.group_k) {
      const ActivationGroup& group = group_at(a);
      a += sizeof(group);
      const std::byte* const scales = w;
      w += kScaleBytes;
      int32_t integers[kColumns];
      std::fill_n(integers, kColumns, group.start);
      for (int64_t i = 0; i < kFormat.group_k; i += kFormat.cell_k, a += kFormat.cell_k, w += kLineBytes)
        add_cells(reinterpret_cast<const int8_t*>(a), reinterpret_cast<const uint8_t*>(w), integers);
      for (int c = 0; c < kColumns; ++c)
        sums[c] = std::fma(group.scale * scale_of(scales, c), static_cast<float>(integers[c]), sums[c]);
    }
  }

 private:
  /// One cell of each column times its activations.
  template <int kColumns>
  static void add_cells(const int8_t* a, const uint8_t* w, int32_t (&sums)[kColumns]) {
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

  static float scale_of(const std::byte* scales, int column) {
    uint16_t bits = 0;
    std::memcpy(&bits, scales + scale_offset(column), sizeof(bits));
    return bf16_to_f32(bits);
  }
};

template <class Leaf>
struct Tile final {
  template <int kRows, int kVectors>
  static void run(const TileArgs& args) {
    for (int r = 0; r < kRows; ++r)
      row<kVectors * kVectorColumns>(args, r);
  }

  template <int kColumns>
  static void row(TileArgs args, int r) {
    TileSums<1, kColumns> tile;
    const auto* a = static_cast<const typename Leaf::Activation*>(args.a) + r * args.a_stride;
    const std::byte* w = args.panel;
    int leaf = 0;
    do {
      std::fill_n(tile.sums, kColumns, 0.0f);
      Leaf::sum(a, w, args.leaf_k, tile.sums);
      tile.add_to_tree(leaf, args.leaves);
    } while (++leaf < args.leaves);
    args.out += r * args.ldo;
    tile.write_out(args);
  }
};

void round(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<float*>(to));
}

template <IntegerFormat kFormat>
void quantize(const float* from, int leaves, int64_t leaf_k, int64_t, std::byte* to) {
  quantize_row<kFormat>(from, leaves, leaf_k, to);
}

template <class Leaf>
constexpr TileTable make_table(RoundFunction round_function) {
  return make_tile_table<Tile<Leaf>>(round_function, sizeof(typename Leaf::Activation));
}

}  // namespace

constinit const TileTable kPortableF32 = make_table<F32Leaf>(nullptr);
constinit const TileTable kPortableBf16 = make_table<Bf16Leaf>(round);
constinit const TileTable kPortableInt8 = make_table<IntegerLeaf<kInt8Format>>(quantize<kInt8Format>);
constinit const TileTable kPortableInt4 = make_table<IntegerLeaf<kInt4Format>>(quantize<kInt4Format>);

}  // namespace krait::kernels
