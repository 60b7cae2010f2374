// How a flat step batch is cut into sequences: the one seam of the state kernels (conv and scan).
#pragma once

#include <cstdint>
#include <span>

namespace krait::kernels {

/// Consecutive rows of the batch that continue one sequence. `in_slot` holds the state before the first row (-1: the
/// zero state); the state after the last row goes to `out_slot` (-1: it is dropped). The two may be equal; when they
/// differ, the input slot is only read. Within one call no slot that a run or a tap writes may be touched by another
/// run, and no two writes may name the same slot; any number of runs may read one slot.
struct Run final {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t in_slot = -1;
  int32_t out_slot = -1;
};

/// After `row` has been processed the state is also written to `slot`. Taps are sorted by row; several may name one
/// row; a tap whose row lies in no run is ignored.
struct Tap final {
  int32_t row = 0;
  int32_t slot = 0;
};

/// The first tap at or after `row`.
inline const Tap* first_tap(std::span<const Tap> taps, int32_t row) {
  const Tap* tap = taps.data();
  while (tap != taps.data() + taps.size() && tap->row < row)
    ++tap;
  return tap;
}

/// Lanes of a channel block: channel counts are padded to a multiple of this.
inline constexpr int64_t kChannelBlock = 16;

constexpr int64_t padded_channels(int64_t channels) {
  return (channels + kChannelBlock - 1) / kChannelBlock * kChannelBlock;
}

}  // namespace krait::kernels
