// What a Mamba-1 mixer does beside its products, in microseconds a row and core: scan, convolution, norm. For the scan
// beside it the share of the machine's multiply-add rate that its multiplications alone would need.
//
//   scan_bench [threads] [path]
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "deploy/tools/machine_peaks.h"
#include "kernels/conv/causal_conv1d.h"
#include "kernels/device/arena.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/scan/selective_scan.h"
#include "tests/bench/stream_arguments.h"

namespace krait::kernels {
namespace {

constexpr int64_t kStateSize = 16;
constexpr int64_t kTaps = 4;
constexpr double kScanMultiplies = 8;  // of a state element and row: exponent, polynomial 3, scale, input, step, output
constexpr double kSeconds = 0.3;       // of each measurement

struct Shape final {
  const char* name;
  int64_t hidden;
  int64_t channels;
};
constexpr Shape kShapes[] = {{"130m", 768, 1536}, {"370m", 1024, 2048}, {"2.8b", 2560, 5120}};
constexpr int64_t kRows[] = {16, 64, 512};

/// Buffers in huge pages, as the engine's are.
class Buffers final {
 public:
  float* random(int64_t count, double low, double high) {
    Result<std::byte*> data = arena_.allocate(count * int64_t{sizeof(float)});
    CHECK(data.ok());
    auto* const values = reinterpret_cast<float*>(*data);
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(low + (high - low) * random_.uniform());
    return values;
  }

 private:
  Arena arena_;
  SplitMix64 random_{1};
};

void print(const Stream& stream, const char* shape, const char* kernel, int64_t rows, double seconds) {
  std::printf("%s %-5s %4d rows %8.3f us a row and core", shape, kernel, static_cast<int>(rows),
              seconds * 1e6 * stream.threads() / static_cast<double>(rows));
}

void bench_scan(Stream& stream, const Shape& shape, int64_t rows, double peak_gops) {
  Buffers buffers;
  const int64_t channels = shape.channels;
  SelectiveScanArgs args;
  args.channels = channels;
  args.state_size = kStateSize;
  args.x = buffers.random(rows * channels, -2, 2);
  args.z = buffers.random(rows * channels, -4, 4);
  args.dt_raw = buffers.random(rows * channels, -5, 2);
  args.x_stride = args.z_stride = args.dt_stride = args.out_stride = channels;
  args.dt_bias = buffers.random(channels, -3, 1);
  args.b_stride = args.c_stride = 2 * kStateSize + channels / 32;
  args.b = buffers.random(rows * args.b_stride, -1, 1);
  args.c = args.b + kStateSize;
  args.a = buffers.random(channels * kStateSize, -16, -1);
  args.d = buffers.random(channels, -1, 1);
  args.state = buffers.random(channels * kStateSize, -1, 1);
  args.slot_stride = channels * kStateSize;
  args.out = buffers.random(rows * channels, 0, 0);
  const Run run{0, static_cast<int32_t>(rows), 0, 0};
  args.runs = {&run, 1};
  const double seconds = tools::best_seconds(stream, kSeconds, [&] { selective_scan(stream, args); });
  print(stream, shape.name, "scan", rows, seconds);
  const double multiplies = kScanMultiplies * static_cast<double>(rows * channels * kStateSize);
  if (peak_gops > 0)
    std::printf(" %5.1f %% of the multiply-add rate", 2 * multiplies / seconds * 1e-9 / peak_gops * 100);
  std::printf("\n");
}

void bench_conv(Stream& stream, const Shape& shape, int64_t rows) {
  Buffers buffers;
  CausalConv1dArgs args;
  args.channels = args.x_stride = args.out_stride = shape.channels;
  args.kernel = kTaps;
  args.x = buffers.random(rows * shape.channels, -1, 1);
  args.out = buffers.random(rows * shape.channels, 0, 0);
  args.weight = buffers.random(kTaps * shape.channels, -1, 1);
  args.bias = buffers.random(shape.channels, -1, 1);
  args.state = buffers.random((kTaps - 1) * shape.channels, -1, 1);
  args.slot_stride = (kTaps - 1) * shape.channels;
  const Run run{0, static_cast<int32_t>(rows), 0, 0};
  args.runs = {&run, 1};
  print(stream, shape.name, "conv", rows, tools::best_seconds(stream, kSeconds, [&] { causal_conv1d(stream, args); }));
  std::printf("\n");
}

void bench_norm(Stream& stream, const Shape& shape, int64_t rows) {
  Buffers buffers;
  RmsNormArgs args;
  args.rows = rows;
  args.width = args.x_stride = args.out_stride = shape.hidden;
  args.x = buffers.random(rows * shape.hidden, -1, 1);
  args.weight = buffers.random(shape.hidden, -1, 1);
  args.eps = 1e-5f;
  args.out = buffers.random(rows * shape.hidden, 0, 0);
  print(stream, shape.name, "norm", rows, tools::best_seconds(stream, kSeconds, [&] { rms_norm(stream, args); }));
  std::printf("\n");
}

}  // namespace
}  // namespace krait::kernels

int main(int argc, char** argv) {
  using namespace krait;
  using namespace krait::kernels;
  const auto options = stream_arguments(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: scan_bench [threads] [path that this processor has]\n");
    return 2;
  }
  Stream stream(*options);
  const double peak = tools::peak_gops(stream, DType::kF32);
  std::printf("%s, %d threads: multiply-adds %.1f Gop/s\n", std::string(cpu_path_name(options->path)).c_str(),
              options->threads, peak);
  for (const Shape& shape : kShapes) {
    for (const int64_t rows : kRows) {
      bench_scan(stream, shape, rows, peak);
      bench_conv(stream, shape, rows);
      bench_norm(stream, shape, rows);
    }
  }
  return 0;
}
