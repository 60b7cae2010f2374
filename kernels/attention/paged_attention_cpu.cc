#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "kernels/attention/paged_attention.h"

#define KRAIT_SIMD_BODY "kernels/attention/paged_attention.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {
namespace {

constexpr int64_t kTileRows = 4;  // kMostRows of the body

int64_t tiles_of(const AttentionRun& run) {
  return (run.rows + kTileRows - 1) / kTileRows;
}

}  // namespace

void append_kv(Stream& stream, const AppendKvArgs& args) {
  const KernelTimer timer(stream, KernelKind::kAttention);
  const int64_t head_dim = args.pages.head_dim;
  stream.parallel_for(args.pages.heads, 1, [&](int64_t begin, int64_t end) {
    for (const AttentionRun& run : args.runs) {
      for (int64_t i = 0; i < run.rows; ++i) {
        const int64_t token = run.position + i;
        float* page = args.pages.base + run.pages[static_cast<size_t>(token / kPageTokens)] * args.pages.page_stride;
        const int64_t within = token % kPageTokens;
        for (int64_t head = begin; head < end; ++head) {
          float* keys = page + head * args.pages.head_floats();
          const int64_t at = (run.row_begin + i) * args.stride + head * head_dim;
          for (int64_t d = 0; d < head_dim; ++d)
            keys[d * kPageTokens + within] = args.k[at + d];
          std::memcpy(keys + (kPageTokens + within) * head_dim, args.v + at,
                      static_cast<size_t>(head_dim) * sizeof(float));
        }
      }
    }
  });
}

void read_kv(const KvPages& pages, int64_t head, std::span<const int32_t> page_ids, int64_t tokens, float* keys,
             float* values) {
  for (int64_t token = 0; token < tokens; ++token) {
    const float* page = pages.base + page_ids[static_cast<size_t>(token / kPageTokens)] * pages.page_stride +
                        head * pages.head_floats();
    const int64_t within = token % kPageTokens;
    for (int64_t d = 0; d < pages.head_dim; ++d) {
      keys[token * pages.head_dim + d] = page[d * kPageTokens + within];
      values[token * pages.head_dim + d] = page[(kPageTokens + within) * pages.head_dim + d];
    }
  }
}

void paged_attention(Stream& stream, const PagedAttentionArgs& args) {
  const KernelTimer timer(stream, KernelKind::kAttention);
  const CpuPath path = stream.path();
  for (const AttentionRun& run : args.runs)
    CHECK_GE(static_cast<int64_t>(run.pages.size()) * kPageTokens, run.position + run.rows);
  // Late rows see more than early ones, so that heads are shared among threads and not rows; only where heads are few,
  // tiles of rows are dealt out as well, in turn.
  const int64_t threads = stream.threads();
  const int64_t deals = args.heads >= threads ? 1 : threads;
  stream.parallel_for(args.heads * deals, 1, [&args, path, deals](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t head = unit / deals;
      int64_t tile = 0;  // over all runs
      for (const AttentionRun& run : args.runs) {
        for (int64_t i = 0; i < tiles_of(run); ++i, ++tile) {
          if (tile % deals != unit % deals) continue;
          const int64_t first = i * kTileRows;
          const int64_t count = std::min(kTileRows, run.rows - first);
          KRAIT_SIMD_CALL(path, attend_rows, args, run, first, count, head);
        }
      }
    }
  });
}

}  // namespace krait::kernels
