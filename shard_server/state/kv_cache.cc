#include "shard_server/state/kv_cache.h"

#include "common/base/check.h"
#include "common/base/units.h"

namespace krait::shard {
namespace {

constexpr int64_t kAlignFloats = 16;  // every layer starts on a cache line

}  // namespace

KvLayer KvCache::reserve(int64_t heads, int64_t head_dim) {
  CHECK(base_ == nullptr);
  const KvLayer place{.offset = page_floats_, .heads = heads, .head_dim = head_dim};
  page_floats_ += round_up(heads * 2 * kernels::kPageTokens * head_dim, kAlignFloats);
  return place;
}

Status KvCache::allocate(int64_t pages) {
  CHECK(base_ == nullptr);
  pages_ = pages;
  if (pages * page_bytes() == 0) return {};
  ASSIGN_OR_RETURN(std::byte * bytes, arena_.allocate(pages * page_bytes()));
  base_ = reinterpret_cast<float*>(bytes);
  return {};
}

}  // namespace krait::shard
