// Splits a product into tiles and hands them to the threads.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/units.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/integer_groups.h"

namespace krait::kernels {
namespace {

constexpr int64_t kStepBytes = 256;          // of a panel: 64 cells of 4 bytes
constexpr int64_t kBlockBytes = 384 * kKiB;  // of activations that stay near the core while panels pass by
constexpr int64_t kFewGroups = 3;            // that many of few_rows: the weights still come from memory
constexpr int64_t kMinBlockGroups = 16;      // row groups that a panel serves once it has been read
// Below these, waking the team costs more than it saves: about a microsecond of work.
constexpr int64_t kInlineCost = 2048;        // tiles' cost times k
constexpr int64_t kInlineRoundings = 16384;  // activations

/// Elements between rows of activations in the workspace; bytes for integers, with what stands before their groups, and
/// enough for either type of them. The extra line keeps rows of a power of two out of the same cache sets.
int64_t workspace_stride(int64_t k, DType dtype) {
  if (!is_quantized(dtype)) return round_up(k + limits::kLeaves, 32) + 32;
  const int64_t heads = (k / kInt4Format.group_k + limits::kLeaves) * int64_t{sizeof(ActivationGroup)};
  const int64_t padding = limits::kLeaves * kInt8Format.group_k;  // each leaf may end with a group that is not whole
  return round_up(heads + k + padding, 64) + 64;
}

/// A product as a list of tiles. Rows are spread evenly over groups of at most kTileRows (few_rows where they are few);
/// groups form blocks whose activations stay in cache. Order of the tiles: block, panel, group; so a panel is read once
/// a block.
class TileList final {
 public:
  TileList(const GemmArgs& args, const TileTable& table, const PreparedRows& rows)
      : args_(args),
        weights_(*args.weights),
        table_(table),
        a_(rows.data),
        a_stride_(rows.stride),
        a_bytes_(table.activation_bytes),
        column_end_(args.column_end < 0 ? weights_.n : args.column_end),
        first_panel_(args.column_begin / kPanelColumns),
        panels_(ceil_div(column_end_, kPanelColumns) - first_panel_),
        groups_(ceil_div(args.m, args.m <= kFewGroups * table.few_rows ? table.few_rows : kTileRows)),
        panel_bytes_(weights_.panel_bytes()),
        leaf_k_(weights_.padded_leaf_k()) {
    const int64_t row_bytes = std::max<int64_t>(weights_.k * a_bytes_, 1);
    block_groups_ =
        std::clamp(kBlockBytes / row_bytes / kTileRows, kMinBlockGroups, std::max(groups_, kMinBlockGroups));
    group_cost_ = (panels_ - 1) * kTileVectors + vectors(panels_ - 1);
  }

  /// In 16 columns of one row group.
  int64_t cost() const { return groups_ * group_cost_; }

  /// Runs the tiles that begin in [begin, end) of the cost. Ranges that meet miss and repeat no tile.
  void run(int64_t begin, int64_t end) const {
    const int64_t last = tile_at(end);
    for (int64_t tile = tile_at(begin); tile < last;) {
      const int64_t block = tile / (panels_ * block_groups_);
      const int64_t in_block = tile - block * panels_ * block_groups_;
      const int64_t groups = groups_of(block);
      const int64_t group = in_block % groups;
      const int64_t count = std::min(groups - group, last - tile);
      run_panel(in_block / groups, block * block_groups_ + group, count);
      tile += count;
    }
  }

 private:
  int64_t groups_of(int64_t block) const { return std::min(block_groups_, groups_ - block * block_groups_); }

  /// Vectors of a panel that hold columns of the range.
  int vectors(int64_t panel) const {
    const int64_t columns = std::min(column_end_ - (first_panel_ + panel) * kPanelColumns, kPanelColumns);
    return static_cast<int>(ceil_div(columns, kVectorColumns));
  }

  /// The tile in which a position of the cost lies.
  int64_t tile_at(int64_t position) const {
    if (position >= cost()) return groups_ * panels_;
    const int64_t block = position / (group_cost_ * block_groups_);
    const int64_t in_block = position - block * group_cost_ * block_groups_;
    const int64_t whole_tiles = groups_of(block) * (panels_ - 1);  // of whole panels
    const int64_t past = in_block - whole_tiles * kTileVectors;
    const int64_t tile = past < 0 ? in_block / kTileVectors : whole_tiles + past / vectors(panels_ - 1);
    return block * panels_ * block_groups_ + tile;
  }

