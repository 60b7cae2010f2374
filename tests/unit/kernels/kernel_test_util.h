// What the tests of several kernels share: the paths this machine can run, random data, comparison of bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/rng.h"
#include "kernels/device/stream.h"

namespace krait::kernels {

/// Every path that this machine can run, the portable one first. Says which on the test's record.
inline std::vector<CpuPath> runnable_paths() {
  std::vector<CpuPath> paths;
  for (const CpuPath path : {CpuPath::kPortable, CpuPath::kAvx2, CpuPath::kAvx512, CpuPath::kAvx512Bf16}) {
    if (path <= best_cpu_path()) paths.push_back(path);
  }
  testing::Test::RecordProperty("paths", static_cast<int>(paths.size()));
  return paths;
}

inline std::unique_ptr<Stream> make_stream(CpuPath path, int threads = 1) {
  return std::make_unique<Stream>(StreamOptions{.threads = threads, .path = path, .may_spin = false});
}

/// Uniform in [low, high).
inline std::vector<float> random_floats(SplitMix64& rng, int64_t count, double low, double high) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = static_cast<float>(low + (high - low) * rng.uniform());
  return values;
}

/// Sets the lanes from `channels` to the next multiple of 16 of each row of [rows][stride] to zero.
inline void clear_padding(std::vector<float>& values, int64_t channels, int64_t stride) {
  const int64_t padded = (channels + 15) / 16 * 16;
  for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(stride)) {
    for (int64_t c = channels; c < padded; ++c)
      values[begin + static_cast<size_t>(c)] = 0.0f;
  }
}

/// How many floats differ in any bit.
inline int64_t different_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return -1;
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  return count;
}

}  // namespace krait::kernels
