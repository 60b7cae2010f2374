// Every path gives the reference's bits, for every number of rows, cut of K, number of threads and range of columns.
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/units.h"
#include "kernels/gemm/gemm_tile.h"
#include "tests/unit/kernels/gemm/gemm_support.h"

namespace krait::kernels {
namespace {

TEST(GemmTest, EveryNumberOfRowsGivesTheReferenceBits) {
  constexpr int64_t kN = 80, kK = 48, kRows = 512;
  for (const DType dtype : kDTypes) {
    const PackedWeights weights(random_values(kN * kK, 1), dtype, kN, kK, 8);
    const std::vector<float> a = random_values(kRows * kK, 2);
    const std::vector<float> wanted = reference(weights.matrix(), a, kRows, 0, kRows);
    const Workspace workspace(gemm_workspace_bytes(kRows, kK, dtype));
    for (const CpuPath path : paths_here()) {
      Stream stream({.threads = 2, .path = path, .may_spin = false});
      // The portable path takes rows one by one, and slowly: beyond the first ones it tries some numbers only.
      const int64_t stride = path == CpuPath::kPortable ? 31 : 1;
      for (int64_t m = 1; m <= kRows; m += m < 32 ? 1 : stride) {
        const int64_t row = kRows - m;  // another offset for each m
        const std::vector<float> found = product(stream, weights.matrix(), a, row, m, workspace);
        ASSERT_EQ(first_difference(found.data(), wanted.data() + row * kN, m * kN), "")
            << cpu_path_name(path) << " " << dtype_name(dtype) << " m " << m;
      }
    }
  }
}

class ModelShapeTest : public ::testing::TestWithParam<Shape> {};

TEST_P(ModelShapeTest, FastPathsEqualTheReferenceAndRowsDoNotSeeTheirNeighbours) {
  const Shape shape = GetParam();
  constexpr int64_t kRows = 512;
  const std::vector<float> a = random_values(kRows * shape.k, 3);
  const std::vector<float> rows = random_values(shape.n * shape.k, 4, 0.05);
  for (const DType dtype : kDTypes) {
    const PackedWeights weights(rows, dtype, shape.n, shape.k, shape.leaves);
    const Workspace workspace(gemm_workspace_bytes(kRows, shape.k, dtype));
    // A row of the reference costs as much as fifty of ours: the first and last rows stand for all.
    std::vector<float> wanted = reference(weights.matrix(), a, kRows, 0, 1);
    const std::vector<float> wanted_last = reference(weights.matrix(), a, kRows, kRows - 1, kRows);
    std::vector<float> all;
    for (const CpuPath path : paths_here()) {
      SCOPED_TRACE(fmt::format("{} {} {}", shape.name, cpu_path_name(path), dtype_name(dtype)));
      Stream stream({.threads = 2, .path = path, .may_spin = false});
      const int64_t m = path == CpuPath::kPortable ? 3 : kRows;
      if (path == CpuPath::kPortable) {
        const std::vector<float> found = product(stream, weights.matrix(), a, 0, m, workspace);
        ASSERT_EQ(first_difference(found.data(), wanted.data(), shape.n), "");
        all = found;
        continue;
      }
      const std::vector<float> found = product(stream, weights.matrix(), a, 0, m, workspace);
      ASSERT_EQ(first_difference(found.data(), wanted.data(), shape.n), "");
      ASSERT_EQ(first_difference(&found[(m - 1) * shape.n], &wanted_last[(m - 1) * shape.n], shape.n), "");
      ASSERT_EQ(first_difference(found.data(), all.data(), std::min(found.size(), all.size())), "");
      all = found;
      for (const int64_t few : {1, 2, 5, 6, 7, 8, 13, 32, 100}) {
        const int64_t row = (few * 37) % (kRows - few);
        const std::vector<float> part = product(stream, weights.matrix(), a, row, few, workspace);
        ASSERT_EQ(first_difference(part.data(), &found[row * shape.n], few * shape.n), "") << "m " << few;
      }
    }
  }
}

TEST_P(ModelShapeTest, EveryAlignedCutOfKGivesTheWhole) {
  const Shape shape = GetParam();
  if (shape.k % 8 != 0) return;  // none of the shapes
  constexpr int64_t kRows = 9;
  const std::vector<float> a = random_values(kRows * shape.k, 5);
  const std::vector<float> rows = random_values(shape.n * shape.k, 6, 0.05);
  Stream stream({.threads = 2, .path = best_cpu_path(), .may_spin = false});
  for (const DType dtype : kDTypes) {
    const Workspace workspace(gemm_workspace_bytes(kRows, shape.k, dtype));
    const PackedWeights whole(rows, dtype, shape.n, shape.k, 8);
    const std::vector<float> wanted = product(stream, whole.matrix(), a, 0, kRows, workspace);
    for (const int ranks : {1, 2, 4, 8}) {
      const int64_t rank_k = shape.k / ranks;
      std::vector<std::vector<float>> sums;
      for (int rank = 0; rank < ranks; ++rank) {
        const PackedWeights part(rows, dtype, shape.n, shape.k, 8 / ranks, rank * rank_k, (rank + 1) * rank_k);
        std::vector<float> out(static_cast<size_t>(kRows * shape.n));
        gemm(stream, {.a = a.data() + rank * rank_k,
                      .lda = shape.k,
                      .m = kRows,
                      .weights = &part.matrix(),
                      .out = out.data(),
                      .ldo = shape.n,
                      .workspace = workspace.span()});
        sums.push_back(std::move(out));
      }
      const std::vector<float> sum = add_as_tree(std::move(sums));
      ASSERT_EQ(first_difference(sum.data(), wanted.data(), kRows * shape.n), "")
          << shape.name << " " << dtype_name(dtype) << " ranks " << ranks;
    }
  }
}

TEST_P(ModelShapeTest, ErrorAgainstDoubleIsThatOfAFloatSum) {
  const Shape shape = GetParam();
  constexpr int64_t kRows = 4;
  const std::vector<float> a = random_values(kRows * shape.k, 7);
  const std::vector<float> rows = random_values(shape.n * shape.k, 8, 0.05);
  Stream stream({.path = best_cpu_path()});
  for (const DType dtype : kDTypes) {
    const PackedWeights weights(rows, dtype, shape.n, shape.k, shape.leaves);
    const Workspace workspace(gemm_workspace_bytes(kRows, shape.k, dtype));
    const std::vector<float> found = product(stream, weights.matrix(), a, 0, kRows, workspace);
    const GemmArgs args{.a = a.data(), .lda = shape.k, .m = kRows, .weights = &weights.matrix()};
    // A chain of fused multiply-adds errs by at most half a unit in the last place of a partial sum each; with integers
    // it has two roundings a group.
    const int64_t leaf_k = shape.k / shape.leaves;
    const int64_t roundings = !is_quantized(dtype) ? leaf_k : 2 * ceil_div(leaf_k, dtype == DType::kI8 ? 64 : 32);
    const double bound = static_cast<double>(roundings + 3) * 0x1.0p-24;
    double used = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < shape.n; column += 7) {
        const ExactProduct exact = gemm_exact(args, row, column);
        const double error = std::abs(static_cast<double>(found[row * shape.n + column]) - exact.value);
        used = std::max(used, error / (bound * exact.magnitude));
      }
    }
    EXPECT_LE(used, 1.0) << shape.name << " " << dtype_name(dtype);
    std::printf("%s %s: %.4f of the tolerance used\n", shape.name, std::string(dtype_name(dtype)).c_str(), used);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelShapeTest, ::testing::ValuesIn(kModelShapes), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    letter = letter == ' ' ? '_' : letter;
  return name;
});