  int64_t first_row(int64_t group) const { return args_.m * group / groups_; }

  void run_panel(int64_t panel, int64_t group_begin, int64_t count) const {
    const int64_t column = (first_panel_ + panel) * kPanelColumns;
    const std::byte* const data = weights_.data + (first_panel_ + panel) * panel_bytes_;
    const int64_t next_offset = panel + 1 < panels_ ? panel_bytes_ : 0;
    // The groups of a block fetch the next panel together, evenly: bursts would hold up the reading of this one.
    const int64_t block_groups = groups_of(group_begin / block_groups_);
    const int64_t prefetch_bytes = std::min<int64_t>(kStepBytes / block_groups, 64);
    const int64_t group_bytes = panel_bytes_ / kStepBytes * prefetch_bytes;
    const int in_vectors = vectors(panel);
    const bool whole = column >= args_.column_begin && column + in_vectors * kVectorColumns <= column_end_;
    for (int64_t group = group_begin; group < group_begin + count; ++group) {
      const int64_t row = first_row(group);
      TileArgs tile{.a = static_cast<const std::byte*>(a_) + row * a_stride_ * a_bytes_,
                    .a_stride = a_stride_,
                    .panel = data,
                    .leaves = weights_.leaves,
                    .leaf_k = leaf_k_,
                    .prefetch = data + next_offset + group % block_groups_ * group_bytes,
                    .prefetch_bytes = prefetch_bytes,
                    .rows = static_cast<int>(first_row(group + 1) - row),
                    .vectors = in_vectors};
      if (whole) {
        tile.out = args_.out + row * args_.ldo + (column - args_.column_begin);
        tile.ldo = args_.ldo;
        tile.bias = args_.bias != nullptr ? args_.bias + column : nullptr;
        tile.accumulate = args_.accumulate;
        table_.tile[tile.rows - 1][in_vectors - 1](tile);
      } else {
        run_partial(tile, row, column);
      }
    }
  }

  /// A tile with columns outside of the range: computed aside, then the others are copied.
  void run_partial(TileArgs& tile, int64_t row, int64_t column) const {
    alignas(64) float scratch[kTileRows * kPanelColumns];
    tile.out = scratch;
    tile.ldo = kPanelColumns;
    table_.tile[tile.rows - 1][tile.vectors - 1](tile);
    const int64_t begin = std::max(column, args_.column_begin);
    const int64_t end = std::min(column + kPanelColumns, column_end_);
    for (int64_t r = 0; r < tile.rows; ++r) {
      for (int64_t c = begin; c < end; ++c) {
        float sum = scratch[r * kPanelColumns + c - column];
        if (args_.bias != nullptr) sum += args_.bias[c];
        float& out = args_.out[(row + r) * args_.ldo + c - args_.column_begin];
        out = args_.accumulate ? out + sum : sum;
      }
    }
  }

