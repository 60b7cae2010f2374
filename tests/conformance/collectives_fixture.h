// What the conformance tests of the collectives share: every implementation in collectives.def, at every world that a
// group may have; data on which the order of adding shows; the contract's sums, written out plainly.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "common/base/units.h"
#include "shard_server/collectives/codec.h"
#include "shard_server/collectives/registry.h"
#include "shard_server/collectives/sum_table.h"
#include "tests/support/rank_threads.h"

namespace krait::collectives {

// Values over many powers of two, so that another order of adding gives other bits.
inline float value_at(uint64_t seed, int rank, int64_t index) {
  SplitMix64 random(seed * 1'000'003 + static_cast<uint64_t>(rank) * 7'919 + static_cast<uint64_t>(index) * 104'729);
  const double magnitude = std::ldexp(1.0 + random.uniform(), static_cast<int>(random.below(24)) - 12);
  return static_cast<float>(random.below(2) == 0 ? magnitude : -magnitude);
}

inline std::vector<float> part_of(uint64_t seed, int rank, int64_t count) {
  std::vector<float> part(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    part[static_cast<size_t>(i)] = value_at(seed, rank, i);
  return part;
}

// The contract's sums, written out plainly for each world.
inline float plain_sum(ReduceOrder order, const std::vector<float>& r) {
  if (order == ReduceOrder::kTree) {
    switch (r.size()) {
      case 1:
        return r[0];
      case 2:
        return r[0] + r[1];
      case 4:
        return (r[0] + r[1]) + (r[2] + r[3]);
      case 8:
        return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
      default:
        ADD_FAILURE() << "no tree of " << r.size();
        return 0;
    }
  }
  float sum = r[0];
  for (size_t i = 1; i < r.size(); ++i)
    sum += r[i];
  return sum;
}

inline std::vector<float> plain_sum(ReduceOrder order, const std::vector<std::vector<float>>& parts) {
  std::vector<float> sum(parts[0].size());
  std::vector<float> values(parts.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    for (size_t rank = 0; rank < parts.size(); ++rank)
      values[rank] = parts[rank][i];
    sum[i] = plain_sum(order, values);
  }
  return sum;
}

inline std::vector<std::vector<float>> parts_of(uint64_t seed, int world, int64_t count) {
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < world; ++rank)
    parts.push_back(part_of(seed, rank, count));
  return parts;
}

inline std::vector<float> expected_sum(uint64_t seed, ReduceOrder order, int world, int64_t count) {
  return plain_sum(order, parts_of(seed, world, count));
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline Status failed(std::string message) {
  return Error{Errc::kInternal, std::move(message), ""};
}

struct Shape {
  int64_t rows;
  int64_t width;
};

inline std::vector<ReduceOrder> orders_of(int world) {
  std::vector<ReduceOrder> orders = {ReduceOrder::kRankOrder};
  if (std::has_single_bit(static_cast<unsigned>(world))) orders.push_back(ReduceOrder::kTree);
  return orders;
}

class Collectives : public testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  CommunicatorFactory make() const { return all_collectives()[std::get<0>(GetParam())].make; }
  int world() const { return std::get<1>(GetParam()); }
  Options options(ReduceOrder order = ReduceOrder::kRankOrder) const {
    Options options = fresh_options(world(), order);
    options.max_rows = 64;
    options.max_width = 1024;
    return options;
  }

  static void expect_all_ok(const std::vector<Status>& results) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_TRUE(results[rank].ok()) << "rank " << rank << ": " << to_string(results[rank].error());
    }
  }
  static void expect_all(Errc code, const std::vector<Status>& results) {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_FALSE(results[rank].ok()) << "rank " << rank;
      EXPECT_EQ(results[rank].error().code, code) << "rank " << rank << ": " << to_string(results[rank].error());
    }
  }

  void TearDown() override {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("krait-test-" + std::to_string(getpid())))
          << entry.path() << " was left";
    }
  }
};

/// Runs the tests of the fixture `suite` over the registry; `suite` is a class derived from Collectives.
#define RUN_OVER_COLLECTIVES(suite)                                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                                     \
      Registry, suite,                                                                                          \
      testing::Combine(testing::Range<size_t>(0, all_collectives().size()), testing::Values(1, 2, 3, 4, 7, 8)), \
      [](const auto& info) {                                                                                    \
        return fmt::format("{}_{}", all_collectives()[std::get<0>(info.param)].name, std::get<1>(info.param));  \
      })

}  // namespace krait::collectives