TEST(GemmTest, OddShapesAndThreads) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 3, 16, 17, 63, 64, 65, 130}) {
      for (const int64_t k : {1, 2, 5, 15, 64}) {
        const PackedWeights weights(random_values(n * k, 9), dtype, n, k, 1);
        constexpr int64_t kRows = 14;
        const std::vector<float> a = random_values(kRows * k, 10);
        const std::vector<float> wanted = reference(weights.matrix(), a, kRows, 0, kRows);
        const Workspace workspace(gemm_workspace_bytes(kRows, k, dtype));
        for (const CpuPath path : paths_here()) {
          for (const int threads : {1, 2, 3}) {
            Stream stream({.threads = threads, .path = path, .may_spin = false});
            const std::vector<float> found = product(stream, weights.matrix(), a, 0, kRows, workspace);
            ASSERT_EQ(first_difference(found.data(), wanted.data(), kRows * n), "")
                << cpu_path_name(path) << " " << dtype_name(dtype) << " n " << n << " k " << k << " t " << threads;
          }
        }
      }
    }
  }
}

TEST(GemmTest, PreparedRowsServeSeveralProductsWithTheirBits) {
  constexpr int64_t kM = 23, kK = 136;
  const auto a = random_values(kM * kK, 71);
  const auto rows = random_values(80 * kK, 72);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    const PackedWeights wide(rows, dtype, 80, kK, 2), narrow(rows, dtype, 17, kK, 2), other(rows, dtype, 17, kK, 1);
    const Workspace workspace(gemm_workspace_bytes(kM, kK, dtype)), room(gemm_workspace_bytes(kM, kK, dtype));
    for (const CpuPath path : paths_here()) {
      Stream stream({.threads = 2, .path = path});
      const PreparedRows prepared = prepare_rows(stream, a.data(), kK, kM, wide.matrix(), room.span());
      EXPECT_FALSE(prepared.fit(other.matrix()));
      for (const PackedWeights* weights : {&wide, &narrow}) {
        const PackedMatrix& matrix = weights->matrix();
        std::vector<float> out(static_cast<size_t>(kM * matrix.n), -1.0f);
        gemm(stream, {.prepared = &prepared, .m = kM, .weights = &matrix, .out = out.data(), .ldo = matrix.n});
        const std::vector<float> expected = product(stream, matrix, a, 0, kM, workspace);
        EXPECT_TRUE(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0)
            << weight_type_name(dtype) << " " << cpu_path_name(path);
      }
    }
  }
}

