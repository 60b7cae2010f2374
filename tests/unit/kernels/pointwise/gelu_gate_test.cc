#include "kernels/pointwise/gelu_gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

TEST(GeluGate, IsTheDefinitionOnEveryPath) {
  // From far below, where the result is a tiny part of the argument, to far above.
  std::vector<float> arguments{0.0f, -0.0f, 1e-30f, -1e-30f, 20.0f, -20.0f, 1e30f};
  for (int i = -4000; i <= 4000; ++i)
    arguments.push_back(static_cast<float>(i) * 0.00217f);
  const auto width = static_cast<int64_t>(arguments.size());
  SplitMix64 rng(1);
  const std::vector<float> up = random_floats(rng, width, 0.5, 2);
  std::vector<float> reference = arguments;
  gelu_gate_reference({.rows = 1, .width = width, .gate = reference.data(), .up = up.data(), .stride = width});
  std::vector<float> first;
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> gate = arguments;
    gelu_gate(*make_stream(path, 2),
              {.rows = 1, .width = width, .gate = gate.data(), .up = up.data(), .stride = width});
    if (first.empty()) first = gate;
    EXPECT_EQ(different_bits(first, gate), 0) << cpu_path_name(path);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const double v = double{arguments[i]};
    const double expected = v * std::erfc(-v / std::numbers::sqrt2) / 2 * double{up[i]};
    EXPECT_NEAR(double{first[i]}, expected, 6e-6 * std::abs(expected) + 1e-30) << v;
    EXPECT_NEAR(double{reference[i]}, expected, 6e-6 * std::abs(expected) + 1e-30) << v;
  }
}

TEST(GeluGate, RowsAreApart) {
  std::vector<float> gate(3 * 20, 1.0f);
  const std::vector<float> up(3 * 20, 2.0f);
  gelu_gate(*make_stream(best_cpu_path(), 3),
            {.rows = 3, .width = 17, .gate = gate.data(), .up = up.data(), .stride = 20});
  for (size_t i = 0; i < gate.size(); ++i)
    EXPECT_EQ(gate[i] == 1.0f, i % 20 >= 17) << i;
}

}  // namespace
}  // namespace krait::kernels
