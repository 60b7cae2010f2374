// The matrix product against what this machine can do: share of the peak of its multiply-add instructions for many
// rows, share of its read rate for one. Prints a table; judges nothing.
//
//   gemm_bench [threads] [path] [type of the weights]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "deploy/tools/machine_peaks.h"
#include "kernels/device/arena.h"
#include "kernels/gemm/gemm.h"

namespace krait::kernels {
namespace {

using tools::best_seconds;

struct Shape final {
  const char* name;
  int64_t n;
  int64_t k;
  int leaves;
};

constexpr Shape kShapes[] = {
    {"130m in_proj", 3072, 768, 1},  {"130m x_proj", 80, 1536, 8},     {"130m dt_proj", 1536, 48, 1},
    {"130m out_proj", 768, 1536, 8}, {"370m in_proj", 4096, 1024, 1},  {"370m x_proj", 96, 2048, 8},
    {"370m dt_proj", 2048, 64, 1},   {"370m out_proj", 1024, 2048, 8}, {"130m lm_head", 50280, 768, 1}};
constexpr int64_t kRows[] = {1, 8, 32, 512};
constexpr int64_t kWeightSetBytes = 256 * kMiB;  // a step walks through a model, not again and again through one matrix

std::byte* must_allocate(Arena& arena, int64_t bytes) {
  Result<std::byte*> data = arena.allocate(bytes);
  CHECK(data.ok());
  return *data;
}

void fill(std::vector<float>& values, uint64_t seed) {
  SplitMix64 random(seed);
  for (float& value : values)
    value = static_cast<float>(random.uniform() - 0.5);
}

void bench_shape(Stream& stream, const Shape& shape, DType dtype, double peak, double read_rate) {
  Arena arena;
  const int64_t bytes = packed_bytes(dtype, shape.n, shape.k, shape.leaves);
  std::vector<PackedMatrix> set(static_cast<size_t>(std::clamp<int64_t>(kWeightSetBytes / bytes, 1, 1000)));
  std::vector<float> row(static_cast<size_t>(shape.k));
  fill(row, 1);
  for (PackedMatrix& weights : set) {
    weights = {dtype, shape.n, shape.k, shape.leaves, must_allocate(arena, bytes)};
    for (int64_t i = 0; i < shape.n; ++i)
      pack_row(weights, i, row.data());
  }
  const int64_t max_rows = kRows[std::size(kRows) - 1];
  std::vector<float> a(static_cast<size_t>(max_rows * shape.k));
  std::vector<float> out(static_cast<size_t>(max_rows * shape.n));
  fill(a, 2);
  const int64_t workspace_bytes = gemm_workspace_bytes(max_rows, shape.k, dtype);
  const std::span<std::byte> workspace(must_allocate(arena, workspace_bytes), static_cast<size_t>(workspace_bytes));
  for (const int64_t m : kRows) {
    size_t next = 0;
    const auto once = [&] {
      gemm(stream, {.a = a.data(),
                    .lda = shape.k,
                    .m = m,
                    .weights = &set[next],
                    .out = out.data(),
                    .ldo = shape.n,
                    .workspace = workspace});
      next = (next + 1) % set.size();
    };
    // One row: the whole set is a call, so that every weight comes from memory. Else the best of single calls.
    const double seconds = m == 1 ? best_seconds(stream, 0.3,
                                                 [&] {
                                                   for (size_t i = 0; i < set.size(); ++i)
                                                     once();
                                                 }) /
                                        static_cast<double>(set.size())
                                  : best_seconds(stream, 0.2, once);
    const double gops = 2.0 * static_cast<double>(m * shape.n * shape.k) / seconds * 1e-9;
    std::printf("%-14s %-4s %4d %10.1f us %8.1f Gop/s", shape.name, std::string(weight_type_name(dtype)).c_str(),
                static_cast<int>(m), seconds * 1e6, gops);
    if (peak > 0) std::printf(" %5.1f %% of peak", gops / peak * 100);
    if (m == 1) {
      const double rate = static_cast<double>(bytes) / seconds * 1e-9;
      std::printf(" %6.1f GB/s %5.1f %% of reading", rate, rate / read_rate * 100);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace krait::kernels

int main(int argc, char** argv) {
  using namespace krait;
  using namespace krait::kernels;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::optional<CpuPath> path = argc > 2 ? cpu_path_from_name(argv[2]) : best_cpu_path();
  const std::optional<DType> only = argc > 3 ? weight_type_from_name(argv[3]) : std::nullopt;
  if (threads < 1 || threads > 256 || !path || *path > best_cpu_path() || (argc > 3 && !only)) {
    std::fprintf(stderr, "usage: gemm_bench [threads] [path that this processor has] [f32|bf16|int8|int4]\n");
    return 2;
  }
  Stream stream({.threads = threads, .path = *path});
  Arena arena;
  std::byte* const data = must_allocate(arena, kWeightSetBytes);
  std::memset(data, 1, static_cast<size_t>(kWeightSetBytes));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    if (only && dtype != *only) continue;
    const double peak = tools::peak_gops(stream, dtype);
    const double read_rate = tools::read_gbytes(stream, {data, static_cast<size_t>(kWeightSetBytes)});
    std::printf("%s, %d threads, %s: peak %.1f Gop/s, reading %.1f GB/s\n", std::string(cpu_path_name(*path)).c_str(),
                threads, std::string(weight_type_name(dtype)).c_str(), peak, read_rate);
    for (const Shape& shape : kShapes)
      bench_shape(stream, shape, dtype, peak, read_rate);
  }
  return 0;
}