  const GemmArgs& args_;
  const PackedMatrix& weights_;
  const TileTable& table_;
  const void* const a_;
  const int64_t a_stride_;
  const int64_t a_bytes_;
  const int64_t column_end_;
  const int64_t first_panel_;
  const int64_t panels_;
  const int64_t groups_;
  const int64_t panel_bytes_;
  const int64_t leaf_k_;  // padded
  int64_t block_groups_ = 0;
  int64_t group_cost_ = 0;
};

void check_args(const GemmArgs& args) {
  CHECK(args.weights != nullptr);
  const PackedMatrix& weights = *args.weights;
  const int64_t column_end = args.column_end < 0 ? weights.n : args.column_end;
  CHECK_GE(args.m, 0);
  CHECK(args.column_begin >= 0 && args.column_begin <= column_end && column_end <= weights.n);
  CHECK(args.m <= 1 || args.ldo >= column_end - args.column_begin);
  CHECK_EQ(reinterpret_cast<uintptr_t>(weights.data) % 64, 0u);
  if (args.prepared != nullptr) {
    CHECK(args.prepared->fit(weights));
    CHECK_LE(args.m, args.prepared->m);
  }
}

/// On the calling thread `alone`, else over the team.
void split(Stream& stream, int64_t count, bool alone, FunctionRef<void(int64_t begin, int64_t end)> work) {
  if (alone) {
    work(0, count);
  } else {
    stream.parallel_for(count, 1, work);
  }
}

#if defined(__x86_64__)
/// Whether vdpbf16ps is worth its name. Intel's runs it at a quarter of the rate of plain multiply-adds (measured on
/// Sapphire Rapids: 120 against 240 Gop/s a core), so that widening the weights first is 1.6 times as fast; AMD's at
/// the full rate. The bits are the same for normal numbers (gemm_arithmetic), and the choice depends on the maker
/// alone, never on a measurement.
bool dot_is_fast() {
  return !__builtin_cpu_is("intel");
}

/// AVX-VNNI: the dot product of bytes in AVX's own encoding. clang 14 does not know its name.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

}  // namespace

const TileTable& tile_table(CpuPath path, DType dtype) {
  const auto of_type = [dtype](const TileTable& f32, const TileTable& bf16, const TileTable& int8,
                               const TileTable& int4) -> const TileTable& {
    if (dtype == DType::kF32) return f32;
    if (dtype == DType::kBF16) return bf16;
    return dtype == DType::kI8 ? int8 : int4;
  };
#if defined(__x86_64__)
  // How sums of integers come about changes no bit, so each processor may do it as it can.
  const bool dot = path >= CpuPath::kAvx512 ? __builtin_cpu_supports("avx512vnni") : has_avx_vnni();
  const TileTable& wide_int8 = dot ? kAvx512Int8Dot : kAvx512Int8;
  const TileTable& wide_int4 = dot ? kAvx512Int4Dot : kAvx512Int4;
  switch (path) {
    case CpuPath::kPortable:
      break;
    case CpuPath::kAvx2:
      return of_type(kAvx2F32, kAvx2Bf16, dot ? kAvx2Int8Dot : kAvx2Int8, dot ? kAvx2Int4Dot : kAvx2Int4);
    case CpuPath::kAvx512:
      return of_type(kAvx512F32, kAvx512Bf16Widened, wide_int8, wide_int4);
    case CpuPath::kAvx512Bf16:
      return of_type(kAvx512F32, dot_is_fast() ? kAvx512Bf16Dot : kAvx512Bf16Widened, wide_int8, wide_int4);
  }
#endif
  return of_type(kPortableF32, kPortableBf16, kPortableInt8, kPortableInt4);
}

std::string_view gemm_arithmetic([[maybe_unused]] CpuPath path, [[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
  if (path == CpuPath::kAvx512Bf16 && dtype == DType::kBF16 && dot_is_fast()) return "dot";
#endif
  return "fma";
}

int64_t gemm_workspace_bytes(int64_t max_m, int64_t k, DType dtype) {
  if (dtype == DType::kF32) return 0;
  // Paths without bf16 instructions keep the rounded values as float.
  return max_m * workspace_stride(k, dtype) * (is_quantized(dtype) ? 1 : 4);
}

PreparedRows prepare_rows(Stream& stream, const float* a, int64_t lda, int64_t m, const PackedMatrix& weights,
                          std::span<std::byte> room) {
  CHECK(m <= 1 || lda >= weights.k);
  PreparedRows rows{a, lda, m, weights.dtype, weights.k, weights.leaves};
  const TileTable& table = tile_table(stream.path(), weights.dtype);
  if (table.round == nullptr) return rows;
  CHECK_GE(static_cast<int64_t>(room.size()), gemm_workspace_bytes(m, weights.k, weights.dtype));
  CHECK_EQ(reinterpret_cast<uintptr_t>(room.data()) % 64, 0u);
  rows.data = room.data();
  rows.stride = workspace_stride(weights.k, weights.dtype);
  const int64_t row_bytes = rows.stride * table.activation_bytes;
  const auto round_rows = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      table.round(a + row * lda, weights.leaves, weights.leaf_k(), weights.padded_leaf_k(),
                  room.data() + row * row_bytes);
    }
  };
  const KernelTimer timer(stream, KernelKind::kGemm);
  split(stream, m, m * weights.k < kInlineRoundings, round_rows);
  return rows;
}

void gemm(Stream& stream, const GemmArgs& args) {
  check_args(args);
  const PackedMatrix& weights = *args.weights;
  if (args.m == 0 || args.column_begin == (args.column_end < 0 ? weights.n : args.column_end)) return;
  const PreparedRows rows = args.prepared != nullptr
                                ? *args.prepared
                                : prepare_rows(stream, args.a, args.lda, args.m, weights, args.workspace);
  const KernelTimer timer(stream, KernelKind::kGemm);
  const TileList tiles(args, tile_table(stream.path(), weights.dtype), rows);
  const bool alone = tiles.cost() * weights.k < kInlineCost;
  split(stream, tiles.cost(), alone, [&](int64_t begin, int64_t end) { tiles.run(begin, end); });
}

}  // namespace krait::kernels
