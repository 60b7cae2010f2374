#include "kernels/attention/paged_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

/// One sequence of `tokens` tokens in scattered pages, queries for all of them.
struct Problem final {
  Problem(int64_t tokens_in, int64_t kv_heads, int64_t query_heads, int64_t head_dim_in, uint64_t seed)
      : tokens(tokens_in), heads(query_heads), head_dim(head_dim_in), kv_width(kv_heads * head_dim + 5) {
    SplitMix64 rng(seed);
    stride = heads * head_dim + 3;
    q = random_floats(rng, tokens * stride, -2, 2);
    k = random_floats(rng, tokens * kv_width, -2, 2);
    v = random_floats(rng, tokens * kv_width, -3, 3);
    out.assign(q.size(), 55.0f);
    pages.heads = kv_heads;
    pages.head_dim = head_dim;
    pages.page_stride = kv_heads * pages.head_floats() + 32;
    const int64_t count = (tokens + kPageTokens - 1) / kPageTokens;
    for (int64_t i = 0; i < count; ++i)
      page_ids.push_back(static_cast<int32_t>((i * 7 + 3) % (2 * count + 1)));
    std::sort(page_ids.begin(), page_ids.end());
    page_ids.erase(std::unique(page_ids.begin(), page_ids.end()), page_ids.end());
    for (int32_t next = 0; static_cast<int64_t>(page_ids.size()) < count; ++next)
      if (std::find(page_ids.begin(), page_ids.end(), next) == page_ids.end()) page_ids.push_back(next);
    std::reverse(page_ids.begin(), page_ids.end());
    memory.assign(static_cast<size_t>((2 * count + 2) * pages.page_stride), NAN);  // what is not written is no number
    for (int64_t head = 0; head < heads; ++head)
      kv_of.push_back(static_cast<int32_t>(head * kv_heads / heads));
  }

  /// Rows [begin, end) of the sequence as one call: their keys and values are appended, then they attend.
  void step(Stream& stream, int64_t begin, int64_t end) {
    pages.base = memory.data();
    const std::vector<AttentionRun> runs{
        {static_cast<int32_t>(begin), static_cast<int32_t>(end - begin), begin, page_ids}};
    append_kv(stream, {.pages = pages, .k = k.data(), .v = v.data(), .stride = kv_width, .runs = runs});
    paged_attention(stream, args(runs));
  }
  PagedAttentionArgs args(std::span<const AttentionRun> runs) {
    pages.base = memory.data();
    return {.pages = pages,
            .q = q.data(),
            .q_stride = stride,
            .heads = heads,
            .kv_of = kv_of.data(),
            .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
            .out = out.data(),
            .out_stride = stride,
            .runs = runs};
  }

  int64_t tokens, heads, head_dim, kv_width, stride = 0;
  KvPages pages;
  std::vector<float> q, k, v, out, memory;
  std::vector<int32_t> page_ids, kv_of;
};

class PagedAttention : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(PagedAttention, EqualsTheWholeSoftmaxOnEveryPath) {
  const auto [tokens, head_dim] = GetParam();
  const Problem before(tokens, 2, 6, head_dim, 1);
  std::vector<float> first;
  Problem reference = before;
  reference.step(*make_stream(CpuPath::kPortable), 0, tokens);
  const std::vector<AttentionRun> whole{{0, static_cast<int32_t>(tokens), 0, reference.page_ids}};
  paged_attention_reference(reference.args(whole));
  for (const CpuPath path : runnable_paths()) {
    for (const int threads : {1, 2, 9}) {
      Problem p = before;
      p.step(*make_stream(path, threads), 0, tokens);
      if (first.empty()) first = p.out;
      EXPECT_EQ(different_bits(first, p.out), 0) << cpu_path_name(path) << " " << threads;
    }
  }
  double worst = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double error = std::abs(double{first[i]} - double{reference.out[i]});
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  }
  fmt::print("  error {:.2g} of 1e-5\n", worst);
  EXPECT_LT(worst, 1e-5);
}

