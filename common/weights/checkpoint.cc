#include "common/weights/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/file.h"
#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/tensor/stored_values.h"
#include "common/weights/safetensors.h"
#include "common/weights/shard_index.h"

namespace krait {
namespace {

constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

class Hash final {
 public:
  Hash() { XXH3_128bits_reset(&state_); }
  void add(const void* data, size_t bytes) { XXH3_128bits_update(&state_, data, bytes); }
  /// With its length, so that neighbours cannot run into each other.
  void add_text(std::string_view text) {
    add_number(static_cast<int64_t>(text.size()));
    add(text.data(), text.size());
  }
  void add_number(int64_t number) { add(&number, sizeof(number)); }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_;
};

Status add_content(Hash& hash, const CheckpointTensor& at) {
  constexpr int64_t kWholeBytes = 64 * kKiB;
  constexpr int64_t kBlocks = 16;
  constexpr int64_t kBlockBytes = 4 * kKiB;
  const int64_t bytes = at.tensor->bytes();
  const int64_t blocks = bytes <= kWholeBytes ? 1 : kBlocks;
  std::vector<std::byte> block(static_cast<size_t>(blocks == 1 ? bytes : kBlockBytes));
  for (int64_t i = 0; i < blocks; ++i) {
    // Divide first: bytes times i would overflow only for absurd tensors, but it costs nothing to be safe.
    const int64_t first =
        i + 1 == blocks ? bytes - static_cast<int64_t>(block.size()) : (bytes - kBlockBytes) / (kBlocks - 1) * i;
    RETURN_IF_ERROR(at.source->read(*at.tensor, first, block));
    hash.add(block.data(), block.size());
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& model) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->directory_ = model;
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(model, error);
  RETURN_IF_ERROR(is_file ? checkpoint->read_gguf() : checkpoint->read_folder());
  RETURN_IF_ERROR(checkpoint->finish());
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::make(CheckpointParts parts) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->directory_ = std::move(parts.name);
  checkpoint->config_json_ = std::move(parts.config_json);
  RETURN_IF_ERROR(checkpoint->take_config());
  for (auto& source : parts.sources)
    RETURN_IF_ERROR(checkpoint->add_source(std::move(source)));
  RETURN_IF_ERROR(checkpoint->finish());
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

Status Checkpoint::finish() {
  RETURN_IF_ERROR(check_plan());
  return take_fingerprint();
}

Status Checkpoint::read_folder() {
  RETURN_IF_ERROR(read_config());
  return add_tensors();
}

Status Checkpoint::read_gguf() {
  ASSIGN_OR_RETURN(gguf_, GgufFile::open(directory_));
  config_json_ = gguf_config_json(*gguf_);
  RETURN_IF_ERROR(take_config());
  return add_source(gguf_);
}

Status Checkpoint::read_config() {
  ASSIGN_OR_RETURN(config_json_,
                   read_text_file(fmt::format("{}/{}", directory_, kConfigFile), limits::kMaxConfigBytes));
  const std::string generation_path = directory_ + "/generation_config.json";
  if (entry_exists(generation_path)) {
    ASSIGN_OR_RETURN(generation_config_json_, read_text_file(generation_path, limits::kMaxConfigBytes));
  }
  return take_config();
}

Status Checkpoint::take_config() {
  const Result<ModelConfig> config = parse_model_config(config_json_, generation_config_json_);
  if (!config.ok()) {
    // It knows its text by the usual name only; a GGUF file's config is inside it.
    std::string_view what = config.error().message;
    if (gguf_ && what.starts_with(kConfigFile)) what.remove_prefix(kConfigFile.size());
    return Error{config.error().code, fmt::format("{}{}{}", directory_, gguf_ ? "" : "/", what), config.error().param};
  }
  ASSIGN_OR_RETURN(plan_, make_model_plan(*config));
  return {};
}

Status Checkpoint::add_tensors() {
  if (entry_exists(fmt::format("{}/{}", directory_, kSingleFile))) return add_file(std::string(kSingleFile));
  if (entry_exists(fmt::format("{}/{}", directory_, kIndexFile))) return add_indexed_files();
  const bool pickled =
      entry_exists(directory_ + "/pytorch_model.bin") || entry_exists(directory_ + "/pytorch_model.bin.index.json");
  return Error{pickled ? Errc::kUnsupported : Errc::kNotFound,
               fmt::format("{}: neither {} nor {}{}", directory_, kSingleFile, kIndexFile,
                           pickled ? "; pytorch_model.bin is not read: convert it to safetensors" : ""),
               directory_};
}

Status Checkpoint::add_file(const std::string& name) {
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::open(directory_ + "/" + name));
  return add_source(std::move(file));
}

Status Checkpoint::add_source(std::shared_ptr<const TensorSource> source) {
  for (const auto& [name, tensor] : source->tensors()) {
    const auto [at, added] = tensors_.emplace(name, CheckpointTensor{source, &tensor});
    if (!added) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}: tensor '{}' is in {} too", source->name(), name, at->second.source->name()), name};
    }
  }
  sources_.push_back(std::move(source));
  return {};
}

