#include "shard_server/collectives/sum.h"

#include "common/base/check.h"

namespace krait::collectives {
namespace {

// Parts first .. first + kCount - 1 of element i, added as a balanced tree.
template <int kCount>
[[gnu::always_inline]] inline float tree_at(const float* const* parts, int first, int64_t i) {
  if constexpr (kCount == 1) {
    return parts[first][i];
  } else {
    return tree_at<kCount / 2>(parts, first, i) + tree_at<kCount / 2>(parts, first + kCount / 2, i);
  }
}

// Parts 0 .. kCount - 1 of element i, added one after the other.
template <int kCount>
[[gnu::always_inline]] inline float chain_at(const float* const* parts, int64_t i) {
  if constexpr (kCount == 1) {
    return parts[0][i];
  } else {
    return chain_at<kCount - 1>(parts, i) + parts[kCount - 1][i];
  }
}

template <int kCount, bool kIsTree>
void sum(std::span<const float* const> parts, int64_t count, float* out) {
  const float* local[kCount];
  for (int p = 0; p < kCount; ++p)
    local[p] = parts[static_cast<size_t>(p)];
    // No dependency between elements (the parts do not overlap `out`): the compiler may take them many at a time, which
    // changes no bit, since each element's own additions keep their order.
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kIsTree) {
      out[i] = tree_at<kCount>(local, 0, i);
    } else {
      out[i] = chain_at<kCount>(local, i);
    }
  }
}

}  // namespace

void sum_parts(ReduceOrder order, std::span<const float* const> parts, int64_t count, float* out) {
  const bool is_tree = order == ReduceOrder::kTree;
  switch (parts.size()) {
    case 1:
      return sum<1, false>(parts, count, out);
    case 2:
      return sum<2, false>(parts, count, out);
    case 3:
      CHECK(!is_tree);
      return sum<3, false>(parts, count, out);
    case 4:
      return is_tree ? sum<4, true>(parts, count, out) : sum<4, false>(parts, count, out);
    case 5:
      CHECK(!is_tree);
      return sum<5, false>(parts, count, out);
    case 6:
      CHECK(!is_tree);
      return sum<6, false>(parts, count, out);
    case 7:
      CHECK(!is_tree);
      return sum<7, false>(parts, count, out);
    case 8:
      return is_tree ? sum<8, true>(parts, count, out) : sum<8, false>(parts, count, out);
    default:
      CHECK(false && "1 to 8 parts");
  }
}

}  // namespace krait::collectives
