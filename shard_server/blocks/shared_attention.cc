// The attention of a hybrid's shared transformer on one rank's heads, with one sum over ranks:
//
//   a = rms_norm([h | embeddings])                      2H a row, every rank, whole
//   q, k, v = q_proj a, k_proj a, v_proj a              plus this layer's low-rank adapters; q and k turned by position
//   side = sum over ranks of o_proj attention(q, k, v)  H a row
//
// Query heads are cut; keys and values are held by every rank whose query heads use them.
#include <algorithm>
#include <cmath>

#include "kernels/attention/paged_attention.h"
#include "kernels/norm/rms_norm.h"
#include "shard_server/blocks/block_math.h"

namespace krait::shard {
namespace {

using kernels::PackedMatrix;

/// One of q, k and v. Without adapters, their matrices are empty.
struct Projection final {
  PackedMatrix weights;    // [heads * D][2H]
  PackedMatrix adapter_a;  // [r][2H]
  PackedMatrix adapter_b;  // [heads * D][r]
};

struct AttentionWeights final {
  float* norm = nullptr;  // [2H]
  Projection q, k, v;
  PackedMatrix o_proj;                   // [H][heads * D]
  std::vector<int32_t> kv_of;            // of each query head here: which of this rank's key heads
  std::vector<float> inverse_frequency;  // [D / 2], or empty: no rotary embedding
};

class SharedAttentionBlock final : public Block {
 public:
  SharedAttentionBlock(const BlockSource& source, AttentionWeights weights, const KvLayer& kv)
      : layer_(source.plan.layer),
        hidden_(source.config.hidden_size),
        shared_(source.config.shared),
        kv_range_(cover(source.loader.partition(), Unit::kAttentionHead, source.loader.rank(),
                        source.config.shared.kv_heads)),
        w_(std::move(weights)),
        kv_(kv) {}

  BlockNeeds needs(int64_t max_rows) const override;
  Status start(const BlockContext& context, const Batch& batch) const override;
  Status complete(const BlockContext& context, const Batch&) const override { return finish_hidden_sum(context); }
  void export_state(const SlotState& slot, WholeState& whole) const override;

 private:
  int64_t heads() const { return static_cast<int64_t>(w_.kv_of.size()); }
  int64_t query_width() const { return heads() * shared_.head_dim; }
  int64_t key_width() const { return kv_range_.size() * shared_.head_dim; }
  int64_t adapter_width() const { return shared_.attention_adapters ? shared_.adapter_rank : 0; }
  void project(const BlockContext& context, const SharedRows& a, int64_t rows, const Projection& projection,
               const Rows& low, const Rows& out) const;
  void turn(const BlockContext& context, const Batch& batch, const Rows& x, int64_t heads) const;
  void attend(const BlockContext& context, const Batch& batch, const Rows& q, const Rows& k, const Rows& v,
              const Rows& out) const;