Status Checkpoint::add_indexed_files() {
  const std::string index_path = fmt::format("{}/{}", directory_, kIndexFile);
  ASSIGN_OR_RETURN(const std::string text, read_text_file(index_path, limits::kMaxIndexBytes));
  ASSIGN_OR_RETURN(const auto weight_map, parse_shard_index(text, index_path));
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map)
    files.insert(file);
  if (static_cast<int64_t>(files.size()) > limits::kMaxCheckpointFiles) {
    return Error{Errc::kCorrupt,
                 fmt::format("{}: names {} files, more than {}", index_path, files.size(), limits::kMaxCheckpointFiles),
                 index_path};
  }
  for (const std::string& file : files)
    RETURN_IF_ERROR(add_file(file));
  for (const auto& [tensor, file] : weight_map) {
    const auto at = tensors_.find(tensor);
    if (at == tensors_.end() || at->second.source->name() != directory_ + "/" + file) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is not in {}", index_path, tensor, file), tensor};
    }
  }
  for (const auto& [tensor, entry] : tensors_) {
    if (!weight_map.contains(tensor)) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is not in the index", entry.source->name(), tensor),
                   tensor};
    }
  }
  return {};
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

std::vector<std::string> Checkpoint::tensor_names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_)
    names.push_back(name);
  return names;
}

Status Checkpoint::check_plan() const {
  std::set<std::string, std::less<>> used(plan_.harmless_tensors.begin(), plan_.harmless_tensors.end());
  for (const BlockPlan& block : plan_.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      const std::string& name = spec.stored_name();
      used.insert(name);
      const auto at = tensors_.find(name);
      if (at == tensors_.end()) {
        if (spec.optional) continue;
        return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is missing", directory_, name), name};
      }
      const StoredTensor& tensor = *at->second.tensor;
      const auto bad = [&](Errc code, std::string_view what) {
        return Error{code, fmt::format("{}: tensor '{}' {}", at->second.source->name(), name, what), name};
      };
      if (tensor.shape != spec.stored_shape()) {
        return bad(Errc::kCorrupt,
                   fmt::format("is {}, not {} as the config has it", tensor.shape, spec.stored_shape()));
      }
      if (!is_weight_dtype(tensor.dtype)) {
        return bad(Errc::kUnsupported,
                   fmt::format("is {}; {} are served", dtype_name(tensor.dtype), weight_dtype_names()));
      }
    }
  }
  for (const auto& [name, entry] : tensors_) {
    if (!used.contains(name)) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}: tensor '{}' is of no use to this model", entry.source->name(), name), name};
    }
  }
  return {};
}

Result<std::optional<SliceReader>> Checkpoint::slice(const TensorSpec& spec, const Partition& partition,
                                                     int rank) const {
  const auto at = tensors_.find(spec.stored_name());
  if (at == tensors_.end()) {
    if (spec.optional) return std::optional<SliceReader>();
    return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is missing", directory_, spec.stored_name()),
                 spec.stored_name()};
  }
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::make(at->second.source, *at->second.tensor, spec, partition, rank));
  return std::optional<SliceReader>(std::move(reader));
}

Status Checkpoint::take_fingerprint() {
  Hash hash;
  hash.add_text(config_json_);
  hash.add_text(generation_config_json_.value_or(""));
  for (const auto& [name, at] : tensors_) {
    hash.add_text(name);
    hash.add_text(dtype_name(at.tensor->dtype));
    hash.add_number(static_cast<int64_t>(at.tensor->shape.size()));
    for (const int64_t extent : at.tensor->shape)
      hash.add_number(extent);
    RETURN_IF_ERROR(add_content(hash, at));
  }
  fingerprint_ = hash.hex();
  return check_unchanged();
}

Status Checkpoint::check_unchanged() const {
  for (const auto& source : sources_)
    RETURN_IF_ERROR(source->check_unchanged());
  return {};
}

}  // namespace krait
