#include "common/model/plan_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/model/config_reader.h"

namespace krait {
namespace {

constexpr int64_t kVocabBlock = 16;

}  // namespace

TensorSpec row_view(std::string role, std::string stored, Shape shape, const RowView& rows, Cut cut) {
  Shape in_file = shape;
  in_file[0] = rows.stored_rows;
  int64_t row_elements = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis)
    row_elements *= shape[axis];
  TensorSpec spec{.role = std::move(role), .name = std::move(stored), .shape = std::move(shape), .cut = std::move(cut)};
  spec.view = {.stored_shape = std::move(in_file), .first_element = rows.first_row * row_elements};
  if (rows.row_step > 1) {
    // Every other element of a vector is a column of a matrix.
    if (spec.shape.size() == 1) spec.shape.push_back(1);
    spec.view.row_step = rows.row_step * row_elements;
  }
  return spec;
}

BlockPlan embedding_block(const ModelConfig& config, const std::string& name) {
  const Shape table{config.vocab_size, config.hidden_size};
  return {.kind = BlockKind::kEmbedding, .tensors = {{.role = "embedding.weight", .name = name, .shape = table}}};
}

void add_lm_head(ModelPlan& plan, const std::string& norm, const std::string& embeddings) {
  const ModelConfig& config = plan.config;
  const std::string lm_head = "lm_head.weight";
  BlockPlan head{.kind = BlockKind::kLmHead};
  head.tensors.push_back({.role = "norm.weight", .name = norm, .shape = {config.hidden_size}});
  head.tensors.push_back({.role = lm_head,
                          .name = lm_head,
                          .shape = {config.vocab_size, config.hidden_size},
                          .cut = cut_by(Unit::kVocab, 0, config.vocab_size),
                          .packing = Packing::kFineMatrix,
                          .source = config.tie_word_embeddings ? embeddings : ""});
  plan.blocks.push_back(std::move(head));
  if (config.tie_word_embeddings) plan.harmless_tensors.push_back(lm_head);
}

void add_norm_and_out_proj(BlockPlan& block, const ModelConfig& config, const LayerNames& names, Unit unit,
                           int64_t units) {
  const int64_t inner = config.mixer.inner_size;
  const Segment columns{.kind = Segment::Kind::kCut, .unit = unit, .count = units, .width = inner / units};
  block.tensors.push_back({.role = "norm.weight", .name = names.norm + ".weight", .shape = {config.hidden_size}});
  block.tensors.push_back({.role = "out_proj.weight",
                           .name = names.mixer + "out_proj.weight",
                           .shape = {config.hidden_size, inner},
                           .cut = {.axis = 1, .segments = {columns}},
                           .packing = Packing::kMatrix});
  if (config.mixer.use_bias) {
    block.tensors.push_back(
        {.role = "out_proj.bias", .name = names.mixer + "out_proj.bias", .shape = {config.hidden_size}});
  }
}

void set_vocab_units(ModelConfig& config) {
  config.unit(Unit::kVocab) = {.count = config.vocab_size, .block = kVocabBlock};
}

void read_common_sizes(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", 1, limits::kMaxVocab);
  config.hidden_size = reader.integer("hidden_size", 1, limits::kMaxHidden);
  config.layers = reader.integer("num_hidden_layers", 1, limits::kMaxLayers);
}

}  // namespace krait
