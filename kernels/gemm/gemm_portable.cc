// The path of every processor: plain loops, one row at a time.
#include <cmath>
#include <cstring>

#include "common/tensor/half.h"
#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

constexpr int kColumns = kTileVectors * kVectorColumns;

struct F32Leaf final {
  static constexpr int64_t kElementBytes = 4;

  static void sum(const float* a, const std::byte* panel, int64_t k, int columns, float* sums) {
    for (int64_t i = 0; i < k; ++i) {
      float w[kColumns];
      std::memcpy(w, panel + i * static_cast<int64_t>(sizeof(w)), sizeof(w));
      for (int c = 0; c < columns; ++c)
        sums[c] = std::fma(a[i], w[c], sums[c]);
    }
  }
};

struct Bf16Leaf final {
  static constexpr int64_t kElementBytes = 2;

  static void sum(const float* a, const std::byte* panel, int64_t k, int columns, float* sums) {
    for (int64_t i = 0; i < k; i += 2) {
      uint16_t w[kColumns][2];
      std::memcpy(w, panel + i / 2 * static_cast<int64_t>(sizeof(w)), sizeof(w));
      for (int c = 0; c < columns; ++c) {
        const float odd = std::fma(a[i + 1], bf16_to_f32(w[c][1]), sums[c]);
        sums[c] = std::fma(a[i], bf16_to_f32(w[c][0]), odd);
      }
    }
  }
};

template <class Leaf>
void tile(const TileArgs& args) {
  const int columns = args.vectors * kVectorColumns;
  const int64_t leaf_bytes = args.leaf_k * kPanelColumns * Leaf::kElementBytes;
  for (int r = 0; r < args.rows; ++r) {
    const float* const a = static_cast<const float*>(args.a) + r * args.a_stride;
    float waiting[kMaxTreeDepth][kColumns];
    float sums[kColumns];
    int depth = 0;
    for (int leaf = 0; leaf < args.leaves; ++leaf) {
      for (float& sum : sums)
        sum = 0.0f;
      Leaf::sum(a + leaf * args.leaf_k, args.panel + leaf * leaf_bytes, args.leaf_k, columns, sums);
      // Leaf number 0b..0111 completes three subtrees: each trailing one is a waiting left neighbour.
      for (int ones = leaf; (ones & 1) != 0; ones >>= 1) {
        --depth;
        for (int c = 0; c < columns; ++c)
          sums[c] = waiting[depth][c] + sums[c];
      }
      if (leaf + 1 < args.leaves) std::memcpy(waiting[depth++], sums, sizeof(sums));
    }
    float* const out = args.out + r * args.ldo;
    for (int c = 0; c < columns; ++c) {
      const float sum = args.bias != nullptr ? sums[c] + args.bias[c] : sums[c];
      out[c] = args.accumulate ? out[c] + sum : sum;
    }
  }
}

void round(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<float*>(to));
}

template <class Leaf>
constexpr TileTable make_table(RoundFunction round_function) {
  TileTable table;
  for (auto& row : table.tile) {
    for (TileFunction& function : row)
      function = tile<Leaf>;
  }
  table.round = round_function;
  return table;
}

}  // namespace

constinit const TileTable kPortableF32 = make_table<F32Leaf>(nullptr);
constinit const TileTable kPortableBf16 = make_table<Bf16Leaf>(round);

}  // namespace krait::kernels
