// Rows of a sum reach their sink once, in order and whole; a residual and its norm taken so have the bits of three
// passes.
#include <gtest/gtest.h>

#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"
#include "shard_server/collectives/residual_norm.h"
#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesSink : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesSink);

// Copies what the rows hold when they come, and counts them.
class Recorder final : public RowSink {
 public:
  Recorder(const std::vector<float>& out, int64_t width) : out_(out), width_(width) {}
  void take(int64_t first, int64_t rows) override {
    is_in_order_ = is_in_order_ && first == rows_ && rows > 0;
    rows_ += rows;
    seen_.insert(seen_.end(), out_.begin() + first * width_, out_.begin() + (first + rows) * width_);
  }
  bool saw(int64_t rows, const std::vector<float>& sum) const {
    return is_in_order_ && rows_ == rows && same_bits(seen_, sum);
  }

 private:
  const std::vector<float>& out_;
  const int64_t width_;
  bool is_in_order_ = true;
  int64_t rows_ = 0;
  std::vector<float> seen_;
};

TEST_P(CollectivesSink, EveryRowComesOnceWithItsSum) {
  const std::vector<Shape> shapes = {{0, 16}, {1, 1}, {3, 5}, {7, 257}, {65, 1024}, {5, 20'001}};
  for (const int64_t two_shot_bytes : {int64_t{0}, limits::kMaxCollectiveMessageBytes}) {
    for (const int64_t stage_bytes : {int64_t{1}, 16 * kKiB}) {
      Options group = options();
      group.two_shot_bytes = two_shot_bytes;
      group.stage_bytes = stage_bytes;
      expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
        for (const auto& [rows, width] : shapes) {
          if (stage_bytes == 1 && rows * width > 4096) continue;
          for (const CodecEntry& codec : all_codecs()) {
            const std::vector<float> in = part_of(6, communicator.rank(), rows * width);
            std::vector<float> sum(in.size()), out(in.size());
            RETURN_IF_ERROR(communicator.all_reduce(rows, width, in.data(), sum.data(), {codec.codec}));
            Recorder recorder(out, width);
            RETURN_IF_ERROR(communicator.all_reduce(rows, width, in.data(), out.data(), {codec.codec, 0, &recorder}));
            if (!recorder.saw(rows, sum)) return failed(fmt::format("{} x {}, {}", rows, width, codec.name));
          }
        }
        return {};
      }));
    }
  }
}

TEST_P(CollectivesSink, ResidualAndNormHaveTheBitsOfThreePasses) {
  constexpr int64_t kRows = 70, kWidth = 768;
  const std::vector<float> weight = part_of(1, 0, kWidth), bias = part_of(2, 0, kWidth);
  const std::vector<float> h0 = part_of(3, 0, kRows * kWidth);
  for (const bool has_bias : {false, true}) {
    Options group = options(orders_of(world()).back());
    group.stage_bytes = 16 * kKiB;
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      kernels::Stream stream({.threads = 1, .path = kernels::best_cpu_path(), .may_spin = false});
      const std::vector<float> in = part_of(4, communicator.rank(), kRows * kWidth);
      std::vector<float> sum = in, h = h0, u(in.size());
      RETURN_IF_ERROR(communicator.all_reduce(kRows, kWidth, sum.data(), sum.data()));
      if (has_bias) kernels::add_rows(stream, sum.data(), kWidth, bias.data(), 0, kRows, kWidth);
      kernels::add_rows(stream, h.data(), kWidth, sum.data(), kWidth, kRows, kWidth);
      kernels::rms_norm(stream, {kRows, kWidth, h.data(), kWidth, weight.data(), 1e-5f, u.data(), kWidth});
      std::vector<float> fused_sum = in, fused_h = h0, fused_u(in.size());
      ResidualNorm norm(stream, {.width = kWidth,
                                 .sum = fused_sum.data(),
                                 .sum_stride = kWidth,
                                 .bias = has_bias ? bias.data() : nullptr,
                                 .h = fused_h.data(),
                                 .weight = weight.data(),
                                 .u = fused_u.data()});
      RETURN_IF_ERROR(
          communicator.all_reduce(kRows, kWidth, fused_sum.data(), fused_sum.data(), {Codec::kFloat32, 0, &norm}));
      if (!same_bits(h, fused_h)) return failed("the residual stream");
      return same_bits(u, fused_u) ? Status{} : failed("the norm");
    }));
  }
}

}  // namespace
}  // namespace krait::collectives
