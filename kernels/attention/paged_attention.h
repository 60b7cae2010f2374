// Causal attention over keys and values that lie in pages, and the writing of new ones. O(rows) memory, any length.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/limits.h"
#include "kernels/device/stream.h"

namespace krait::kernels {

inline constexpr int64_t kPageTokens = limits::kKvPageTokens;  // a page begins at a multiple of it
static_assert(kPageTokens == 16, "a vector of keys is a page");
inline constexpr int64_t kKvBlock = 64;  // tokens that one step of the softmax takes in; anchored likewise

/// Rows of a batch that continue one sequence at `position`. Page i holds its tokens [16 i, 16 i + 16).
struct AttentionRun final {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int64_t position = 0;            // of the first row
  std::span<const int32_t> pages;  // enough for position + rows tokens
};

/// A layer's part of the pages. Page p of head j begins at base + p * page_stride + j * head_floats() and holds
///   keys   [D][16]: element d of token t at d * 16 + t
///   values [16][D]
struct KvPages final {
  float* base = nullptr;
  int64_t page_stride = 0;  // floats
  int64_t heads = 0;        // of keys and values
  int64_t head_dim = 0;     // D

  int64_t head_floats() const { return 2 * kPageTokens * head_dim; }
};

/// Puts the rows' keys and values, [rows][heads * D] each, into their pages. Different runs write different pages.
struct AppendKvArgs final {
  KvPages pages;
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t stride = 0;  // floats between rows of k, and of v
  std::span<const AttentionRun> runs;
};

void append_kv(Stream& stream, const AppendKvArgs& args);

/// The keys and values of a head's first `tokens` tokens, [tokens][D] each, out of their pages.
void read_kv(const KvPages& pages, int64_t head, std::span<const int32_t> page_ids, int64_t tokens, float* keys,
             float* values);

/// For a row at position p and query head i, whose keys and values are those of head kv_of[i]:
///   s[t]   = scale * (sum over d of q[d] * k[t][d])                 t in [0, p], summed in order of d with fma
///   out[d] = sum over t of softmax(s)[t] * v[t][d]
/// The softmax runs over blocks of 64 tokens at absolute positions, rescaling what it has when a block raises the
/// maximum, so a row's bits do not depend on how its prompt was cut.
struct PagedAttentionArgs final {
  KvPages pages;
  const float* q = nullptr;  // [rows][q_stride], heads * D used
  int64_t q_stride = 0;
  int64_t heads = 0;               // query heads
  const int32_t* kv_of = nullptr;  // [heads]
  float scale = 1;
  float* out = nullptr;  // [rows][out_stride], heads * D used; not q
  int64_t out_stride = 0;
  std::span<const AttentionRun> runs;
};

void paged_attention(Stream& stream, const PagedAttentionArgs& args);

/// The whole softmax at once, in double. For tests.
void paged_attention_reference(const PagedAttentionArgs& args);

/// Rotary positions (Su et al., "RoFormer", 2021) in the layout of two halves, in place, for i in [0, D / 2):
///   angle        = position * theta^(-2 i / D)
///   x[i]         = x[i] * cos(angle) - x[i + D / 2] * sin(angle)
///   x[i + D / 2] = x[i + D / 2] * cos(angle) + x[i] * sin(angle)
/// The angle is rounded to float32, as transformers does. An odd D is not possible.
struct RotaryArgs final {
  float* x = nullptr;  // [rows][stride], heads * D used
  int64_t stride = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;                      // D
  const float* inverse_frequency = nullptr;  // [D / 2]: theta^(-2 i / D)
  std::span<const AttentionRun> runs;
};

void rotary(Stream& stream, const RotaryArgs& args);

}  // namespace krait::kernels