TEST(GemmTest, LeavesOfOddLengthArePaddedApart) {
  for (const DType dtype : kDTypes) {
    for (const int leaves : {1, 2, 4, 8}) {
      const int64_t n = 70, k = 5 * leaves;
      const PackedWeights weights(random_values(n * k, 11), dtype, n, k, leaves);
      const std::vector<float> a = random_values(7 * k, 12);
      const std::vector<float> wanted = reference(weights.matrix(), a, 7, 0, 7);
      const Workspace workspace(gemm_workspace_bytes(7, k, dtype));
      for (const CpuPath path : paths_here()) {
        Stream stream({.path = path});
        const std::vector<float> found = product(stream, weights.matrix(), a, 0, 7, workspace);
        ASSERT_EQ(first_difference(found.data(), wanted.data(), 7 * n), "")
            << cpu_path_name(path) << " " << dtype_name(dtype) << " leaves " << leaves;
      }
    }
  }
}

/// Few columns with many rows: blocks and threads cut inside of a panel.
TEST(GemmTest, ThreadCountsChangeNoBitWhereTheyCutRows) {
  constexpr int64_t kN = 80, kK = 512, kRows = 1500;
  for (const DType dtype : kDTypes) {
    const PackedWeights weights(random_values(kN * kK, 13), dtype, kN, kK, 8);
    const std::vector<float> a = random_values(kRows * kK, 14);
    const Workspace workspace(gemm_workspace_bytes(kRows, kK, dtype));
    Stream single({.path = best_cpu_path()});
    const std::vector<float> wanted = product(single, weights.matrix(), a, 0, kRows, workspace);
    const std::vector<float> last = reference(weights.matrix(), a, kRows, kRows - 1, kRows);
    ASSERT_EQ(first_difference(&wanted[(kRows - 1) * kN], &last[(kRows - 1) * kN], kN), "");
    for (const int threads : {2, 3, 5, 16}) {
      Stream stream({.threads = threads, .path = best_cpu_path(), .may_spin = false});
      const std::vector<float> found = product(stream, weights.matrix(), a, 0, kRows, workspace);
      ASSERT_EQ(first_difference(found.data(), wanted.data(), kRows * kN), "") << threads;
    }
  }
}

