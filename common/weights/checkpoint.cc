#include "common/weights/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/weights/shard_index.h"

namespace krait {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

/// A regular file of at most `max_bytes`.
Result<std::string> read_text(const std::string& path, int64_t max_bytes) {
  const auto failed = [&](std::string_view what) {
    return Error{Errc::kIo, fmt::format("{}: {}: {}", path, what, std::strerror(errno)), path};
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return failed("cannot be examined");
  if (!S_ISREG(info.st_mode)) return Error{Errc::kIo, fmt::format("{}: not a regular file", path), path};
  if (info.st_size > max_bytes) {
    return Error{Errc::kCorrupt, fmt::format("{}: {} bytes, more than {}", path, info.st_size, max_bytes), path};
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return failed("cannot be opened");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  // What was appended since stat() is not read; what was cut off is missed here.
  if (std::fread(text.data(), 1, text.size(), file.get()) != text.size()) return failed("cannot be read");
  return text;
}

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

void add_content(Hash& hash, const TensorView& view) {
  constexpr int64_t kWholeBytes = 64 * kKiB;
  constexpr int64_t kBlocks = 16;
  constexpr int64_t kBlockBytes = 4 * kKiB;
  const int64_t bytes = view.bytes();
  if (bytes <= kWholeBytes) return hash.add(view.data, static_cast<size_t>(bytes));
  for (int64_t block = 0; block < kBlocks; ++block) {
    // Divide first: bytes times block would overflow only for absurd tensors, but it costs nothing to be safe.
    const int64_t at = block + 1 == kBlocks ? bytes - kBlockBytes : (bytes - kBlockBytes) / (kBlocks - 1) * block;
    hash.add(view.data + at, static_cast<size_t>(kBlockBytes));
  }
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& model_dir) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->directory_ = model_dir;
  const std::string config_path = model_dir + "/config.json";
  if (!exists(config_path)) {
    return Error{Errc::kNotFound, fmt::format("{}: there is no such file", config_path), config_path};
  }
  ASSIGN_OR_RETURN(checkpoint->config_json_, read_text(config_path, limits::kMaxConfigBytes));
  const std::string generation_path = model_dir + "/generation_config.json";
  if (exists(generation_path)) {
    ASSIGN_OR_RETURN(checkpoint->generation_config_json_, read_text(generation_path, limits::kMaxConfigBytes));
  }
  Result<ModelConfig> config = parse_model_config(checkpoint->config_json_, checkpoint->generation_config_json_);
  if (!config.ok()) {
    return Error{config.error().code, fmt::format("{}/{}", model_dir, config.error().message), config.error().param};
  }
  checkpoint->config_ = std::move(config).value();

  if (exists(fmt::format("{}/{}", model_dir, kSingleFile))) {
    RETURN_IF_ERROR(checkpoint->add_file(std::string(kSingleFile)));
  } else if (exists(fmt::format("{}/{}", model_dir, kIndexFile))) {
    RETURN_IF_ERROR(checkpoint->add_indexed_files());
  } else {
    const bool pickled =
        exists(model_dir + "/pytorch_model.bin") || exists(model_dir + "/pytorch_model.bin.index.json");
    return Error{pickled ? Errc::kUnsupported : Errc::kNotFound,
                 fmt::format("{}: neither {} nor {}{}", model_dir, kSingleFile, kIndexFile,
                             pickled ? "; pytorch_model.bin is not read: convert it to safetensors" : ""),
                 model_dir};
  }
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

Status Checkpoint::add_file(const std::string& name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const SafetensorsFile> file, SafetensorsFile::open(directory_ + "/" + name));
  for (const auto& [tensor, view] : file->tensors()) {
    const auto [at, added] = tensors_.emplace(tensor, Entry{file, &view});
    if (!added) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}: tensor '{}' is in {} too", file->path(), tensor, at->second.file->path()), tensor};
    }
  }
  return {};
}

Status Checkpoint::add_indexed_files() {
  const std::string index_path = fmt::format("{}/{}", directory_, kIndexFile);
  ASSIGN_OR_RETURN(const std::string text, read_text(index_path, limits::kMaxIndexBytes));
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
    if (at == tensors_.end() || at->second.file->path() != directory_ + "/" + file) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is not in {}", index_path, tensor, file), tensor};
    }
  }
  for (const auto& [tensor, entry] : tensors_) {
    if (!weight_map.contains(tensor)) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is not in the index", entry.file->path(), tensor),
                   tensor};
    }
  }
  return {};
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : at->second.view;
}

std::vector<std::string> Checkpoint::tensor_names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_)
    names.push_back(name);
  return names;
}

Status Checkpoint::check(const ModelPlan& plan) const {
  std::set<std::string, std::less<>> used(plan.harmless_tensors.begin(), plan.harmless_tensors.end());
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      const std::string& name = spec.stored_name();
      used.insert(name);
      const auto at = tensors_.find(name);
      if (at == tensors_.end()) {
        if (spec.optional) continue;
        return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is missing", directory_, name), name};
      }
      const TensorView& view = *at->second.view;
      const auto bad = [&](Errc code, std::string_view what) {
        return Error{code, fmt::format("{}: tensor '{}' {}", at->second.file->path(), name, what), name};
      };
      if (view.shape != spec.stored_shape()) {
        return bad(Errc::kCorrupt, fmt::format("is {}, not {} as the config has it", view.shape, spec.stored_shape()));
      }
      if (view.dtype != DType::kF32 && view.dtype != DType::kBF16 && view.dtype != DType::kF16) {
        return bad(Errc::kUnsupported, fmt::format("is {}; F32, BF16 and F16 are served", dtype_name(view.dtype)));
      }
    }
  }
  for (const auto& [name, entry] : tensors_) {
    if (!used.contains(name)) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' is of no use to this model", entry.file->path(), name),
                   name};
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
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::make(at->second.file, *at->second.view, spec, partition, rank));
  return std::optional<SliceReader>(std::move(reader));
}

std::string Checkpoint::fingerprint() const {
  Hash hash;
  hash.add_text(config_json_);
  hash.add_text(generation_config_json_.value_or(""));
  for (const auto& [name, entry] : tensors_) {
    hash.add_text(name);
    hash.add_text(dtype_name(entry.view->dtype));
    hash.add_number(static_cast<int64_t>(entry.view->shape.size()));
    for (const int64_t extent : entry.view->shape)
      hash.add_number(extent);
    add_content(hash, *entry.view);
    entry.file->drop_pages(*entry.view);
  }
  return hash.hex();
}

std::string model_name_of(const std::string& model_dir) {
  std::error_code error;  // without a working directory the name is taken from the path as given
  std::filesystem::path folder = std::filesystem::absolute(model_dir, error);
  folder = (error ? std::filesystem::path(model_dir) : folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename();
}

}  // namespace krait