  const int layer_;
  const int64_t hidden_;
  const SharedTransformerConfig shared_;
  const Range kv_range_;
  const AttentionWeights w_;
  const KvLayer kv_;
};

BlockNeeds SharedAttentionBlock::needs(int64_t max_rows) const {
  BlockNeeds needs;
  for (const int64_t width : {2 * hidden_, adapter_width(), query_width(), key_width(), key_width(), query_width()})
    needs.scratch_bytes += Scratch::bytes_of(max_rows * width);
  needs.scratch_bytes += Scratch::bytes_of(shared_floats(max_rows, w_.q.weights));
  std::vector<const PackedMatrix*> matrices{&w_.o_proj};
  for (const Projection* projection : {&w_.q, &w_.k, &w_.v}) {
    matrices.insert(matrices.end(), {&projection->weights, &projection->adapter_a, &projection->adapter_b});
  }
  needs.gemm_workspace_bytes = product_workspace_bytes(max_rows, matrices);
  needs.side_rows = true;
  return needs;
}

void SharedAttentionBlock::project(const BlockContext& context, const SharedRows& a, int64_t rows,
                                   const Projection& projection, const Rows& low, const Rows& out) const {
  product(context, a, rows, projection.weights, out);
  if (adapter_width() == 0) return;
  product(context, a, rows, projection.adapter_a, low);
  product(context, low, rows, projection.adapter_b, out, nullptr, true);
}

void SharedAttentionBlock::turn(const BlockContext& context, const Batch& batch, const Rows& x, int64_t heads) const {
  if (w_.inverse_frequency.empty()) return;
  kernels::rotary(context.stream, {.x = x.data,
                                   .stride = x.stride,
                                   .heads = heads,
                                   .head_dim = shared_.head_dim,
                                   .inverse_frequency = w_.inverse_frequency.data(),
                                   .runs = batch.attention});
}

void SharedAttentionBlock::attend(const BlockContext& context, const Batch& batch, const Rows& q, const Rows& k,
                                  const Rows& v, const Rows& out) const {
  turn(context, batch, q, heads());
  turn(context, batch, k, kv_range_.size());
  const kernels::KvPages pages = context.kv.layer(kv_);
  kernels::append_kv(context.stream,
                     {.pages = pages, .k = k.data, .v = v.data, .stride = k.stride, .runs = batch.attention});
  kernels::PagedAttentionArgs args;
  args.pages = pages;
  args.q = q.data;
  args.q_stride = q.stride;
  args.heads = heads();
  args.kv_of = w_.kv_of.data();
  args.scale = shared_.score_scale;
  args.out = out.data;
  args.out_stride = out.stride;
  args.runs = batch.attention;
  kernels::paged_attention(context.stream, args);
}

Status SharedAttentionBlock::start(const BlockContext& context, const Batch& batch) const {
  const int64_t rows = batch.rows();
  Scratch scratch(context.scratch);
  const auto buffer = [&](int64_t width) { return Rows{scratch.floats(rows * width), width}; };
  const Rows a = buffer(2 * hidden_);
  const Rows low = buffer(adapter_width());
  const Rows q = buffer(query_width());
  const Rows k = buffer(key_width());
  const Rows v = buffer(key_width());
  const Rows out = buffer(query_width());
  float* const room = scratch.floats(shared_floats(rows, w_.q.weights));
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(context.h + row * hidden_, hidden_, a.data + row * a.stride);
    std::copy_n(context.first + row * hidden_, hidden_, a.data + row * a.stride + hidden_);
  }
  kernels::rms_norm(context.stream, {.rows = rows,
                                     .width = 2 * hidden_,
                                     .x = a.data,
                                     .x_stride = a.stride,
                                     .weight = w_.norm,
                                     .eps = shared_.norm_eps,
                                     .out = a.data,
                                     .out_stride = a.stride});
  if (heads() > 0) {
    const SharedRows input = share_rows(context, a, rows, w_.q.weights, room);
    project(context, input, rows, w_.q, low, q);
    project(context, input, rows, w_.k, low, k);
    project(context, input, rows, w_.v, low, v);
    attend(context, batch, q, k, v, out);
  }
  product(context, out, rows, w_.o_proj, {context.side, hidden_});
  return begin_hidden_sum(context, {context.side, hidden_}, rows);
}

void SharedAttentionBlock::export_state(const SlotState& slot, WholeState& whole) const {
  const kernels::KvPages pages = slot.kv.layer(kv_);
  const int64_t head_floats = slot.tokens * shared_.head_dim;
  WholeLayerState& layer = whole.layer(layer_);
  layer.keys.resize(static_cast<size_t>(shared_.kv_heads * head_floats));
  layer.values.resize(layer.keys.size());
  for (int64_t head = 0; head < kv_range_.size(); ++head) {
    const int64_t to = (kv_range_.begin + head) * head_floats;
    kernels::read_kv(pages, head, slot.pages, slot.tokens, layer.keys.data() + to, layer.values.data() + to);
  }
}

Result<Projection> load_projection(const BlockSource& source, char which, const MatrixRows& normed) {
  auto& loader = source.loader;
  Projection out;
  ASSIGN_OR_RETURN(out.weights, loader.matrix(tensor_of(source.plan, fmt::format("{}_proj.weight", which)), 1, normed));
  if (!source.config.shared.attention_adapters) return out;
  ASSIGN_OR_RETURN(out.adapter_a,
                   loader.matrix(tensor_of(source.plan, fmt::format("{}_adapter_a.weight", which)), 1, normed));
  ASSIGN_OR_RETURN(out.adapter_b, loader.matrix(tensor_of(source.plan, fmt::format("{}_adapter_b.weight", which)), 1));
  return out;
}

/// theta^(-2 i / D) as transformers has it: in float32.
std::vector<float> inverse_frequencies(const SharedTransformerConfig& shared) {
  std::vector<float> out;
  if (!shared.rope_theta) return out;
  for (int64_t i = 0; i < shared.head_dim / 2; ++i) {
    const auto exponent = static_cast<float>(2 * i) / static_cast<float>(shared.head_dim);
    out.push_back(static_cast<float>(1 / std::pow(*shared.rope_theta, double{exponent})));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Block>> make_shared_attention_block(const BlockSource& source) {
  auto& loader = source.loader;
  const SharedTransformerConfig& shared = source.config.shared;
  AttentionWeights w;
  ASSIGN_OR_RETURN(const auto norm,
                   loader.norm(tensor_of(source.plan, "norm.weight"), 2 * source.config.hidden_size, 1));
  w.norm = norm.weight;
  const MatrixRows normed{.factors = norm.factors};
  ASSIGN_OR_RETURN(w.q, load_projection(source, 'q', normed));
  ASSIGN_OR_RETURN(w.k, load_projection(source, 'k', normed));
  ASSIGN_OR_RETURN(w.v, load_projection(source, 'v', normed));
  ASSIGN_OR_RETURN(w.o_proj, loader.matrix(tensor_of(source.plan, "o_proj.weight"), loader.partition().leaves()));
  const Range heads = loader.range(Unit::kAttentionHead);
  const Range keys = cover(loader.partition(), Unit::kAttentionHead, loader.rank(), shared.kv_heads);
  for (int64_t head = heads.begin; head < heads.end; ++head)
    w.kv_of.push_back(static_cast<int32_t>(head / (shared.heads / shared.kv_heads) - keys.begin));
  w.inverse_frequency = inverse_frequencies(shared);
  const KvLayer kv = source.kv.reserve(keys.size(), shared.head_dim);
  return std::unique_ptr<Block>(std::make_unique<SharedAttentionBlock>(source, std::move(w), kv));
}

}  // namespace krait::shard
