// Pieces of which families make their configs and plans. Inside common/model only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/model/model_config.h"
#include "common/model/model_plan.h"

namespace krait {

class ConfigReader;

/// How a family spells the tensors of one layer.
struct LayerNames final {
  std::string norm;   // the norm before the mixer, without ".weight"
  std::string mixer;  // what stands before the mixer's tensors, with its dot
};

/// Where a stored matrix holds a view's rows: from `first_row` on, every `row_step`-th.
struct RowView final {
  int64_t stored_rows = 0;
  int64_t first_row = 0;
  int64_t row_step = 1;
};

/// A view of `shape` of the rows of a stored tensor whose further axes are those of `shape`. Of a stored vector, every
/// other element is viewed as a matrix of one column.
TensorSpec row_view(std::string role, std::string stored, Shape shape, const RowView& rows, Cut cut);

BlockPlan embedding_block(const ModelConfig& config, const std::string& name);

/// The final norm and lm_head, which is read from the embeddings where it is tied; then a stored copy is harmless.
void add_lm_head(ModelPlan& plan, const std::string& norm, const std::string& embeddings);

/// What both kinds of Mamba-1 and Mamba-2 mixers share: norm, out_proj and its bias.
void add_norm_and_out_proj(BlockPlan& block, const ModelConfig& config, const LayerNames& names, Unit unit,
                           int64_t units);

/// The vocabulary in blocks of 16; it cuts no K.
void set_vocab_units(ModelConfig& config);

/// H, layers and V under Hugging Face's usual names.
void read_common_sizes(ConfigReader& reader, ModelConfig& config);

}  // namespace krait
