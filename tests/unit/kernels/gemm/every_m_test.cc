// Every number of rows from 1 to 512, and every aligned cut of K, at the shapes of mamba-130m and mamba-370m: the bits
// are those of 512 rows on one rank, which gemm_test.cc compares with the reference. Each number of rows is tried on a
// window of columns that moves on with it, so that together they see all of a matrix.
#include "tests/support/draws.h"
#include "tests/unit/kernels/gemm/gemm_support.h"

namespace krait::kernels {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kWindow = 2 * kPanelColumns;

/// The whole matrix, and its parts for one number of ranks.
struct CutWeights final {
  CutWeights(const std::vector<float>& rows, DType dtype, const Shape& shape, int ranks) {
    const int64_t rank_k = shape.k / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      parts.push_back(std::make_unique<PackedWeights>(rows, dtype, shape.n, shape.k, 8 / ranks, rank * rank_k,
                                                      (rank + 1) * rank_k));
    }
  }
  std::vector<std::unique_ptr<PackedWeights>> parts;
};

/// Columns [begin, end) of the last m rows: every rank's part, added as a balanced tree.
std::vector<float> tree_sum(Stream& stream, const CutWeights& weights, const std::vector<float>& a, int64_t k,
                            int64_t m, int64_t begin, int64_t end, const Workspace& workspace) {
  std::vector<std::vector<float>> sums;
  for (const auto& part : weights.parts) {
    auto& out = sums.emplace_back(static_cast<size_t>(m * (end - begin)));
    const int64_t offset = static_cast<int64_t>(sums.size() - 1) * part->matrix().k;
    gemm(stream, {.a = a.data() + (kRows - m) * k + offset,
                  .lda = k,
                  .m = m,
                  .weights = &part->matrix(),
                  .out = out.data(),
                  .ldo = end - begin,
                  .column_begin = begin,
                  .column_end = end,
                  .workspace = workspace.span()});
  }
  return add_as_tree(std::move(sums));
}

class EveryMTest : public ::testing::TestWithParam<Shape> {};

TEST_P(EveryMTest, AndEveryAlignedCutOfKGivesTheBitsOfTheWhole) {
  const Shape shape = GetParam();
  const std::vector<float> a = random_values(kRows * shape.k, 7);
  const std::vector<float> rows = random_values(shape.n * shape.k, 8, 0.05);
  Stream stream({.threads = 2, .path = best_cpu_path(), .may_spin = false});
  for (const DType dtype : kDTypes) {
    const Workspace workspace(gemm_workspace_bytes(kRows, shape.k, dtype));
    const PackedWeights whole(rows, dtype, shape.n, shape.k, 8);
    const std::vector<float> wanted = product(stream, whole.matrix(), a, 0, kRows, workspace);
    for (const int ranks : {1, 2, 4, 8}) {
      const CutWeights cut(rows, dtype, shape, ranks);
      // Where all is slow, one in 37: with 512 it still meets every number of rows in a tile's remainder.
      const int64_t pace = test::draws({.usual = 1, .sanitized = 37});
      for (int64_t m = 1; m <= kRows; m += pace) {
        const int64_t begin = m % whole.matrix().panels() * kPanelColumns;
        const int64_t end = std::min(shape.n, begin + kWindow);
        const auto found = tree_sum(stream, cut, a, shape.k, m, begin, end, workspace);
        for (int64_t row = 0; row < m; ++row) {
          ASSERT_EQ(first_difference(found.data() + row * (end - begin),
                                     wanted.data() + (kRows - m + row) * shape.n + begin, end - begin),
                    "")
              << shape.name << " " << dtype_name(dtype) << " ranks " << ranks << " m " << m << " row " << row;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryMTest, ::testing::ValuesIn(kModelShapes), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace krait::kernels