TEST_P(PagedAttention, AnyCutIntoCallsGivesTheSameBits) {
  const auto [tokens, head_dim] = GetParam();
  const Problem before(tokens, 2, 4, head_dim, 2);
  Problem whole = before;
  whole.step(*make_stream(best_cpu_path()), 0, tokens);
  SplitMix64 rng(3);
  for (int round = 0; round < 4; ++round) {
    Problem p = before;
    const auto stream = make_stream(best_cpu_path(), 1 + round % 2);
    for (int64_t at = 0; at < tokens;) {
      const int64_t end = std::min<int64_t>(tokens, at + 1 + static_cast<int64_t>(rng.below(round == 0 ? 1 : 40)));
      p.step(*stream, at, end);
      at = end;
    }
    EXPECT_EQ(different_bits(whole.out, p.out), 0) << round;
    EXPECT_EQ(different_bits(whole.memory, p.memory), 0) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PagedAttention,
                         testing::Combine(testing::Values(1, 15, 17, 64, 130, 300),
                                          testing::Values(2, 8, 32, 160, 224)),
                         [](const auto& info) {
                           return fmt::format("t{}_d{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

TEST(PagedAttention, SequencesOfOneBatchDoNotSeeEachOther) {
  Problem p(40, 1, 2, 16, 5);
  const std::vector<int32_t> other_pages{3, 4, 5};
  const std::vector<int32_t> own_pages{0, 1, 2};
  std::vector<float> alone;
  for (const bool crowd : {false, true}) {
    Problem copy = p;
    std::vector<AttentionRun> runs{{0, 20, 0, own_pages}};
    if (crowd) runs.push_back({20, 20, 0, other_pages});
    copy.memory.assign(static_cast<size_t>(8 * copy.pages.page_stride), NAN);
    copy.pages.base = copy.memory.data();
    const auto stream = make_stream(best_cpu_path(), 2);
    append_kv(*stream,
              {.pages = copy.pages, .k = copy.k.data(), .v = copy.v.data(), .stride = copy.kv_width, .runs = runs});
    paged_attention(*stream, copy.args(runs));
    const std::vector<float> rows(copy.out.begin(), copy.out.begin() + 20 * copy.stride);
    if (alone.empty()) alone = rows;
    EXPECT_EQ(different_bits(alone, rows), 0);
  }
}

TEST(PagedAttention, ALargeScoreTakesAll) {
  // Scores far apart: what had been summed before is rescaled to nothing, and nothing overflows.
  Problem p(200, 1, 1, 2, 7);
  for (int64_t t = 0; t < 200; ++t) {
    p.k[static_cast<size_t>(t * p.kv_width)] = static_cast<float>(t) * 40.0f;
    p.k[static_cast<size_t>(t * p.kv_width + 1)] = 0;
    p.q[static_cast<size_t>(t * p.stride)] = 1;
    p.v[static_cast<size_t>(t * p.kv_width)] = static_cast<float>(t);
  }
  p.step(*make_stream(best_cpu_path()), 0, 200);
  for (int64_t t = 0; t < 200; ++t)
    EXPECT_NEAR(p.out[static_cast<size_t>(t * p.stride)], static_cast<float>(t), 2e-3f) << t;
}

TEST(PagedAttention, AnEnormousScoreLeavesNoWeightToWhatIsNotThere) {
  Problem p(1, 1, 1, 2, 8);
  p.q[0] = p.k[0] = 1e6f;
  p.q[1] = p.k[1] = 0;
  p.step(*make_stream(best_cpu_path()), 0, 1);
  EXPECT_EQ(p.out[0], p.v[0]);
  EXPECT_EQ(p.out[1], p.v[1]);
}

TEST(Rotary, TurnsByTheAngleOfThePosition) {
  constexpr int64_t kHeads = 3, kDim = 10, kRows = 6, kStride = kHeads * kDim + 2;
  std::vector<float> frequency;
  for (int i = 0; i < kDim / 2; ++i)
    frequency.push_back(static_cast<float>(std::pow(1e4, -2.0 * i / kDim)));
  SplitMix64 rng(4);
  const std::vector<float> before = random_floats(rng, kRows * kStride, -2, 2);
  for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{70'000}, (int64_t{1} << 24) - 8}) {
    std::vector<float> x = before;
    const std::vector<AttentionRun> runs{{1, 4, position, {}}};
    rotary(*make_stream(best_cpu_path(), 2), {.x = x.data(),
                                              .stride = kStride,
                                              .heads = kHeads,
                                              .head_dim = kDim,
                                              .inverse_frequency = frequency.data(),
                                              .runs = runs});
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t c = 0; c < kStride; ++c) {
        const auto at = static_cast<size_t>(row * kStride + c);
        if (row < 1 || row > 4 || c >= kHeads * kDim) {
          EXPECT_EQ(x[at], before[at]) << "only the run's rows are turned";
          continue;
        }
        const int64_t i = c % kDim % (kDim / 2);
        const float angle = static_cast<float>(position + row - 1) * frequency[static_cast<size_t>(i)];
        const bool low = c % kDim < kDim / 2;
        const double partner = double{before[low ? at + kDim / 2 : at - kDim / 2]};
        const double sine = std::sin(double{angle}), cosine = std::cos(double{angle});
        const double expected = double{before[at]} * cosine + (low ? -partner : partner) * sine;
        EXPECT_NEAR(double{x[at]}, expected, 1e-6) << position << " " << row << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace krait::kernels