struct Range final {
  int64_t begin;
  int64_t end;
};

TEST(GemmTest, RangesBiasAndAccumulationTouchExactlyTheirColumns) {
  constexpr int64_t kN = 200, kK = 64, kRows = 8;
  const std::vector<float> bias = random_values(kN, 15);
  for (const DType dtype : kDTypes) {
    const PackedWeights weights(random_values(kN * kK, 16), dtype, kN, kK, 4);
    const std::vector<float> a = random_values(kRows * (kK + 3), 17);
    const Workspace workspace(gemm_workspace_bytes(kRows, kK, dtype));
    for (const CpuPath path : paths_here()) {
      Stream stream({.threads = 2, .path = path, .may_spin = false});
      for (const Range range : {Range{0, -1}, {0, 64}, {64, 128}, {64, 200}, {3, 5}, {60, 70}, {100, 199}, {7, 7}}) {
        const int64_t width = (range.end < 0 ? kN : range.end) - range.begin;
        for (const int mode : {0, 1, 2, 3}) {
          const int64_t ldo = width + 5;  // the margin must stay as it was
          const std::vector<float> before = random_values(kRows * ldo, 18);
          std::vector<float> found = before;
          std::vector<float> wanted = before;
          GemmArgs args{.a = a.data(),
                        .lda = kK + 3,
                        .m = kRows,
                        .weights = &weights.matrix(),
                        .out = found.data(),
                        .ldo = ldo,
                        .accumulate = (mode & 1) != 0,
                        .bias = (mode & 2) != 0 ? bias.data() : nullptr,
                        .column_begin = range.begin,
                        .column_end = range.end,
                        .workspace = workspace.span()};
          gemm(stream, args);
          args.out = wanted.data();
          gemm_reference(args, 0, kRows);
          ASSERT_EQ(first_difference(found.data(), wanted.data(), kRows * ldo), "")
              << cpu_path_name(path) << " " << dtype_name(dtype) << " " << range.begin << ".." << range.end << " mode "
              << mode;
        }
      }
    }
  }
}

#if defined(__x86_64__)
struct NamedTable final {
  const char* name;
  const TileTable& table;
  DType dtype;
  bool runs_here;
};

/// Tables that tile_table() may not choose on this processor, because it has something better.
std::vector<NamedTable> tables_here() {
  const bool avx512 = best_cpu_path() >= CpuPath::kAvx512;
  const bool avx2 = best_cpu_path() >= CpuPath::kAvx2;
  return {{"bf16 dot", kAvx512Bf16Dot, DType::kBF16, best_cpu_path() >= CpuPath::kAvx512Bf16},
          {"int8 AVX-512", kAvx512Int8, DType::kI8, avx512},
          {"int4 AVX-512", kAvx512Int4, DType::kI4, avx512},
          {"int8 AVX-512 VNNI", kAvx512Int8Dot, DType::kI8, avx512 && __builtin_cpu_supports("avx512vnni")},
          {"int4 AVX-512 VNNI", kAvx512Int4Dot, DType::kI4, avx512 && __builtin_cpu_supports("avx512vnni")},
          {"int8 AVX2", kAvx2Int8, DType::kI8, avx2},
          {"int4 AVX2", kAvx2Int4, DType::kI4, avx2}};
}

