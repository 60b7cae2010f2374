// Which algorithm a sum runs by, by its codec and size: measured by krait-tune, the same on every rank. Bits do not
// hang on it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "shard_server/collectives/codec.h"

namespace krait::collectives {

/// One row: parts of `codec` up to and including `bytes`, and where no row goes further, all larger ones too.
struct SumAlgorithm final {
  Codec codec = Codec::kFloat32;
  int64_t bytes = 0;  // of a rank's part as it travels
  bool two_shot = false;
  int64_t stage_bytes = 0;  // of a part, on the way in one step
  friend bool operator==(const SumAlgorithm&, const SumAlgorithm&) = default;
};

class SumTable final {
 public:
  /// No rows: whoever asks has defaults.
  SumTable() = default;
  /// kInvalidArgument, naming the row, where bytes do not rise within a codec or a stage is beyond its limits.
  static Result<SumTable> make(std::vector<SumAlgorithm> rows);

  /// The row for a part of that many bytes; null for a codec without rows.
  const SumAlgorithm* find(Codec codec, int64_t part_bytes) const;
  bool is_empty() const { return rows_.empty(); }
  /// 0 where there are no rows.
  int64_t most_stage_bytes() const;
  /// Of all rows, so that ranks notice when theirs differ. 0 where there are none.
  uint64_t digest() const;

 private:
  std::vector<SumAlgorithm> rows_;  // by codec, then bytes
};

/// A codec by the size of a sum: of those of up to and including `bytes` as floats, and beyond the last row.
struct SizeCodec final {
  int64_t bytes = 0;
  Codec codec = Codec::kFloat32;
  friend bool operator==(const SizeCodec&, const SizeCodec&) = default;
};
/// kInvalidArgument, naming the row, where bytes do not rise.
Status check_size_codecs(const std::vector<SizeCodec>& rows);
/// `rows` is not empty.
Codec codec_of_size(const std::vector<SizeCodec>& rows, int64_t bytes);

}  // namespace krait::collectives
