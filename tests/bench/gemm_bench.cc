// The matrix product against what this machine can do: share of the peak of its multiply-add instructions for many
// rows, share of its read rate for one. Prints a table; judges nothing.
//
//   gemm_bench [threads] [path] [type of the weights]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "deploy/tools/machine_peaks.h"
#include "kernels/device/arena.h"
#include "kernels/gemm/gemm.h"
#include "tests/bench/stream_arguments.h"

namespace krait::kernels {
namespace {

using tools::best_seconds;

struct Shape final {
  const char* model;
  const char* name;
  int64_t n;
  int64_t k;
  int leaves;
};

constexpr Shape kShapes[] = {
    {"130m", "in_proj", 3072, 768, 1},   {"130m", "x_proj", 80, 1536, 8},         {"130m", "dt_proj", 1536, 48, 1},
    {"130m", "out_proj", 768, 1536, 8},  {"130m", "lm_head", 50280, 768, 1},      {"370m", "in_proj", 4096, 1024, 1},
    {"370m", "x_proj", 96, 2048, 8},     {"370m", "dt_proj", 2048, 64, 1},        {"370m", "out_proj", 1024, 2048, 8},
    {"2.8b", "out_proj", 2560, 5120, 8}, {"falcon 7b", "out_proj", 4096, 8192, 8}};
constexpr std::string_view kMixers[] = {"130m", "370m"};  // of which all products of a layer are there
constexpr int64_t kRows[] = {1, 8, 32, 512};
constexpr int64_t kMaxRows = 512;
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

/// A shape's products, each call with the next of many matrices.
class Products final {
 public:
  Products(Stream& stream, const Shape& shape, DType dtype)
      : stream_(stream),
        n_(shape.n),
        k_(shape.k),
        bytes_(packed_bytes(dtype, n_, k_, shape.leaves)),
        set_(static_cast<size_t>(std::clamp<int64_t>(kWeightSetBytes / bytes_, 1, 1000))),
        a_(static_cast<size_t>(kMaxRows * k_)),
        out_(static_cast<size_t>(kMaxRows * n_)) {
    std::vector<float> row(static_cast<size_t>(k_));
    fill(row, 1);
    for (PackedMatrix& weights : set_) {
      weights = {dtype, n_, k_, shape.leaves, must_allocate(arena_, bytes_)};
      for (int64_t i = 0; i < n_; ++i)
        pack_row(weights, i, row.data());
    }
    fill(a_, 2);
    const int64_t workspace_bytes = gemm_workspace_bytes(kMaxRows, k_, dtype);
    workspace_ = {must_allocate(arena_, workspace_bytes), static_cast<size_t>(workspace_bytes)};
  }

  int64_t bytes() const { return bytes_; }
  double operations(int64_t m) const { return 2.0 * static_cast<double>(m * n_ * k_); }

  void run(int64_t m) {
    gemm(stream_, {.a = a_.data(),
                   .lda = k_,
                   .m = m,
                   .weights = &set_[next_],
                   .out = out_.data(),
                   .ldo = n_,
                   .workspace = workspace_});
    next_ = (next_ + 1) % set_.size();
  }

  /// Of one call. One row: the whole set is measured at once, so that every weight comes from memory.
  double seconds(int64_t m) {
    if (m > 1) return best_seconds(stream_, 0.2, [&] { run(m); });
    const double of_all = best_seconds(stream_, 0.3, [&] {
      for (size_t i = 0; i < set_.size(); ++i)
        run(m);
    });
    return of_all / static_cast<double>(set_.size());
  }

 private:
  Stream& stream_;
  const int64_t n_;
  const int64_t k_;
  const int64_t bytes_;
  Arena arena_;
  std::vector<PackedMatrix> set_;
  size_t next_ = 0;
  std::vector<float> a_, out_;
  std::span<std::byte> workspace_;
};

void bench_shape(Stream& stream, const Shape& shape, DType dtype, double peak, double read_rate) {
  Products products(stream, shape, dtype);
  for (const int64_t m : kRows) {
    const double seconds = products.seconds(m);
    const double gops = products.operations(m) / seconds * 1e-9;
    std::printf("%-9s %-8s %-4s %4d %10.1f us %8.1f Gop/s", shape.model, shape.name,
                std::string(weight_type_name(dtype)).c_str(), static_cast<int>(m), seconds * 1e6, gops);
    if (peak > 0) std::printf(" %5.1f %% of peak", gops / peak * 100);
    if (m == 1) {
      const double rate = static_cast<double>(products.bytes()) / seconds * 1e-9;
      std::printf(" %6.1f GB/s %5.1f %% of reading", rate, rate / read_rate * 100);
    }
    std::printf("\n");
  }
}

/// What eight leaves and their tree cost beside one leaf, as a share of all products of a layer, at many rows. Calls
/// alternate, so that both meet the same machine.
void bench_leaves(Stream& stream, std::string_view model, DType dtype) {
  double whole = 0, extra = 0;
  for (const Shape& shape : kShapes) {
    if (shape.model != model || shape.name == std::string_view("lm_head")) continue;
    Products products(stream, shape, dtype);
    double seconds = products.seconds(kMaxRows);
    if (shape.leaves > 1) {
      Shape plain = shape;
      plain.leaves = 1;
      Products of_one_leaf(stream, plain, dtype);
      for (int i = 0; i < 3; ++i) {
        const double one = of_one_leaf.seconds(kMaxRows), eight = products.seconds(kMaxRows);
        extra += (eight - one) / 3;
        seconds = eight;
      }
    }
    whole += seconds;
  }
  std::printf("%-9s eight leaves and their tree: %.2f %% of the products of %d rows\n", std::string(model).c_str(),
              extra / whole * 100, static_cast<int>(kMaxRows));
}

}  // namespace
}  // namespace krait::kernels

int main(int argc, char** argv) {
  using namespace krait;
  using namespace krait::kernels;
  const auto options = stream_arguments(argc, argv);
  const std::optional<DType> only = argc > 3 ? weight_type_from_name(argv[3]) : std::nullopt;
  if (!options || (argc > 3 && !only)) {
    std::fprintf(stderr, "usage: gemm_bench [threads] [path that this processor has] [f32|bf16|int8|int4]\n");
    return 2;
  }
  Stream stream(*options);
  Arena arena;
  std::byte* const data = must_allocate(arena, kWeightSetBytes);
  std::memset(data, 1, static_cast<size_t>(kWeightSetBytes));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    if (only && dtype != *only) continue;
    const double peak = tools::peak_gops(stream, dtype);
    const double read_rate = tools::read_gbytes(stream, {data, static_cast<size_t>(kWeightSetBytes)});
    std::printf("%s, %d threads, %s: peak %.1f Gop/s, reading %.1f GB/s\n",
                std::string(cpu_path_name(options->path)).c_str(), options->threads,
                std::string(weight_type_name(dtype)).c_str(), peak, read_rate);
    for (const Shape& shape : kShapes)
      bench_shape(stream, shape, dtype, peak, read_rate);
    for (const std::string_view model : kMixers)
      bench_leaves(stream, model, dtype);
  }
  return 0;
}
