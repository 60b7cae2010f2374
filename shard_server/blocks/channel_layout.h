// Where a rank's inner channels lie in the rows of a mixer's buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/partition.h"
#include "kernels/device/stream.h"

namespace krait::shard {

/// Who adds up what is summed for each part of a mixer (UnitConfig::parts): nobody where every rank holds whole parts,
/// the rank's sub-group where the partition nests in parts, else all.
enum class PartSum { kNobody, kSubGroup, kEveryRank };
PartSum part_sum(const ModelConfig& config, const Partition& partition, Unit unit);

/// Channels of one piece of the mixer (a head of Zamba, a group of Mamba-2) that one rank holds.
struct ChannelPart final {
  int64_t piece = 0;     // of the whole mixer
  int64_t first = 0;     // of the rank's channels
  int64_t channels = 0;  // at least 1
  int64_t offset = 0;    // in a row, a multiple of 16

  /// Floats of the part in a row: its channels and zeros up to a multiple of 16.
  int64_t padded() const;
};

/// The rank's channels part by part, each part padded for itself, so that a kernel's block of 16 channels has one B and
/// one C. A mixer of one piece has one part.
class ChannelLayout final {
 public:
  ChannelLayout() = default;
  /// `local`: the rank's channels, of `total` that fall into `pieces` equal pieces.
  ChannelLayout(Range local, int64_t total, int64_t pieces);

  int64_t channels() const { return channels_; }
  /// Floats of a row.
  int64_t padded() const { return padded_; }
  const std::vector<ChannelPart>& parts() const { return parts_; }
  /// The place of each channel in a row.
  const std::vector<int64_t>& places() const { return places_; }
  /// Whether channels lie side by side, with zeros only after the last.
  bool dense() const;

  /// A slot's blocked ssm_state [padded() / 16][N][16] as rows of [channels()][N].
  void unblock(const float* blocked, int64_t state_size, float* plain) const;

  /// Moves the channels of every row side by side, so that a product may run over them. Nothing to do when dense.
  void compact(kernels::Stream& stream, float* x, int64_t rows) const;

 private:
  std::vector<ChannelPart> parts_;
  std::vector<int64_t> places_;
  int64_t channels_ = 0;
  int64_t padded_ = 0;
};

}  // namespace krait::shard
