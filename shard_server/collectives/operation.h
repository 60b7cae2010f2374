// An operation cut into steps: which bytes of whose part travel in which step. Plain arithmetic, the same on all ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/wire_rows.h"

namespace krait::collectives {

/// A stretch of one rank's part.
struct Range final {
  int64_t begin_bytes = 0;
  int64_t bytes = 0;
};

struct Operation final {
  OpKind kind = OpKind::kBarrier;
  uint32_t sequence = 0;
  uint32_t detail = 0;                                 // see StepNote
  int64_t rows = 0;                                    // as they travel; of a reduce-scatter as many for each rank
  std::array<int64_t, limits::kMaxWorld> row_bytes{};  // of each rank's part; 0 for a rank that gives nothing
  uint64_t shape_hash = 0;
  WireRows sum;  // of the two kinds of sum
  RowSink* sink = nullptr;
  int64_t sink_width = 1;  // elements of a row, as the sink counts them
  int64_t sunk_rows = 0;   // that it has
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t chunk_bytes = 1;  // of a part in one step
  int64_t row_chunks = 1;   // of a sum's row that does not fit one
  uint32_t chunks = 1;      // at least one: an empty operation still meets
  bool two_shot = false;
  int64_t stage_bytes = 0;  // what cut() is called with

  int64_t first_step = 0;
  uint32_t posted = 0;       // chunks this rank has posted
  uint32_t completed = 0;    // chunks that all ranks have posted and this rank has taken in
  bool has_reduced = false;  // this rank's stripe of the next one
  int64_t time_ns = 0;
  int64_t wait_ns = 0;

  const float* floats_in() const { return reinterpret_cast<const float*>(in); }
  float* floats_out() const { return reinterpret_cast<float*>(out); }
  bool is_sum() const { return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter; }
  int64_t part_bytes(int rank) const { return rows * row_bytes[static_cast<size_t>(rank)]; }

  Range part_range(int rank, uint32_t chunk) const;
  /// The rows, or blocks of a row, of a sum's chunk.
  WireChunk sum_chunk(uint32_t chunk) const;
  /// Elements of an all-reduce that are there once the chunk is.
  int64_t elements_through(uint32_t chunk) const;
  /// Of a reduce-scatter's chunk, what rank `owner` of `world` gets; its rows are numbered within the owner's stripe.
  /// The ranks' rows take turns, so that all of them add in every chunk.
  WireChunk scatter_chunk(int owner, int world, uint32_t chunk) const;
  /// Where that lies in the stage.
  Range scatter_range(int owner, int world, uint32_t chunk) const;
  /// Of rank `from`'s stage, what rank `to` of `world` needs when `from` has posted or reduced the chunk.
  Range needed_range(Counter which, int from, int to, int world, uint32_t chunk) const;

  /// Cuts the operation into chunks of at most `stage_bytes`: of whole rows where a row fits; else a sum's row is cut
  /// where its blocks are, other parts anywhere.
  void cut(int world, int64_t stage_bytes);

  StepNote note(int rank, uint32_t chunk) const {
    // Where ranks give different sizes, the hash of all sizes stands for them.
    const int64_t bytes = is_sum() ? row_bytes[static_cast<size_t>(rank)] : 0;
    return StepNote{kind, sequence, chunk, detail, rows, bytes, shape_hash};
  }
};

/// FNV-1a over sizes, so that ranks notice when they disagree about them.
uint64_t hash_sizes(std::span<const int64_t> sizes);

/// "all_reduce 7 of 3 rows x 64 bytes (chunk 0)", for the report of a disagreement.
std::string describe(const StepNote& note);

}  // namespace krait::collectives
