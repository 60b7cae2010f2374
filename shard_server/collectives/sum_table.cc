#include "shard_server/collectives/sum_table.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/limits.h"

namespace krait::collectives {
namespace {

Error bad_row(size_t row, std::string why, std::string param) {
  return Error{Errc::kInvalidArgument, fmt::format("row {}: {}", row, std::move(why)), std::move(param)};
}

}  // namespace

Result<SumTable> SumTable::make(std::vector<SumAlgorithm> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const SumAlgorithm& row = rows[i];
    if (row.bytes < 1) return bad_row(i, fmt::format("a part of {} bytes", row.bytes), "bytes");
    if (row.stage_bytes < limits::kMinCollectiveStageBytes || row.stage_bytes > limits::kMaxCollectiveStageBytes) {
      return bad_row(i,
                     fmt::format("a stage of {} bytes is not within {} and {}", row.stage_bytes,
                                 limits::kMinCollectiveStageBytes, limits::kMaxCollectiveStageBytes),
                     "stage_bytes");
    }
    if (i == 0 || row.codec > rows[i - 1].codec) continue;
    if (row.codec < rows[i - 1].codec) return bad_row(i, "codecs are not in their order", "codec");
    if (row.bytes <= rows[i - 1].bytes) return bad_row(i, "bytes do not rise", "bytes");
  }
  SumTable table;
  table.rows_ = std::move(rows);
  return table;
}

const SumAlgorithm* SumTable::find(Codec codec, int64_t part_bytes) const {
  const auto is_before = [&](const SumAlgorithm& row) {
    return row.codec != codec ? row.codec < codec : row.bytes < part_bytes;
  };
  auto row = std::partition_point(rows_.begin(), rows_.end(), is_before);
  if (row != rows_.end() && row->codec == codec) return &*row;
  if (row == rows_.begin() || (--row)->codec != codec) return nullptr;
  return &*row;
}

int64_t SumTable::most_stage_bytes() const {
  int64_t most = 0;
  for (const SumAlgorithm& row : rows_)
    most = std::max(most, row.stage_bytes);
  return most;
}

uint64_t SumTable::digest() const {
  if (rows_.empty()) return 0;
  Digest digest;
  for (const SumAlgorithm& row : rows_) {
    const std::array<int64_t, 4> numbers = {static_cast<int64_t>(row.codec), row.bytes, row.two_shot ? 1 : 0,
                                            row.stage_bytes};
    digest.update(std::as_bytes(std::span(numbers)));
  }
  return digest.value();
}

Status check_size_codecs(const std::vector<SizeCodec>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].bytes < 1) return bad_row(i, fmt::format("a sum of {} bytes", rows[i].bytes), "bytes");
    if (i > 0 && rows[i].bytes <= rows[i - 1].bytes) return bad_row(i, "bytes do not rise", "bytes");
  }
  return {};
}

Codec codec_of_size(const std::vector<SizeCodec>& rows, int64_t bytes) {
  CHECK(!rows.empty());
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const SizeCodec& entry) { return bytes <= entry.bytes; });
  return row != rows.end() ? row->codec : rows.back().codec;
}

}  // namespace krait::collectives
