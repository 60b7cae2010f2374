#include "common/model/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/json_text.h"
#include "common/base/limits.h"
#include "common/model/architecture.h"
#include "common/model/config_reader.h"

namespace krait {
namespace {

using nlohmann::json;

// What Hugging Face writes into every config and what has no say in the forward pass of a causal language model.
constexpr auto kHarmless = std::to_array<std::string_view>({"_name_or_path",
                                                            "add_cross_attention",
                                                            "architectures",
                                                            "auto_map",
                                                            "bad_words_ids",
                                                            "bos_token_id",
                                                            "chunk_size_feed_forward",
                                                            "decoder_start_token_id",
                                                            "eos_token_id",
                                                            "finetuning_task",
                                                            "id2label",
                                                            "initializer_range",
                                                            "is_decoder",
                                                            "is_encoder_decoder",
                                                            "label2id",
                                                            "max_position_embeddings",
                                                            "model_type",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "pad_token_id",
                                                            "problem_type",
                                                            "pruned_heads",
                                                            "return_dict",
                                                            "sep_token_id",
                                                            "task_specific_params",
                                                            "tokenizer_class",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "use_cache"});

const Architecture* architecture_of(std::string_view model_type) {
  for (const Architecture* architecture : all_architectures()) {
    const auto types = architecture->model_types;
    if (std::find(types.begin(), types.end(), model_type) != types.end()) return architecture;
  }
  return nullptr;
}

std::string known_model_types() {
  std::string list;
  for (const Architecture* architecture : all_architectures()) {
    for (const std::string_view type : architecture->model_types) {
      if (type == kStateSpacesType) continue;  // no file says so: it is what configs without a type are
      list += fmt::format("{}{}", list.empty() ? "" : ", ", type);
    }
  }
  return list;
}

/// Adds the ids of `field` (an integer, a list of them, or null) to `ids`.
Status add_token_ids(const json& object, std::string_view file, std::string_view field, int64_t vocab_size,
                     std::set<int32_t>& ids) {
  const auto at = object.find(field);
  if (at == object.end() || at->is_null()) return {};
  const json list = at->is_array() ? *at : json::array({*at});
  for (const json& value : list) {
    const bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) &&
                      value.get<int64_t>() >= 0 && value.get<int64_t>() < vocab_size;
    if (!fits) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}: {} holds something that is no token id below {}", file, field, vocab_size),
                   std::string(field)};
    }
    ids.insert(value.get<int32_t>());
  }
  if (ids.size() > static_cast<size_t>(limits::kMaxEosIds)) {
    return Error{Errc::kCorrupt, fmt::format("{}: {} has more than {} ids", file, field, limits::kMaxEosIds),
                 std::string(field)};
  }
  return {};
}

Status read_token_ids(const json& config_json, const json& generation_json, ModelConfig& config) {
  std::set<int32_t> eos;
  std::set<int32_t> bos;
  const auto add = [&](const json& object, std::string_view file, std::string_view field, std::set<int32_t>& ids) {
    return add_token_ids(object, file, field, config.vocab_size, ids);
  };
  RETURN_IF_ERROR(add(config_json, "config.json", "eos_token_id", eos));
  RETURN_IF_ERROR(add(generation_json, "generation_config.json", "eos_token_id", eos));
  config.eos_ids.assign(eos.begin(), eos.end());
  RETURN_IF_ERROR(add(config_json, "config.json", "bos_token_id", bos));
  if (bos.empty()) RETURN_IF_ERROR(add(generation_json, "generation_config.json", "bos_token_id", bos));
  if (!bos.empty()) config.bos_id = *bos.begin();
  return {};
}

Result<ModelConfig> read_config(const json& config_json, const json& generation_json) {
  ConfigReader reader(config_json, "config.json");
  const bool of_the_authors = reader.get("model_type") == nullptr && reader.get("d_model") != nullptr;
  const std::string model_type = of_the_authors ? std::string(kStateSpacesType) : reader.word("model_type", "");
  RETURN_IF_ERROR(reader.status());
  if (model_type.empty()) return Error{Errc::kUnsupported, "config.json: model_type is missing", "model_type"};
  const Architecture* architecture = architecture_of(model_type);
  if (architecture == nullptr) {
    return Error{
        Errc::kUnsupported,
        fmt::format("config.json: model_type '{:.64}' is not served; these are: {}", model_type, known_model_types()),
        "model_type"};
  }
  ModelConfig config;
  config.architecture = architecture->name;
  architecture->read_config(reader, config);
  // Both generations of the spelling are read, so that neither counts as unknown.
  const std::string older_dtype = reader.word("torch_dtype", "");
  config.torch_dtype = reader.word("dtype", older_dtype);
  reader.must_be_empty("quantization_config");
  reader.harmless(kHarmless);
  RETURN_IF_ERROR(reader.status());
  config.unknown_fields = reader.unknown_fields();
  RETURN_IF_ERROR(read_token_ids(config_json, generation_json, config));
  return config;
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view config_json,
                                       std::optional<std::string_view> generation_config_json) {
  ASSIGN_OR_RETURN(const json config, parse_json_object(config_json, "config.json", limits::kMaxConfigBytes));
  json generation = json::object();
  if (generation_config_json) {
    ASSIGN_OR_RETURN(generation,
                     parse_json_object(*generation_config_json, "generation_config.json", limits::kMaxConfigBytes));
  }
  try {
    return read_config(config, generation);
  } catch (const std::exception& error) {
    return Error{Errc::kCorrupt, fmt::format("config.json: {}", error.what()), "config.json"};
  }
}

}  // namespace krait