TEST(GemmTest, EveryTableGivesTheReferenceBits) {
  constexpr int64_t kLeafK = 72, kK = 8 * kLeafK, kN = 64;
  int tried = 0;
  for (const NamedTable& named : tables_here()) {
    if (!named.runs_here) continue;
    ++tried;
    const PackedWeights weights(random_values(kN * kK, 21), named.dtype, kN, kK, 8);
    const std::vector<float> a = random_values(kTileRows * kK, 22);
    const std::vector<float> wanted = reference(weights.matrix(), a, kTileRows, 0, kTileRows);
    const int64_t row_bytes = gemm_workspace_bytes(1, kK, named.dtype);
    std::vector<std::byte> rounded(static_cast<size_t>(kTileRows * row_bytes));
    for (int64_t r = 0; r < kTileRows; ++r)
      named.table.round(&a[static_cast<size_t>(r * kK)], 8, kLeafK, weights.matrix().padded_leaf_k(),
                        &rounded[static_cast<size_t>(r * row_bytes)]);
    for (int rows = 1; rows <= kTileRows; ++rows) {
      for (int vectors = 1; vectors <= kTileVectors; ++vectors) {
        std::vector<float> out(kTileRows * kN, -1.0f);
        named.table.tile[rows - 1][vectors - 1]({.a = rounded.data(),
                                                 .a_stride = row_bytes / named.table.activation_bytes,
                                                 .panel = weights.matrix().data,
                                                 .leaves = 8,
                                                 .leaf_k = weights.matrix().padded_leaf_k(),
                                                 .prefetch = weights.matrix().data,
                                                 .out = out.data(),
                                                 .ldo = kN,
                                                 .rows = rows,
                                                 .vectors = vectors});
        for (int r = 0; r < rows; ++r) {
          const int columns = vectors * kVectorColumns;
          ASSERT_EQ(first_difference(&out[static_cast<size_t>(r * kN)], &wanted[static_cast<size_t>(r * kN)], columns),
                    "")
              << named.name << " " << rows << " " << vectors;
          if (columns < kN) {
            ASSERT_EQ(out[static_cast<size_t>(r * kN + columns)], -1.0f) << named.name;
          }
        }
      }
    }
  }
  if (tried == 0) GTEST_SKIP() << "this processor has only the portable path";
}
#endif

/// What is no normal number: subnormal inputs of bf16 count as zero on every path, infinities and NaN stay visible.
TEST(GemmTest, SubnormalsAndSpecialValues) {
  constexpr int64_t kN = 64, kK = 6;
  std::vector<float> rows = random_values(kN * kK, 19);
  rows[0] = 0x1.8p-130f;
  std::vector<float> a = random_values(4 * kK, 20);
  a[1] = -0x1.4p-128f;
  a[kK] = std::numeric_limits<float>::infinity();
  a[2 * kK] = std::numeric_limits<float>::quiet_NaN();
  const PackedWeights weights(rows, DType::kBF16, kN, kK, 1);
  std::vector<float> unpacked(kK);
  unpack_row(weights.matrix(), 0, unpacked.data());
  EXPECT_EQ(unpacked[0], 0.0f);
  const std::vector<float> wanted = reference(weights.matrix(), a, 4, 0, 4);
  const Workspace workspace(gemm_workspace_bytes(4, kK, DType::kBF16));
  for (const CpuPath path : paths_here()) {
    Stream stream({.path = path});
    const std::vector<float> found = product(stream, weights.matrix(), a, 0, 4, workspace);
    EXPECT_EQ(first_difference(found.data(), wanted.data(), kN), "") << cpu_path_name(path);
    EXPECT_EQ(first_difference(&found[3 * kN], &wanted[3 * kN], kN), "") << cpu_path_name(path);
    for (int64_t c = 1; c < kN; ++c) {
      EXPECT_TRUE(std::isinf(found[kN + c])) << cpu_path_name(path) << " " << c;
      EXPECT_TRUE(std::isnan(found[2 * kN + c])) << cpu_path_name(path) << " " << c;
    }
  }
}

}  // namespace
}  // namespace krait::kernels
